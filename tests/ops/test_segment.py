"""Reductions of segments, histograms, hashes."""

import pytest
import torch
from ops.samples import FLOATS, values
from oracle import check, check_grad, check_rounded

REDUCTIONS = ("sum", "mean", "max", "min", "prod")


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("how", REDUCTIONS)
def test_segment_reduce(how, initial):
    def by_lengths(x, lengths, **more):
        return torch.segment_reduce(x, how, lengths=lengths, initial=initial, **more)

    for dtype in (torch.float32, torch.float64):
        x = values(7, dtype=dtype).requires_grad_()
        check_grad(by_lengths, x, torch.tensor([2, 0, 1, 4]))
        check_grad(lambda x, n: by_lengths(x, n, unsafe=True), x, torch.tensor([0, 3, 0, 2]))
        cube = values(2, 4, 3, dtype=dtype).requires_grad_()
        check_grad(lambda x, n: by_lengths(x, n, axis=1), cube, torch.tensor([[1, 3], [2, 2]]))
    check_grad(
        lambda x, n: torch.segment_reduce(x, how, offsets=n, axis=1, initial=initial),
        values(2, 4, 3).requires_grad_(),
        torch.tensor([[0, 1, 4], [0, 2, 4]], dtype=torch.int32),
    )
    for narrow in (torch.bfloat16, torch.float16):
        check_rounded(lambda x: by_lengths(x, torch.tensor([2, 1, 4], device=x.device)), values(7, dtype=narrow))


@pytest.mark.parametrize("how", REDUCTIONS)
def test_segments_with_zeros_and_nan(how):
    x = torch.tensor([0.0, 2.0, 3.0, 3.0, 0.0, 0.0, 4.0, float("nan"), 5.0, 0.0], requires_grad=True)
    check_grad(lambda x, n: torch.segment_reduce(x, how, lengths=n), x, torch.tensor([2, 2, 0, 3, 1, 2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_histogram(dtype):
    x, weight = values(3, 50, dtype=dtype), values(3, 50, dtype=dtype, low=0, high=1, seed=1)
    for density in (False, True):
        check(lambda x, w, d=density: torch.histogram(x, 7, weight=w, density=d), x, weight)
        check(lambda x, d=density: torch.histogram(x, 70, range=(-2.0, 3.0), density=d), x)
        check(
            lambda x, bins, d=density: torch.histogram(x, bins, density=d),
            x,
            torch.tensor([-3.0, -1.0, 0.5, 2.0], dtype=dtype),
        )
    whole = torch.tensor([0.0, 0.25, 0.5, 1.0, 1.0, 2.0, float("nan")], dtype=dtype)
    check(lambda x: torch.histogram(x, 4, range=(0.0, 1.0)), whole)
    check(lambda x: torch.histogram(x, 4), torch.ones(3, dtype=dtype))
    check(lambda x: torch.histogram(x, 4), torch.empty(0, dtype=dtype))


def test_histogramdd():
    x, weight = values(40, 2), values(40, low=0, high=1, seed=1)
    for density in (False, True):
        check(lambda x, w, d=density: torch.histogramdd(x, [3, 4], weight=w, density=d), x, weight)
        check(lambda x, d=density: torch.histogramdd(x, [3, 4], range=[-1.0, 1.0, -2.0, 3.0], density=d), x)
    check(
        lambda x, a, b: torch.histogramdd(x, [a, b]), x, torch.tensor([-3.0, 0.0, 1.0]), torch.tensor([-1.0, 0.5, 2.0])
    )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_hash(dtype):
    x = values(4, 5, dtype=dtype)
    check(torch.hash_tensor, x, exact=True)
    check(lambda x: torch.hash_tensor(x, dim=1, keepdim=True), x, exact=True)
    check(lambda x: torch.hash_tensor(x, dim=(0, 1)), x, exact=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_frexp(dtype):
    powers = torch.tensor([2.0**k for k in range(-14, 15)] + [-0.75, 0.0, -0.0, float("inf"), -float("inf")])
    check(torch.frexp, torch.cat([powers, values(30)]).to(dtype), exact=True)
    if dtype.itemsize >= 4:
        info = torch.finfo(dtype)
        check(torch.frexp, torch.tensor([info.max, info.tiny, -info.max, 3 * info.tiny], dtype=dtype), exact=True)
