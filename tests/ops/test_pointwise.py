"""Arithmetic, bitwise and logical operators."""

import math
import operator

import pytest
import torch
from ops.samples import FLOATS, INTEGERS, LAYOUTS, REALS, SPECIAL, layouts, nonzero, values
from oracle import MODES, check, check_error, check_grad, launches
from torch.testing._internal.common_methods_invocations import BinaryUfuncInfo, op_db

ARITHMETIC = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.rsub]
DIVISION = [
    torch.div,
    lambda a, b: torch.div(a, b, rounding_mode="floor"),
    lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    torch.floor_divide,
    torch.remainder,
    torch.fmod,
]
REAL = [torch.atan2, torch.hypot, torch.copysign, torch.logaddexp, torch.logaddexp2, torch.xlogy, torch.heaviside]
BITWISE = [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.bitwise_left_shift, torch.bitwise_right_shift]
LOGICAL = [torch.logical_and, torch.logical_or, torch.logical_xor]


@pytest.mark.parametrize("dtype", [*REALS, torch.complex64], ids=str)
@pytest.mark.parametrize("fn", ARITHMETIC, ids=lambda f: f.__name__)
def test_arithmetic(fn, dtype):
    if dtype.is_complex and fn not in ARITHMETIC[:3]:
        pytest.skip("complex numbers have no order")
    check(fn, values(3, 4, dtype=dtype), values(4, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", REALS, ids=str)
@pytest.mark.parametrize("fn", DIVISION)
def test_division(fn, dtype):
    check(fn, values(30, dtype=dtype), nonzero(30, dtype=dtype, seed=1))


@pytest.mark.parametrize("fn", DIVISION)
def test_division_of_special_values(fn):
    x = torch.tensor(SPECIAL)
    check(fn, x[:, None], x)


def test_division_rounds_as_ieee_has_it():
    x, y = values(1000, low=0, high=50), values(40, low=0.1, high=50, seed=1)
    check(lambda x, y: (x[:, None] / y, x / y[0], x / 49, x.round() / 49, x / x), x, y, exact=True)
    check(lambda x: (torch.div(x, 49, rounding_mode="trunc"), x // 49), torch.arange(500.0), exact=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", REAL, ids=lambda f: f.__name__)
def test_functions_of_two_floats(fn, dtype):
    if fn is torch.hypot and dtype == torch.float16:
        pytest.skip("not on CPU")
    check(fn, values(3, 5, dtype=dtype), values(3, 5, dtype=dtype, seed=1))


@pytest.mark.parametrize("fn", [*ARITHMETIC, *REAL, torch.pow], ids=lambda f: f.__name__)
def test_special_values(fn):
    x = torch.tensor(SPECIAL)
    check(fn, x[:, None], x)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
@pytest.mark.parametrize("fn", BITWISE, ids=lambda f: f.__name__)
def test_bitwise(fn, dtype):
    if dtype == torch.bool and "shift" in fn.__name__:
        pytest.skip("not of bool")
    x = values(4, 5, dtype=dtype, low=-100, high=100)
    y = values(4, 5, dtype=dtype, low=0, high=9, seed=1)
    check(fn, x, y)
    if dtype != torch.bool:
        check(lambda x: fn(x, 3), x)
        check(lambda x: fn(3, x), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("fn", LOGICAL, ids=lambda f: f.__name__)
def test_logical(fn, dtype):
    x = torch.tensor([0, 1, 2, 0]).to(dtype)
    check(fn, x[:, None], x)
    check(fn, x[:, None], x != 0)
    check(torch.logical_not, x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16], ids=str)
def test_gcd(dtype):
    x, y = values(40, dtype=dtype, low=-60, high=60), values(40, dtype=dtype, low=-60, high=60, seed=1)
    check(torch.gcd, x, y)
    check(torch.lcm, x, y)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 7, -3.0])
def test_powers(exponent):
    check_grad(lambda x: x**exponent, values(10, low=0.1).requires_grad_())
    check(lambda x: x**exponent, values(4, dtype=torch.bfloat16, low=0.1))
    if exponent in (0, 1, 2, 3, 7):
        check(lambda x: x**exponent, values(10, dtype=torch.int64))
    check(lambda x: exponent**x, values(10) if exponent > 0 else nonzero(10))


def test_powers_of_integers():
    x = torch.arange(-4, 5)
    check(torch.pow, x[:, None], x.abs())
    check(torch.pow, torch.tensor([-1, 1]), torch.tensor([-3, -2]))
    check(lambda x: 2**x, x.abs())
    check(lambda x: x**0.5, x.abs())
    check(lambda x: x ** (1 + 2j), x.double())
    for x in (torch.arange(3), torch.tensor(True)):
        check_error(torch.pow, x, -1)
        check_error(lambda x: x.pow_(-1), x)
        check_error(lambda x: torch.pow(x, -1, out=torch.empty_like(x)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", [torch.add, torch.mul, torch.eq], ids=lambda f: f.__name__)
def test_layouts(fn, layout):
    x = layouts()[layout]
    check(fn, x, x * 2, strides=True)
    check(lambda t: fn(t, 2), x)
    check(lambda t: fn(t, 2.5), layouts(torch.int32)[layout])


@pytest.mark.parametrize(
    "dtypes", [(torch.int64, torch.float32), (torch.uint8, torch.int8), (torch.bool, torch.float16)]
)
@pytest.mark.parametrize("fn", [operator.add, operator.mul, operator.truediv, torch.maximum])
def test_promotion(fn, dtypes):
    x, y = (nonzero(3, 4, dtype=t, seed=i) for i, t in enumerate(dtypes))
    if fn is operator.truediv:
        y = torch.ones_like(y)
    check(fn, x, y)
    check(fn, x, y[0, 0])
    check(fn, y[0, 0], x)


def test_promotion_with_numbers():
    for dtype in (torch.uint8, torch.int32, torch.bfloat16, torch.complex64):
        x = values(5, dtype=dtype)
        for number in (2, 0.1, True):
            check(lambda t, n=number: (t + n, t * n, n * t), x)
    check(lambda t: t * 2j, values(5))
    check(lambda t: t + t.new_ones(()) * 3, values(5, dtype=torch.float16))


@pytest.mark.parametrize("alpha", [0, 1, -1, 3])
def test_alpha(alpha):
    for dtype in (torch.float32, torch.int64):
        x, y = values(4, dtype=dtype), values(4, dtype=dtype, seed=1)
        for fn in (torch.add, torch.sub, torch.rsub):
            check(lambda x, y, f=fn: f(x, y, alpha=alpha), x, y)
            check(lambda x, f=fn: f(x, 5, alpha=alpha), x)


@pytest.mark.parametrize("mode", MODES)
def test_in_place_and_out(mode):
    def run(x, y):
        out, wide = torch.empty(0, device=x.device), torch.empty(3, 4, dtype=torch.float64, device=x.device)
        torch.add(x, y, out=out)
        torch.mul(x, y, out=wide)
        z = x.clone()
        z.mul_(y).add_(2).t()[1].sub_(y[1, 0])
        z[:, ::2].copy_(y[:, ::2]).div_(2)
        return out, wide, z, x.add_(x)

    check(run, values(3, 4), values(3, 4, seed=1), mode=mode)


def test_errors_are_those_of_pytorch():
    x = torch.ones(3, device="tpu", dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"can't be cast|element size change"):
        x.add_(0.5)
    with pytest.raises(RuntimeError, match=r"must match the size|broadcast"):
        x + torch.ones(4, device="tpu")
    with pytest.raises(RuntimeError, match="Subtraction"):
        x.bool() - x.bool()


def test_new_numbers_compile_nothing():
    x = torch.ones(7, 3, device="tpu")
    torch.add(x * 1.5, x, alpha=2.5)
    compiled = torch.tpu.compile_stats()["compiles"]
    for i in range(5):
        torch.add(x * (i + 2.25), x, alpha=i + 2.25)
    assert torch.tpu.compile_stats()["compiles"] == compiled


def test_one_launch_each():
    x = torch.ones(5, device="tpu")
    for fn in (lambda: x + 1, lambda: 1 - x, lambda: x**2, lambda: x / 3, lambda: x // 2, lambda: x.double()):
        with launches() as count:
            fn()
        assert count() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_three_operands(dtype):
    x, y, z = (nonzero(3, 4, dtype=dtype, seed=i) for i in range(3))
    check(torch.addcmul, x, y, z)
    check(lambda *t: torch.addcmul(*t, value=0.3), x, y, z)
    check(lambda *t: torch.addcdiv(*t, value=-2), x, y, z)
    check(lambda *t: torch.lerp(t[0], t[1], 0.3), x, y)
    check(lambda *t: torch.lerp(t[0], t[1], 0.75), x, y)
    check(torch.lerp, x, y, z)


def test_nextafter():
    x = torch.tensor(SPECIAL)
    check(torch.nextafter, x[:, None], x, exact=True)
    check(torch.nextafter, x[:, None].double(), x.double(), exact=True)


@pytest.mark.parametrize(
    "fn", [torch.add, torch.sub, torch.mul, torch.div, torch.atan2, torch.hypot], ids=lambda f: f.__name__
)
def test_gradients(fn):
    check_grad(fn, values(3, 4).requires_grad_(), nonzero(3, 4, seed=1).requires_grad_())


def test_bitwise_operators_refuse_floats() -> None:
    x = torch.randn(3, device="tpu")
    for fn in (operator.and_, operator.or_, operator.xor):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            fn(x, x)


def test_quotients_of_bools_are_refused() -> None:
    x = torch.tensor([True, False], device="tpu")
    for fn in (torch.floor_divide, torch.remainder, torch.fmod):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            fn(x, x)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.div(x, x, rounding_mode="floor")
    check(torch.div, torch.tensor([True, False]), torch.tensor([True, True]))


# Those with "jiterator" are CUDA's.
BINARY = [op for op in op_db if isinstance(op, BinaryUfuncInfo) and "jiterator" not in op.name]


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.full_name)
def test_a_tensor_of_the_host_without_dimensions_is_a_number(op: BinaryUfuncInfo) -> None:
    dtype = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
    many, one = torch.tensor([1, 2, 3]).to(dtype), torch.tensor(2).to(dtype)
    for here in ((many, one), (one, many)):
        there = [t.tpu() if t.dim() else t for t in here]
        torch.testing.assert_close(op(*there), op(*here), check_device=False)


def test_a_product_with_a_mask_keeps_nan_and_signs(mode: str) -> None:
    x, mask = torch.tensor([math.nan, math.inf, -1.0, 2.0]), torch.tensor([False, False, False, True])
    got = x.tpu() * mask.tpu() * torch.ones(4).tpu()
    assert torch.equal(got.cpu().view(torch.int32) < 0, (x * mask).view(torch.int32) < 0)
    torch.testing.assert_close(got.cpu(), x * mask, equal_nan=True, rtol=0, atol=0)
