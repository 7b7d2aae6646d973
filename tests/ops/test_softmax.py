"""Softmax, its logarithm, and their derivatives."""

import pytest
import torch
from oracle import MODES, check, check_grad
from torch.nn import functional

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHAPES = [((), 0), ((5,), -1), ((2, 3, 4), 1), ((2, 3, 4), -1), ((0, 3), 1), ((3, 0), 1)]
OPS = {"softmax": functional.softmax, "log_softmax": functional.log_softmax, "softmin": functional.softmin}


def make(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize("op", OPS)
def test_values_and_gradients(op: str, shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    # A narrow float that comes of cancellation is off by the rounding of what cancelled.
    tolerance = 2e-2 if dtype in (torch.bfloat16, torch.float16) else None
    check_grad(lambda x: OPS[op](x, dim), make(shape, dtype).requires_grad_(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", OPS)
def test_extremes(op: str) -> None:
    inf = float("inf")
    rows = [[1e4, -1e4, 0], [-inf, 1, 2], [-inf] * 3, [inf, 1, 2], [float("nan"), 1, 2], [1e38, -1e38, 1e38]]
    check(lambda x: OPS[op](x, 1), torch.tensor(rows))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=lambda d: str(d)[6:])
def test_to_float32(op: str, dtype: torch.dtype) -> None:
    check_grad(lambda x: OPS[op](x, 1, dtype=torch.float32), make((3, 5), dtype).requires_grad_())


@pytest.mark.parametrize("op", OPS)
def test_views_and_out(op: str) -> None:
    check(lambda x: (OPS[op](x.t(), 0), OPS[op](x[:, ::2], 1)), make((4, 6)))
    check(lambda x: torch.softmax(x, 1, out=torch.empty_like(x)), make((4, 6)))


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    check_grad(lambda x: functional.log_softmax(x * 2, -1).sum(0), make((3, 4)).requires_grad_(), mode=mode)


def test_errors() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.softmax(torch.ones(3, device="tpu"), 1)
