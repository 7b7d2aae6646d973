"""Calls that PyTorch refuses inside of its kernels, where meta functions say nothing, or something else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import check_error
from torch.nn import functional as F

f32, f64, s64 = torch.float32, torch.float64, torch.int64


def ones(*shape: int, dtype: torch.dtype = f32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "amax_out": (lambda x, out: torch.amax(x, 0, out=out), [ones(2, 3), ones(3, dtype=s64)]),
    "aminmax_out": (lambda x, a, b: torch.aminmax(x, dim=0, out=(a, b)), [ones(2, 3), ones(3), ones(3, dtype=f64)]),
    "binomial": (torch.binomial, [ones(2, dtype=s64), ones(2)]),
    "binomial_prob": (torch.binomial, [ones(2), ones(2, dtype=s64)]),
    "complex": (torch.complex, [ones(2), ones(2, dtype=f64)]),
    "complex_integers": (torch.complex, [ones(2), ones(2, dtype=s64)]),
    "complex_out": (lambda x, out: torch.complex(x, x, out=out), [ones(2, dtype=f64), ones(2, dtype=torch.complex64)]),
    "conv": (F.conv1d, [ones(1, 1, 4), ones(1, 2)]),
    "dot": (torch.dot, [ones(1), ones(3, dtype=f64)]),
    "embedding": (lambda w, i: F.embedding(i, w), [ones(2), ones(2, dtype=s64)]),
    "embedding_renorm": (lambda w, i: F.embedding(i, w, max_norm=0.5), [ones(2, 2, dtype=s64), ones(2, dtype=s64)]),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), [ones(3, 2), ones(2, dtype=s64), ones(2)]),
    "masked_fill": (lambda x, m, v: x.masked_fill(m, v), [ones(2), ones(2) > 0, ones(1)]),
    "masked_fill_complex": (lambda x, m: x.masked_fill(m, 1j), [ones(2, dtype=s64), ones(2) > 0]),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m, y), [ones(2), ones(2, dtype=torch.uint8), ones(2)]),
    "max_unpool": (lambda x, i: F.max_unpool2d(x, i, 3, 2), [ones(1, 1, 4, 4), ones(1, 1, 4, 1, dtype=s64)]),
    "multi_margin_dtype": (F.multi_margin_loss, [ones(5, 4), ones(5)]),
    "multi_margin_weight": (
        lambda x, y, w: F.multi_margin_loss(x, y, weight=w),
        [ones(5, 4), ones(5, dtype=s64), ones(5)],
    ),
    "multilabel_margin": (F.multilabel_margin_loss, [ones(5, 4), ones(4)]),
    "multinomial_out": (lambda p, out: torch.multinomial(p, 2, out=out), [ones(1, 2), ones(1, 2)]),
    "normal": (lambda x: x.normal_(0, -1), [ones(2)]),
    "roll": (lambda x: x.roll((2, 1), 0), [ones(3, 3)]),
    "soft_margin": (F.soft_margin_loss, [ones(5, 4), ones(5)]),
    "trace": (torch.trace, [ones(3, 4, 5)]),
}


@pytest.mark.parametrize("name", CASES)
def test_in_the_words_of_the_cpu(name: str) -> None:
    fn, tensors = CASES[name]
    check_error(fn, *tensors)
