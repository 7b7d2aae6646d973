"""Indices out of bounds: an error that names op, index and size in Debug mode, one defined answer elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tpu


def at(*v: Any) -> torch.Tensor:
    return torch.tensor(v, device="tpu")


def wide(x: torch.Tensor, i: int) -> torch.Tensor:
    return torch.full((1, x.size(1)), i, device="tpu")


Case = tuple[Callable[[torch.Tensor], Any], str, int, int]

# What is called on a 5 x 4 tensor, the name in the error, the bad index, the size.
CASES: dict[str, Case] = {
    "index_select": (lambda x: x.index_select(0, at(0, 7)), "index_select", 7, 5),
    "index_select negative": (lambda x: x.index_select(1, at(-1)), "index_select", -1, 4),
    "index": (lambda x: x[at(0, -6)], "index", -6, 5),
    "index, second": (lambda x: x[at(0), at(9)], "index", 9, 4),
    "index_put": (lambda x: x.index_put_((at(5),), at(1.0)), "index_put", 5, 5),
    "setitem": (lambda x: x.__setitem__(at(5), 1.0), "index_put", 5, 5),
    "gather": (lambda x: x.gather(1, at([0], [4])), "gather", 4, 4),
    "scatter": (lambda x: x.scatter(0, wide(x, 5), x), "scatter", 5, 5),
    "scatter_": (lambda x: x.scatter_(0, wide(x, -1), 1.0), "scatter", -1, 5),
    "scatter_add": (lambda x: x.scatter_add(0, wide(x, 6), x), "scatter_add", 6, 5),
    "scatter_reduce": (lambda x: x.scatter_reduce(0, wide(x, 6), x, "amax"), "scatter_reduce", 6, 5),
    "embedding": (lambda x: torch.nn.functional.embedding(at(1, 77), x), "embedding", 77, 5),
    "embedding_bag": (lambda x: torch.nn.functional.embedding_bag(at([1, 77]), x), "embedding_bag", 77, 5),
    "take": (lambda x: x.take(at(20)), "take", 20, 20),
    "put": (lambda x: x.put_(at(-21), at(1.0)), "put", -21, 20),
    "index_add": (lambda x: x.index_add_(0, at(9), x[:1].clone()), "index_add", 9, 5),
    "index_copy": (lambda x: x.index_copy_(0, at(9), x[:1].clone()), "index_copy", 9, 5),
    "index_fill": (lambda x: x.index_fill_(0, at(-9), 2.0), "index_fill", -9, 5),
    "index_reduce": (lambda x: x.index_reduce_(0, at(6), x[:1].clone(), "amax"), "index_reduce", 6, 5),
}


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(20.0).reshape(5, 4).to("tpu")


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("case", CASES)
def test_raises_in_debug(case: str, x: torch.Tensor) -> None:
    fn, op, index, size = CASES[case]
    with torch_tpu.eager_mode("debug"), pytest.raises(IndexError, match=rf"{op}.*index {index} .*size {size}"):
        fn(x)
    # The call did nothing, and what it would have replaced is still there.
    assert torch.equal(x.cpu(), torch.arange(20.0).reshape(5, 4))


@pytest.mark.parametrize("mode", ["strict", "defer"])
def test_reads_come_from_the_nearest(mode: str, x: torch.Tensor) -> None:
    with torch_tpu.eager_mode(mode):
        got = [x.index_select(0, at(7, -3)), x[at(7, -9)], x.gather(0, wide(x, 7)), torch.embedding(x, at(7))]
        got = [t.cpu() for t in got]
    cpu = x.cpu()
    assert torch.equal(got[0], cpu[[4, 0]])
    assert torch.equal(got[1], cpu[[4, 0]])
    assert torch.equal(got[2], cpu[4:])
    assert torch.equal(got[3], cpu[4:])


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("mode", ["strict", "defer"])
def test_writes_are_dropped(mode: str, x: torch.Tensor) -> None:
    with torch_tpu.eager_mode(mode):
        for case in ("index_put", "scatter", "scatter_", "scatter_add", "index_add", "index_copy", "index_fill", "put"):
            CASES[case][0](x)
    assert torch.equal(x.cpu(), torch.arange(20.0).reshape(5, 4))


def test_good_indices_pass(x: torch.Tensor) -> None:
    with torch_tpu.eager_mode("debug"):
        assert x[at(-5, 4)].shape == (2, 4)
        assert x[at(1)[:0]].shape == (0, 4)
        x.index_put_((at(0, -1),), at(1.0), accumulate=True)
