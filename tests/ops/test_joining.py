"""Tensors put together, repeated, padded."""

import pytest
import torch
from oracle import MODES, check, check_grad
from samples import LAYOUTS, layouts, values
from torch.nn import functional as F

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cat(dtype: torch.dtype) -> None:
    x, y = values(2, 3, dtype=dtype), values(4, 3, dtype=dtype, seed=1)
    check(lambda x, y: (torch.cat([x, y]), torch.cat([x.t(), y.t()], -1), torch.stack([x, y[:2]], -1)), x, y)


@pytest.mark.parametrize("mode", MODES)
def test_cat_and_its_gradient(mode: str) -> None:
    x, y = values(2, 3).requires_grad_(), values(2, 4, seed=1).requires_grad_()
    check_grad(lambda x, y: torch.cat([x, y, x], 1), x, y, mode=mode)
    check_grad(lambda x, y: torch.stack([x, y[:, 1:]], 1), x, y, mode=mode)


def test_cat_promotes() -> None:
    check(lambda *x: torch.cat(x), values(2).int(), values(3), values(1).half())
    check(lambda *x: torch.cat(x), values(2).int(), values(3).bool())


def test_cat_of_empty() -> None:
    check(lambda *x: torch.cat(x, 1), values(2, 3), values(0), values(2, 0), values(2, 1))
    check(lambda *x: torch.cat(x), values(0), values(0))
    check(lambda x: torch.cat([x]), values(2, 3))


def test_cat_out_and_formats() -> None:
    check(lambda x: torch.cat([x, x], out=x.new_empty(0)), values(2, 3))
    x = values(2, 3, 4, 4).to(memory_format=torch.channels_last)
    check(lambda x: torch.cat([x, x], 1), x.clone(), strides=True)


def test_composites() -> None:
    x = values(2, 3)
    check(lambda x: (torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x]), torch.column_stack([x, x])), x)
    check(
        lambda x: (torch.block_diag(x, x), torch.cartesian_prod(x[0], x[1]), torch.meshgrid(x[0], x[1], indexing="ij")),
        x,
    )
    check(lambda x: torch.split_with_sizes_copy(x, [1, 2], 1), x)
    check(lambda x: (x.tile(2), x.repeat_interleave(2, 1), x.repeat_interleave(3), torch.narrow_copy(x, 1, 1, 2)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_repeat(layout: str) -> None:
    x = layouts()[layout]
    check(lambda x: (x.repeat(2, *[1] * x.dim()), x.repeat(*[2] * max(x.dim(), 1)), x.expand(3, *x.shape).clone()), x)


def test_repeat_and_its_gradient() -> None:
    check_grad(lambda x: x.repeat(2, 3), values(2, 3).requires_grad_())
    check(lambda x: (x.repeat(0, 1), x.repeat(2, 0)), values(2, 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_constant_pad(dtype: torch.dtype) -> None:
    check(lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, -1, -1, 2), value=3)), values(4, 5, dtype=dtype))


def test_constant_pad_and_its_gradient() -> None:
    check_grad(lambda x: F.pad(x, (1, 2, -1, 0), value=float("-inf")), values(4, 5).requires_grad_())
    check(lambda x: F.pad(x, (0, 0)), values(4, 5))
    x = values(4, 5).to("tpu")
    F.pad(x, (1, 1), value=0.5)
    before = torch.tpu.compile_stats()["compiles"]
    F.pad(x, (1, 1), value=0.75)
    assert torch.tpu.compile_stats()["compiles"] == before


@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 0, 1), (1, -1), (1, 2, 1, 1, 2, 0)], ids=str)
@pytest.mark.parametrize("how", ["reflect", "replicate", "circular"])
def test_pad(how: str, pad: tuple[int, ...]) -> None:
    spatial = len(pad) // 2
    x = values(2, 3, *(5, 4, 6)[:spatial])
    check_grad(lambda x: F.pad(x, pad, mode=how), x.requires_grad_())
    if how != "circular":
        check_grad(lambda x: F.pad(x[0], pad, mode=how), x)
        check(lambda x: F.pad(x, pad, mode=how), x.detach().bfloat16())
