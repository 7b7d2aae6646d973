"""Comparisons, tests of values, clamps and where."""

import pytest
import torch
from ops.samples import FLOATS, REALS, SPECIAL, layouts, values
from oracle import check, check_error, check_grad

COMPARE = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
TESTS = [torch.isnan, torch.isinf, torch.isfinite, torch.isposinf, torch.isneginf, torch.signbit, torch.isreal]


@pytest.mark.parametrize("dtype", [*REALS, torch.bool], ids=str)
@pytest.mark.parametrize("fn", COMPARE, ids=lambda f: f.__name__)
def test_compare(fn, dtype):
    x = values(4, 5, dtype=dtype)
    check(fn, x, x[::2, :1].t()[:, :1])
    check(fn, x, x.float() + 0.25)
    check(lambda x: fn(x, 1), x)
    check(lambda x: fn(x, 0.1), x)


@pytest.mark.parametrize("fn", COMPARE, ids=lambda f: f.__name__)
def test_compare_special_values(fn):
    x = torch.tensor(SPECIAL)
    check(fn, x[:, None], x)


def test_numbers_are_rounded_before_they_are_compared():
    for dtype in (torch.bfloat16, torch.float16):
        check(lambda x: (x == 0.1, x > 0.1, x >= 0.1), torch.tensor([0.1, 0.2], dtype=dtype))


def test_complex_numbers():
    x = torch.tensor([1 + 2j, 1, 0, complex("nan")])
    check(torch.eq, x[:, None], x)
    check(lambda x: (torch.isnan(x), torch.isinf(x), torch.isfinite(x), torch.isreal(x)), x)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("fn", TESTS, ids=lambda f: f.__name__)
def test_of_values(fn, dtype):
    x = torch.tensor(SPECIAL)
    check(fn, x.to(dtype) if dtype.is_floating_point else values(5, dtype=dtype))


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_clamp(dtype):
    x = values(4, 5, dtype=dtype)
    check(lambda x: (x.clamp(1, 2), x.clamp(min=1), x.clamp(max=2), x.clamp(0.5, 2.5), x.clip(1)), x)
    check(lambda x, y: (x.clamp(y, y + 1), x.clamp_min(y), x.clamp_max(y)), x, values(5, dtype=dtype, seed=1))
    check(lambda x: (x.clamp_(1, 2), x.clone().clamp_min_(1)), x)


def test_clamp_passes_nan_on():
    x = torch.tensor(SPECIAL)
    check(lambda x: (x.clamp(-1, 1), x.clamp_min(0), x.clamp_max(0), x.clamp(2, 1)), x)
    check(torch.clamp_min, x[:, None], x)
    check_grad(lambda x: x.clamp(-1, 1), values(9).requires_grad_())


def test_where():
    x, y, c = values(3, 4), values(4, seed=1), values(3, 1, dtype=torch.bool)
    check(torch.where, c, x, y)
    check(torch.where, c, x, y.double())
    check(lambda c, x: (torch.where(c, x, 0.5), torch.where(c, 1, x), torch.where(c, 1.0, 2.0)), c, x)
    check(lambda c, x: torch.where(c, x, 1j), c, x)
    check(lambda c, x: torch.where(c, x.int(), x[0, 0]), c, x)
    check_grad(torch.where, c, x.requires_grad_(), y.requires_grad_())
    for t in layouts().values():
        check(lambda t: torch.where(t > 0, t, -t), t)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_isin(dtype):
    x, y = values(4, 5, dtype=dtype), values(3, dtype=dtype)
    check(torch.isin, x, y)
    check(lambda x, y: torch.isin(x, y, invert=True), x, y.view(3, 1))
    check(lambda x: (torch.isin(x, 1), torch.isin(2, x)), x)
    check(torch.isin, x, y[:0])


def test_closeness():
    x = torch.tensor(SPECIAL)
    check(lambda x: (torch.isclose(x, x), torch.isclose(x, x + 1e-7, equal_nan=True)), x)
    on = x[3:].to("tpu")
    assert torch.equal(on, on.clone())
    assert not torch.equal(on, on + 1)
    assert not torch.equal(on, on[1:])
    assert torch.allclose(on, on)


def test_where_refuses() -> None:
    check_error(torch.where, torch.ones(3, dtype=torch.bool), torch.randn(3), torch.randn(4))
    check_error(torch.where, torch.ones(2, 1, dtype=torch.bool), torch.randn(3, 3), torch.randn(3))
