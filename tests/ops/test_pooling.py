from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from ops.samples import FLOATS, values
from oracle import check, check_grad, check_rounded
from torch.nn import functional as F

nan, inf = float("nan"), float("inf")
FLAT, LINE, SPACE = (2, 3, 9, 11), (2, 3, 10), (2, 3, 5, 6, 7)
max1, max2, max3 = (partial(f, return_indices=True) for f in (F.max_pool1d, F.max_pool2d, F.max_pool3d))
Fn = Callable[..., Any]
CASES: dict[str, tuple[Fn, tuple[int, ...]]] = {
    "max": (partial(max2, kernel_size=2), FLAT),
    "max_overlapping": (partial(max2, kernel_size=3, stride=2, padding=1), FLAT),
    "max_ceil": (partial(max2, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True), FLAT),
    "max_gaps": (partial(max2, kernel_size=2, stride=(3, 4), ceil_mode=True), FLAT),
    "max_dilated": (partial(max2, kernel_size=3, stride=1, padding=1, dilation=2), FLAT),
    "max_large": (partial(max2, kernel_size=7, stride=1, padding=3), FLAT),
    "max_1d": (partial(max1, kernel_size=3), LINE),
    "max_3d": (partial(max3, kernel_size=3, stride=2, padding=1), SPACE),
    "max_no_batch": (partial(max2, kernel_size=2), FLAT[1:]),
    "avg": (partial(F.avg_pool2d, kernel_size=2), FLAT),
    "avg_padded": (partial(F.avg_pool2d, kernel_size=3, stride=2, padding=1), FLAT),
    "avg_ceil": (partial(F.avg_pool2d, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True), FLAT),
    "avg_ceil_inside": (
        partial(F.avg_pool2d, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        FLAT,
    ),
    "avg_divisor": (partial(F.avg_pool2d, kernel_size=3, stride=2, padding=1, divisor_override=5), FLAT),
    "avg_1d": (partial(F.avg_pool1d, kernel_size=3, stride=2, padding=1), LINE),
    "avg_3d": (partial(F.avg_pool3d, kernel_size=3, stride=2, padding=1, ceil_mode=True), SPACE),
    "lp": (partial(F.lp_pool2d, norm_type=2, kernel_size=2), FLAT),
    "adaptive_avg_1": (partial(F.adaptive_avg_pool2d, output_size=1), FLAT),
    "adaptive_avg_even": (partial(F.adaptive_avg_pool2d, output_size=(3, 11)), FLAT),
    "adaptive_avg_uneven": (partial(F.adaptive_avg_pool2d, output_size=(4, 3)), FLAT),
    "adaptive_avg_more": (partial(F.adaptive_avg_pool2d, output_size=(12, 13)), FLAT),
    "adaptive_avg_1d": (partial(F.adaptive_avg_pool1d, output_size=4), LINE),
    "adaptive_avg_3d": (partial(F.adaptive_avg_pool3d, output_size=(2, 3, 4)), SPACE),
    "adaptive_max_1": (partial(F.adaptive_max_pool2d, output_size=1, return_indices=True), FLAT),
    "adaptive_max_even": (partial(F.adaptive_max_pool2d, output_size=(3, 11), return_indices=True), FLAT),
    "adaptive_max_uneven": (partial(F.adaptive_max_pool2d, output_size=(4, 3), return_indices=True), FLAT),
    "adaptive_max_1d": (partial(F.adaptive_max_pool1d, output_size=4, return_indices=True), LINE),
    "adaptive_max_3d": (partial(F.adaptive_max_pool3d, output_size=(2, 3, 4), return_indices=True), SPACE),
}


def tensor(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_pool(name: str, dtype: torch.dtype) -> None:
    fn, shape = CASES[name]
    check_grad(fn, tensor(shape, dtype))


@pytest.mark.parametrize("name", ["avg_padded", "avg_3d", "adaptive_avg_uneven", "max_overlapping", "max_large"])
def test_narrow_floats_round_once(name: str) -> None:
    fn, shape = CASES[name]
    x = torch.arange(torch.Size(shape).numel())[torch.randperm(torch.Size(shape).numel())].reshape(shape) % 251
    check_rounded(fn, x.bfloat16().requires_grad_())


@pytest.mark.parametrize("mode", ["debug", "defer"])
@pytest.mark.parametrize("name", ["max_overlapping", "avg_padded"])
def test_modes(name: str, mode: str) -> None:
    fn, shape = CASES[name]
    check_grad(fn, tensor(shape), mode=mode)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_integers(dtype: torch.dtype) -> None:
    x = torch.randint(0, 5, (2, 2, 6, 6)).to(dtype)
    check(partial(max2, kernel_size=3, stride=2, padding=1), x, exact=True)
    if dtype == torch.int64:
        check(partial(F.avg_pool2d, kernel_size=3, stride=2, padding=1), x - 3, exact=True)


def test_ties_infinities_and_nan() -> None:
    x = torch.randn(2, 2, 6, 6)
    x[torch.rand(x.shape) > 0.7] = nan
    x[torch.rand(x.shape) > 0.7] = 1.0
    for fn in (CASES["max_overlapping"][0], CASES["adaptive_max_uneven"][0]):
        check(fn, x, exact=True)
    least = torch.full((1, 1, 5, 5), -inf)
    check(partial(max2, kernel_size=2, stride=2, padding=1), least, exact=True)
    check(partial(max2, kernel_size=3, stride=1, padding=1, dilation=2), least, exact=True)


@pytest.mark.parametrize("fn", [F.max_pool2d, F.avg_pool2d])
def test_channels_last_is_kept(fn: Fn) -> None:
    check(partial(fn, kernel_size=2), torch.randn(2, 3, 9, 8).to(memory_format=torch.channels_last), strides=True)


def test_empty_batch() -> None:
    for name in ("max_overlapping", "avg_padded", "adaptive_avg_uneven"):
        check_grad(CASES[name][0], tensor((0, 2, 9, 8)))


def test_a_window_larger_than_its_input() -> None:
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool2d(torch.randn(1, 1, 2, 2, device="tpu"), 3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("batched", [False, True])
def test_fractional_max_pool(batched, dtype):
    lead = (2, 3) if batched else (3,)

    def flat(x, samples):
        return F.fractional_max_pool2d(x, (2, 3), (4, 3), return_indices=True, _random_samples=samples)

    def solid(x, samples):
        return F.fractional_max_pool3d(x, 2, (2, 3, 1), return_indices=True, _random_samples=samples)

    for seed in range(3):
        samples = values(2 if batched else 1, 3, 3, dtype=dtype, low=0, high=0.99, seed=seed)
        check_grad(flat, values(*lead, 9, 8, dtype=dtype).requires_grad_(), samples[..., :2].contiguous())
        check_grad(solid, values(*lead, 5, 6, 4, dtype=dtype).requires_grad_(), samples)
    if not batched:  # samples for a batch: the first ones count
        many = values(2, 3, 3, dtype=dtype, low=0, high=0.99, seed=5)
        check(solid, values(3, 5, 6, 4, dtype=dtype), many)
    x = values(1, 2, 6, 6)
    x[0, 0, 2, 2] = float("nan")
    check(flat, x, values(1, 2, 2, low=0, high=0.99))


def test_unpooling_keeps_the_format(mode: str) -> None:
    x = torch.randn(1, 2, 6, 6).to(memory_format=torch.channels_last)
    y, at = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    for _ in range(2):  # the second call replays
        check(lambda y, at: torch.nn.functional.max_unpool2d(y, at, 2), y, at, strides=True, mode=mode)
