"""Sorting, order statistics, searches, histograms."""

from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.uint8]
SHAPES = [(), (1,), (2, 3, 5), (0, 3), (7, 2)]
NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([[1, NAN, -INF, INF, 0.0, NAN, -0.0, 1], [3, 2, 1, 0, 3, 2, 1, 0], [NAN] * 8])


def distinct(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Without ties, whose order PyTorch leaves open."""
    n = torch.Size(shape).numel()
    return (
        (torch.randperm(n, generator=torch.Generator().manual_seed(3)) - (0 if dtype == torch.uint8 else n // 2))
        .to(dtype)
        .reshape(shape)
    )


def tied(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(4)).to(dtype)


def name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sort(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def run(x: torch.Tensor) -> Any:
        return x.sort(dim=0, stable=True), x.sort(dim=-1, stable=True, descending=True), x.argsort(dim=0, stable=True)

    check(run, tied(shape, dtype), exact=True)


def test_sort_of_what_is_no_number() -> None:
    check(lambda x: (x.sort(dim=1, stable=True), x.sort(dim=1, stable=True, descending=True), x.msort()), ODD)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=name)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(largest: bool, dtype: torch.dtype) -> None:
    def run(x: torch.Tensor) -> Any:
        return (
            x.topk(2, largest=largest),
            x.topk(3, 1, largest),
            x.topk(0),
            x.topk(5, largest=largest),
            x[0, 0, 0].topk(1, 0),
        )

    check(run, distinct((2, 3, 5), dtype), exact=True)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=name)
def test_topk_of_what_is_no_number(largest: bool, dtype: torch.dtype) -> None:
    check(lambda x: x.topk(6, largest=largest).values, ODD.to(dtype))
    check(lambda x: x.topk(1, largest=largest).values, torch.cat([ODD, torch.zeros(3, 1000)], 1).to(dtype))


def test_topk_of_many() -> None:
    check(lambda x: (x.topk(10), x.topk(10, 0), x.topk(3, largest=False)), distinct((50, 1000)))
    with pytest.raises(RuntimeError, match="out of range"):
        torch.ones(3, device="tpu").topk(4)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=name)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 5), (6, 4)], ids=str)
def test_order_statistics(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def run(x: torch.Tensor) -> Any:
        return (
            (x.median(), x.nanmedian(), x.median(-1), x.nanmedian(0, keepdim=True)),
            (x.kthvalue(1), x.kthvalue(x.shape[0] if x.dim() else 1, 0, keepdim=True), x.mode(-1)),
        )

    check(run, distinct(shape, dtype), exact=True)


def test_statistics_of_what_is_no_number() -> None:
    check(
        lambda x: (x.median(1).values, x.nanmedian(1).values, x.median(), x.nanmedian(), x.kthvalue(8, 1).values), ODD
    )
    check(lambda x: (x.median(), x.nanmedian()), torch.empty(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=name)
def test_mode(dtype: torch.dtype) -> None:
    check(lambda x: (x.mode(0).values, x.mode(1, keepdim=True).values), tied((9, 11), dtype))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(interpolation: str) -> None:
    def run(x: torch.Tensor, q: torch.Tensor) -> Any:
        how = {"interpolation": interpolation}
        return x.quantile(0.4, **how), x.quantile(q, 1, **how), x.nanquantile(q, 0, keepdim=True, **how)

    check(run, distinct((5, 6)), torch.tensor([0.0, 0.3, 1.0]))
    check(run, ODD, torch.tensor([0.0, 0.3, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32], ids=name)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [0, 1, 10, 200])
def test_searches(n: int, right: bool, dtype: torch.dtype) -> None:
    rows = torch.arange(n).mul(2).to(dtype).expand(2, n).contiguous()
    v = torch.randint(-2, 2 * n + 2, (2, 7), generator=torch.Generator().manual_seed(5)).to(dtype)

    def run(rows: torch.Tensor, v: torch.Tensor) -> Any:
        return (
            torch.searchsorted(rows, v, right=right),
            torch.searchsorted(rows[0], v, side="right" if right else "left", out_int32=True),
            torch.searchsorted(rows[0], 3, right=right),
            torch.bucketize(v, rows[0], right=right),
            torch.bucketize(3, rows[0], right=right),
        )

    check(run, rows, v)


def test_search_forms() -> None:
    rows, v = torch.tensor([[3.0, 1, 2], [9, 8, 7]]), torch.tensor([[1.5, NAN, INF], [8, -INF, 7]])
    check(lambda rows, v: torch.searchsorted(rows, v, sorter=rows.argsort(1)), rows, v)
    check(lambda rows, v: torch.bucketize(v, rows[0].sort().values), rows, v)
    check(lambda v: torch.searchsorted(v[:0, 0], v[:0]), v)


def test_histc() -> None:
    x = torch.tensor([0.0, 1, 1, 2.5, 3, NAN, -1, 10])
    check(lambda x: (x[:5].histc(4), x.histc(3, 0, 3), x.histc(5, min=-1, max=1), x[:0].histc(3), x[1:3].histc(2)), x)
    check(lambda x: (x.bincount(), x.bincount(minlength=9), x.bincount(x.float())), torch.tensor([1, 5, 1, 0]))


def test_forms() -> None:
    x = distinct((4, 6))

    def run(x: torch.Tensor) -> Any:
        out = torch.empty(0, device=x.device), torch.empty(0, dtype=torch.int64, device=x.device)
        torch.sort(x, 1, out=out)
        return out, x.t().sort(0), x[:, ::2].topk(2)

    check(run, x, strides=True)


GRADIENTS = {
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(2, 1).values,
    "median": lambda x: x.median(1).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "mode": lambda x: x.mode(1).values,
    "quantile": lambda x: x.quantile(0.3, 1),
}


@pytest.mark.parametrize("op", GRADIENTS)
def test_gradients(op: str) -> None:
    check_grad(GRADIENTS[op], distinct((3, 4)).requires_grad_())


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    check(lambda x: (x.sort(1), (x * 2).topk(2), x.median(0)), distinct((3, 4)), mode=mode)


def test_topk_of_a_number() -> None:
    check(lambda x: tuple(x.topk(1)), torch.tensor(3.0))
    check(lambda x: tuple(x.topk(0)), torch.tensor(3.0))
