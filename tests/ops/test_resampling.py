"""Images of another size."""

from functools import partial
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_error, check_grad
from samples import values
from torch.nn import functional as F

SPATIAL = {1: (7,), 2: (5, 7), 3: (3, 5, 4)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def image(dims: int, **how: Any) -> torch.Tensor:
    return values(2, 3, *SPATIAL[dims], **how).requires_grad_()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("how", ["nearest", "nearest-exact"])
def test_nearest(how: str, dims: int) -> None:
    for size in (
        {"scale_factor": 2},
        {"scale_factor": 1.7},
        {"size": tuple(n + 4 for n in SPATIAL[dims])},
        {"scale_factor": 0.6},
    ):
        check_grad(lambda x, size=size: F.interpolate(x, mode=how, **size), image(dims))
    check(lambda x: F.interpolate(x, scale_factor=2, mode=how), image(dims, dtype=torch.float16).detach())


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_linear(dims: int, align: bool) -> None:
    for size in ({"scale_factor": 2}, {"scale_factor": 1.7}, {"size": (1,) * dims}, {"scale_factor": 0.6}):
        check_grad(lambda x, size=size: F.interpolate(x, mode=LINEAR[dims], align_corners=align, **size), image(dims))


@pytest.mark.parametrize("align", [False, True])
def test_cubic(align: bool) -> None:
    for size in ({"scale_factor": 2}, {"scale_factor": 1.7}, {"size": (3, 7)}):
        check_grad(lambda x, size=size: F.interpolate(x, mode="bicubic", align_corners=align, **size), image(2))


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_antialias(how: str) -> None:
    for size in ((3, 3), (9, 11), (2, 7)):
        check_grad(lambda x, size=size: F.interpolate(x, size, mode=how, antialias=True), image(2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_dtypes(mode: str, dtype: torch.dtype) -> None:
    check_grad(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), image(2, dtype=dtype), mode=mode)


def test_bytes_and_formats() -> None:
    x = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8)
    check(lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), x)
    x = image(2).detach().to(memory_format=torch.channels_last)
    check(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("how", ["bilinear", "nearest", "bicubic"])
def test_grid(how: str, padding: str, align: bool) -> None:
    def fn(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode=how, padding_mode=padding, align_corners=align)

    # The gradients of a cubic grid are sums of some 60, of which PyTorch's cubic loses digits in float32.
    loose = {"rtol": 1.3e-6, "atol": 1e-4} if how == "bicubic" else {}
    check_grad(fn, image(2), values(2, 4, 3, 2, low=-1.6, high=1.6, seed=1).requires_grad_(), **loose)
    if how != "bicubic":
        check_grad(fn, image(3), values(2, 2, 4, 3, 3, low=-1.6, high=1.6, seed=1).requires_grad_())


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_cubic_grid_is_as_exact_as_pytorchs(padding: str, align: bool) -> None:
    """Measured by float64, with and without a gradient."""
    x, grid = values(2, 3, 5, 7), values(2, 4, 3, 2, low=-1.6, high=1.6, seed=1)

    def run(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [t.to(device, dtype).requires_grad_() for t in (x, grid)]
        y = F.grid_sample(*leaves, mode="bicubic", padding_mode=padding, align_corners=align)
        seed = torch.linspace(-1, 2, y.numel()).to(dtype).reshape(y.shape).to(device)
        return [t.double().cpu() for t in (y, *torch.autograd.grad(y, leaves, seed))]

    exact = run("cpu", torch.float64)
    for ours, theirs, right in zip(run("tpu", torch.float32), run("cpu", torch.float32), exact, strict=True):
        assert (ours - right).abs().max() <= 1.1 * (theirs - right).abs().max()
    torch.testing.assert_close(run("tpu", torch.float64), exact)


def test_grids_that_do_not_fit() -> None:
    sample = partial(F.grid_sample, align_corners=False)
    check_error(sample, torch.randn(1, 1, 3, 3), torch.randn(2, 3, 3, 2))
    check_error(sample, torch.randn(1, 1, 3, 3), torch.randn(1, 3, 3, 3))
    check_error(partial(sample, mode="bicubic"), torch.randn(1, 1, 3, 3, 3), torch.randn(1, 3, 3, 3, 3))


def test_grid_of_one_gradient() -> None:
    grid = values(2, 4, 3, 2, low=-1.6, high=1.6, seed=1)
    check_grad(lambda x, g: F.grid_sample(x, g, align_corners=False), image(2), grid)
    check_grad(lambda x, g: F.grid_sample(x, g, align_corners=False), image(2).detach(), grid.requires_grad_())
    backward = torch.ops.aten.grid_sampler_2d_backward
    for mask in ([True, False], [False, True]):
        check(lambda y, x, g, mask=mask: backward(y, x, g, 0, 0, False, mask)[1], values(2, 3, 4, 3), image(2), grid)
    check(lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), values(2, 2, 3))
