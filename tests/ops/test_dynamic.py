"""Operators whose results have sizes that depend on data."""

from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad
from samples import values


def few(*shape: int, count: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("mode", MODES)
def test_nonzero(mode: str) -> None:
    check(
        lambda x: (x.nonzero(), x.nonzero(as_tuple=True), torch.argwhere(x), torch.where(x > 1)), few(3, 5), mode=mode
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8, torch.complex64, torch.bfloat16], ids=str)
def test_nonzero_dtypes(dtype: torch.dtype) -> None:
    check(lambda x: (x.nonzero(), x.t().nonzero(), x[:0].nonzero(), x[0, 0].nonzero()), few(3, 5).to(dtype))


def test_nonzero_of_few_and_many() -> None:
    x = torch.zeros(100)
    check(lambda x: x.nonzero(), x)
    check(lambda x: x.nonzero(), x + 1)
    x[[3, 50, 99]] = float("nan")
    check(lambda x: x.nonzero() * 2, x)
    check(lambda x: torch.nonzero(x, out=torch.empty(0, dtype=torch.int64, device=x.device)), x)


def test_nonzero_static() -> None:
    check(lambda x: (torch.nonzero_static(x, size=4), torch.nonzero_static(x, size=40, fill_value=7)), few(3, 5))


@pytest.mark.parametrize("mode", MODES)
def test_masks(mode: str) -> None:
    x = values(4, 5)
    m = x > 0
    check(lambda x, m: (x[m], x[m[:, 0]], x[:, m[0]], x.masked_select(m[0])), x, m, mode=mode)


def test_masks_and_gradients() -> None:
    x = values(4, 5).requires_grad_()
    m = x.detach() > 0
    check_grad(lambda x, m: x[m] * x[m].sum(), x, m)
    check_grad(lambda x, m: (x[m[:, 0]], x[:, m[0]], x.masked_select(m)), x, m)


def test_mixed_masks() -> None:
    x, m = values(4, 5, 3), torch.tensor([True, False, True, False, True])
    check(lambda x, m, i: (x[i, m], x[i, m, 0], x[:, m, i[:, 0]]), x, m, torch.tensor([[1], [0], [2]]))
    check(lambda x, m: x[m], x, values(4, 5) > 0)
    check(lambda x: (x[torch.tensor([True, False, False, True])], x[[False] * 4]), x)
    check(lambda x, m: x[m.byte()], x[0], m)


def test_masks_of_little() -> None:
    check(lambda x, m: (x[m], x.masked_select(m)), values(0, 3), torch.zeros(0, 3, dtype=torch.bool))
    check(lambda x, m: x[m], values(4, 3), torch.zeros(4, dtype=torch.bool))
    check(lambda x, m: torch.masked_select(x, m, out=x.new_empty(0)), values(4, 3), values(4, 3) > 0)


def test_a_new_count_compiles_little() -> None:
    x = torch.arange(64, device="tpu")
    for n in (40, 41):
        x[x < n].sum()
    before = torch.tpu.compile_stats()["compiles"]
    x[x < 42]
    assert torch.tpu.compile_stats()["compiles"] == before


def test_one_value_is_read() -> None:
    x = values(40).to("tpu")
    m = x > 0
    x[m]
    before = torch.tpu.compile_stats()["materializations"]
    with pytest.MonkeyPatch.context():
        x[m]
    assert torch.tpu.compile_stats()["materializations"] - before <= 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool, torch.uint8], ids=str)
def test_unique(dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> Any:
        return torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x)

    check(fn, few(4, 6, count=7).to(dtype))
    check(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), few(4, 6, count=2).to(dtype))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_slices(dim: int) -> None:
    x = few(4, 3, 16, count=2)[:, :1]
    check(lambda x: torch.unique(x, dim=dim, return_inverse=True, return_counts=True), x)
    check(lambda x: torch.unique_consecutive(x, dim=dim, return_inverse=True, return_counts=True), x)


def test_unique_of_edges() -> None:
    nan = float("nan")
    check(lambda x: torch.unique(x, return_counts=True), torch.tensor([1.0, nan, 0, nan, 1, float("inf")]))
    check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), values(0, 3))
    check(lambda x: torch.unique(x, return_inverse=True), torch.tensor(3))


@pytest.mark.parametrize("mode", MODES)
def test_repeats(mode: str) -> None:
    x, r = values(4, 5), torch.tensor([2, 0, 3, 1])
    check(lambda x, r: (torch.repeat_interleave(x, r, dim=0), torch.repeat_interleave(r)), x, r, mode=mode)
    check(lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=6), x, r.int(), mode=mode)


def test_repeats_of_edges() -> None:
    check_grad(
        lambda x, r: torch.repeat_interleave(x, r, dim=0), values(3, 2).requires_grad_(), torch.tensor([2, 0, 1])
    )
    check(lambda r: torch.repeat_interleave(r), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="negative"):
        torch.repeat_interleave(torch.tensor([1, -1], device="tpu"))


def test_bincount() -> None:
    x = few(40, count=9)
    check(lambda x: (torch.bincount(x), torch.bincount(x, minlength=20), torch.bincount(x.int())), x)
    check(lambda x, w: torch.bincount(x, w), x, values(40))
    check(lambda x, w: torch.bincount(x, w), x, few(40))
    check(lambda x: torch.bincount(x, minlength=3), few(0))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device="tpu"))
