"""Elements moved to other places."""

import itertools
import math
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad
from samples import LAYOUTS, layouts, values
from torch.nn import functional as F

import torch_tpu

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_flips(dtype: torch.dtype) -> None:
    check(lambda x: (x.flip(0), x.flip(-1, 0), x.fliplr(), x.flipud()), values(4, 5, dtype=dtype))
    check(lambda x: (x.roll(3), x.roll(-7, 1), x.roll((1, -2), (0, 1))), values(4, 5, dtype=dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x = layouts()[layout]
    dims = list(range(x.dim()))
    check(lambda x: (x.flip(dims), x.roll(2)), x)


def test_flips_and_their_gradients() -> None:
    check_grad(lambda x: x.flip(0).roll(2, 1).rot90() * 2, values(4, 5).requires_grad_())
    check(lambda x: [x.rot90(k) for k in range(-1, 4)], values(2, 3))


def test_shuffles() -> None:
    x = values(2, 8, 3, 4).requires_grad_()
    check_grad(lambda x: F.pixel_shuffle(x, 2), x)
    check_grad(lambda x: F.pixel_unshuffle(x.transpose(1, 3), 2), x.detach()[:, :, :2].clone().requires_grad_())
    check_grad(lambda x: F.channel_shuffle(x, 4), x)
    check(lambda x: (F.pixel_shuffle(x[0], 2), F.pixel_shuffle(x[:0], 2), F.channel_shuffle(x[:, :, 0], 2)), x.detach())


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 2},
        {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": 2},
        {"kernel_size": (3, 1), "padding": (0, 2), "stride": (1, 3)},
    ],
    ids=str,
)
def test_columns(how: dict[str, Any]) -> None:
    x = values(2, 3, 7, 8).requires_grad_()
    check_grad(lambda x: F.unfold(x, **how), x)
    check_grad(lambda x: F.fold(F.unfold(x, **how), (7, 8), **how), x)
    check_grad(lambda x: F.unfold(x[0], **how), x)


@pytest.mark.parametrize(("size", "step"), [(3, 2), (1, 1), (8, 1), (2, 3), (40, 7)])
def test_windows(size: int, step: int) -> None:
    x = values(3, 75 if size > 8 else 8, 2).requires_grad_()
    check_grad(lambda x: x.unfold(1, size, step), x)
    check_grad(lambda x: x.unfold(0, 1, 1), values().requires_grad_())


@pytest.mark.parametrize("mode", MODES)
def test_parts_and_their_gradients(mode: str) -> None:
    x = values(4, 6).requires_grad_()
    check_grad(lambda x: (x[1:3], x[:, 1::2], x[-1], x[:, ::3], x[2:2], x[:, -1]), x, mode=mode)
    check_grad(lambda x: (x.diagonal(1), x.as_strided((2, 3), (6, 1), 1), x.t()[1:4, 2], x.split(4, 1)), x, mode=mode)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scatter_of_parts(dtype: torch.dtype) -> None:
    x, v = values(4, 6, dtype=dtype), values(2, 6, dtype=dtype, seed=1)
    check(lambda x, v: (x.slice_scatter(v, 0, 1, 3), x.slice_scatter(v, 0, 1, 99, 2), x.slice_scatter(v, end=2)), x, v)
    check(
        lambda x, v: (x.slice_scatter(v, 0, -2), x.select_scatter(v[0], 0, -1), x.select_scatter(v[0, :4], 1, 2)), x, v
    )
    check(lambda x, v: x.diagonal_scatter(v[0, :4], 1), x, v)
    check(lambda x, v: x.as_strided_scatter(v[:, :3], (2, 3), (6, 1), 2), x, v)


def test_scatter_of_parts_and_its_gradient() -> None:
    x, v = values(4, 6).requires_grad_(), values(2, 6, seed=1).requires_grad_()
    check_grad(lambda x, v: x.slice_scatter(v, 0, 1, 4, 2), x, v)
    check_grad(lambda x, v: x.select_scatter(v[0], 0, 1), x, v)
    check_grad(lambda x, v: x.diagonal_scatter(v[0, :4], 1), x, v)


def test_new_places_compile_nothing() -> None:
    x, v = values(9, 6).to("tpu").requires_grad_(), values(2, 6).to("tpu")

    def step(i: int) -> None:
        torch.autograd.grad((x[i : i + 2] * x[i]).sum(), x)
        x.slice_scatter(v, 0, i, i + 2)

    step(5)
    before = torch.tpu.compile_stats()["compiles"]
    for i in (0, 1, 2, 6):
        step(i)
    assert torch.tpu.compile_stats()["compiles"] == before


@pytest.mark.parametrize("mode", ["strict", "defer"])
def test_transposes_in_place_or_not(mode: str) -> None:
    """The CPU compiler has a routine of its own for them, which must not get its operand's memory to write to."""
    with torch_tpu.eager_mode(mode):
        for shape in ((4, 4), (3, 5), (64, 64), (2, 3, 4), (2, 2, 2), (4, 1, 3), (2, 3, 2, 2)):
            x = torch.arange(math.prod(shape)).reshape(shape)
            kept, ones = x.tpu(), torch.ones_like(x).tpu()
            for order in itertools.permutations(range(x.dim())):
                want = x.permute(order)
                assert torch.equal(kept.permute(order).contiguous().cpu(), want)
                assert torch.equal((kept * ones).permute(order).contiguous().cpu(), want), "the operand is given away"
                twice = kept.permute(order).contiguous().flatten().view(x.shape).permute(order).contiguous()
                assert torch.equal(twice.cpu(), want.contiguous().flatten().view(x.shape).permute(order))
        assert torch.equal(kept.cpu(), x)
