"""Running sums, products, extrema."""

import pytest
import torch
from oracle import MODES, check, check_grad

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.uint8]
SHAPES = [(), (1,), (2, 3, 4), (0, 3), (3, 0), (40,), (300, 2)]
OPS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "cummax": torch.cummax, "cummin": torch.cummin}


def make(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    if dtype == torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 3, shape, generator=generator).to(dtype)
    # Products of numbers near 1 stay in range.
    return (0.9 + 0.2 * torch.rand(shape, generator=generator)).to(dtype)


def name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_scans(op: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if dtype.is_complex and op in ("cummax", "cummin"):
        pytest.skip("not defined")
    x = make(shape, dtype)
    # Sums in narrow floats are rounded at other places.
    tolerance = 2e-2 if dtype in (torch.bfloat16, torch.float16) else None
    check(lambda x: (OPS[op](x, 0), OPS[op](x, -1)), x, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logcumsumexp(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tolerance = 2e-2 if dtype == torch.bfloat16 else None
    check(lambda x: torch.logcumsumexp(x, 0), make(shape, dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", [*OPS, "logcumsumexp"])
def test_what_is_no_number(op: str) -> None:
    nan, inf = float("nan"), float("inf")
    rows = [[1, nan, 3, nan, 0], [inf, 1, -inf, 1, 1], [-inf, -inf, 1, 2, 2], [0, -0.0, 0, 0, 1], [2, 1, 2, 1, 2]]
    check(lambda x: getattr(torch, op)(x, 1), torch.tensor(rows))


def test_forms() -> None:
    x = make((4, 6))
    check(lambda x: (x.t().cumsum(0), x[:, ::2].cumprod(1), x.cumsum(0, dtype=torch.float64)), x)
    check(lambda x: x.cumsum_(1), x)
    check(lambda x: torch.cumsum(x, 0, out=torch.empty(0, device=x.device)), x)
    check(lambda x: x.cumsum(0), torch.full((300,), 1, dtype=torch.uint8))


def test_long_sums_are_exact_enough() -> None:
    x = torch.rand(10**6, generator=torch.Generator().manual_seed(0))
    exact = x.double().cumsum(0)
    assert ((x.to("tpu").cumsum(0).cpu().double() - exact).abs() / exact).max() < 1e-6


@pytest.mark.parametrize("op", [*OPS, "logcumsumexp"])
def test_gradients(op: str) -> None:
    first = (lambda r: r[0]) if op in ("cummax", "cummin") else (lambda r: r)
    check_grad(lambda x: first(getattr(torch, op)(x, 1)), make((3, 7)).requires_grad_(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    check(lambda x: (x.cumsum(0) * 2, *x.cummax(1)), make((3, 20)), mode=mode)


def test_logcumsumexp_of_integers_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for"):
        torch.arange(3, device="tpu").logcumsumexp(0)


def test_log_cumulative_sums_round_little() -> None:
    """Differences of them are what the gradient is made of."""
    x = torch.randn(3, 200) * 5
    exact = x.double().logcumsumexp(1)
    error = (x.to("tpu").logcumsumexp(1).cpu().double() - exact).abs().max()
    assert error <= 1.5 * torch.finfo(torch.float32).eps * exact.abs().max()
    infinite = torch.tensor([[-torch.inf, 1.0, torch.inf, 2.0], [1.0, -torch.inf, torch.nan, 0.0]])
    check(lambda x: x.logcumsumexp(1), infinite)
