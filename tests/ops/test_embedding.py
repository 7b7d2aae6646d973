"""Embeddings and bags of them."""

import pytest
import torch
from oracle import MODES, check, check_grad
from samples import values
from torch.nn import functional as F

WORDS = torch.tensor([[1, 4, 4], [0, 1, 6]])


@pytest.mark.parametrize("mode", MODES)
def test_embedding(mode: str) -> None:
    check_grad(lambda w, i: F.embedding(i, w), values(7, 5).requires_grad_(), WORDS, mode=mode)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 1, -1])
def test_gradient(padding: int | None, by_frequency: bool, dtype: torch.dtype) -> None:
    def fn(w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, w, padding_idx=padding, scale_grad_by_freq=by_frequency)

    check_grad(fn, values(7, 5, dtype=dtype).requires_grad_(), WORDS)
    check_grad(fn, values(7, 5, dtype=dtype).requires_grad_(), WORDS.int())


def test_little() -> None:
    check_grad(lambda w, i: F.embedding(i, w), values(7, 5).requires_grad_(), torch.zeros(0, dtype=torch.int64))
    check_grad(lambda w, i: F.embedding(i, w), values(7, 5).requires_grad_(), torch.tensor(3))


def test_max_norm() -> None:
    for p in (1.0, 2.0, 3.0, float("inf")):
        check(lambda w, i, p=p: (F.embedding(i, w, max_norm=2.0, norm_type=p), w), values(7, 5), WORDS)


@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_bags(how: str, last: bool, padding: int | None) -> None:
    def fn(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(i, w, o, mode=how, include_last_offset=last, padding_idx=padding)

    offsets = torch.tensor([0, 2, 2, 6] if last else [0, 2, 2])
    check_grad(fn, values(7, 5).requires_grad_(), WORDS.flatten(), offsets)


def test_bags_of_equal_size() -> None:
    check_grad(lambda w, i: F.embedding_bag(i, w), values(7, 5).requires_grad_(), WORDS)


def test_weighted_bags() -> None:
    def fn(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, padding_idx=4)

    w, s = values(7, 5).requires_grad_(), values(6, seed=1).requires_grad_()
    check_grad(fn, w, WORDS.flatten(), torch.tensor([0, 2, 2]), s)
