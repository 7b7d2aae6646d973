"""Functions of one tensor."""

from math import inf, nan
from typing import Any

import pytest
import torch
from ops.samples import FLOATS, LAYOUTS, SPECIAL, layouts, values
from oracle import MODES, check, check_grad

EVERYWHERE = [
    *(torch.exp, torch.exp2, torch.expm1, torch.sin, torch.cos, torch.tan, torch.tanh, torch.sinh, torch.cosh),
    *(torch.asinh, torch.atan, torch.erf, torch.erfc, torch.sigmoid, torch.sinc, torch.deg2rad, torch.rad2deg),
    *(torch.lgamma, torch.digamma, torch.i0, torch.special.i0e, torch.special.i1, torch.special.i1e),
    *(torch.special.erfcx, torch.special.ndtr, torch.special.log_ndtr),
]
POSITIVE = [torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt, torch.special.entr]
UNIT = [torch.asin, torch.acos, torch.atanh, torch.erfinv, torch.logit, torch.special.ndtri]
EXACT = [torch.abs, torch.neg, torch.sign, torch.sgn, torch.floor, torch.ceil, torch.round, torch.trunc, torch.square]
COMPLEX = [
    *(torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos, torch.tan, torch.tanh, torch.sinh, torch.cosh),
    *(torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh, torch.abs, torch.neg, torch.sgn),
    *(torch.angle, torch.reciprocal, torch.rsqrt, torch.sigmoid, torch.square),
    *(torch.conj_physical, torch.real, torch.imag),
]


def name(fn):
    return fn.__name__


def tolerance(fn, dtype):
    """Where the CPU rounds each step to the reduced type, and is the less exact of the two."""
    if fn not in (torch.logit, torch.special.i0e, torch.special.i1e) or dtype.itemsize >= 4:
        return {}
    eps = torch.finfo(dtype).eps
    return {"rtol": 4 * eps, "atol": 4 * eps}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", EVERYWHERE, ids=name)
def test_functions(fn, dtype):
    if fn.__name__ in ("special_erfcx", "special_log_ndtr") and dtype.itemsize < 4:
        pytest.skip("not on CPU")
    x = values(40, dtype=dtype)
    check(fn, x[(x - x.round()).abs() > 0.1] if fn in (torch.digamma, torch.lgamma) else x, **tolerance(fn, dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", [*POSITIVE, torch.reciprocal, torch.acosh], ids=name)
def test_functions_of_positive_numbers(fn, dtype):
    check(fn, values(40, dtype=dtype, low=1.01 if fn is torch.acosh else 0.01))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("fn", UNIT, ids=name)
def test_functions_of_the_unit_interval(fn, dtype):
    if fn is torch.special.ndtri and dtype in (torch.bfloat16, torch.float16):
        pytest.skip("not on CPU")
    check(fn, values(40, dtype=dtype, low=0.05, high=0.95), **tolerance(fn, dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("fn", EXACT, ids=name)
def test_exact(fn, dtype):
    check(fn, values(40, dtype=dtype), exact=True)


@pytest.mark.parametrize(
    "fn", [*EVERYWHERE, *POSITIVE, *UNIT, *EXACT, torch.frac, torch.reciprocal, torch.acosh], ids=name
)
def test_special_values(fn):
    x = torch.tensor(SPECIAL)
    if fn in (torch.sin, torch.cos, torch.tan, torch.sinc, torch.exp2):
        x = x[:-1]
    if fn in (torch.rad2deg, torch.square):
        x[-1] = 3e34
    check(fn, x)


@pytest.mark.parametrize("fn", COMPLEX, ids=name)
def test_complex(fn):
    check(fn, values(30, dtype=torch.complex64))


@pytest.mark.parametrize(
    "fn", [torch.exp, torch.sqrt, torch.sigmoid, torch.erf, torch.angle, torch.logit, torch.i0], ids=name
)
def test_integers_become_floats(fn):
    check(fn, torch.tensor([0, 1, 2, 3]))
    check(fn, torch.tensor([True, False]))
    check(fn, torch.tensor([0, 1, 5], dtype=torch.uint8))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fn", [torch.exp, torch.abs, torch.sigmoid], ids=name)
def test_layouts(fn, layout):
    check(fn, layouts()[layout], strides=True)


@pytest.mark.parametrize("mode", MODES)
def test_in_place_and_out(mode):
    def run(x):
        out = torch.empty(0, device=x.device)
        torch.exp(x, out=out)
        x.t()[1].sqrt_().neg_()
        return out, x, x.abs_()

    check(run, values(3, 4, low=0.1), mode=mode)


def test_rounding():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.345, -2.345, 1234.567])
    check(lambda x: (torch.round(x), *(torch.round(x, decimals=d) for d in (-2, -1, 0, 1, 2))), x)
    check(torch.round, x.half())


def test_nan_to_num():
    x = torch.tensor(SPECIAL)
    for dtype in FLOATS:
        check(torch.nan_to_num, x.to(dtype), exact=True)
        check(lambda x: torch.nan_to_num(x, nan=2, posinf=5.5, neginf=-5.5), x.to(dtype))
    check(torch.nan_to_num, torch.complex(x, x.flip(0)))
    check(torch.nan_to_num, torch.arange(3))


def test_complex_parts():
    x, y = values(5), values(5, seed=1)
    check(lambda x, y: (torch.complex(x, y), torch.polar(x.abs(), y)), x, y)
    check(torch.angle, torch.tensor(SPECIAL))
    z = torch.complex(x, y)
    check(lambda z: (z.conj() * z, z.conj().clone(), z.conj().resolve_conj(), z.conj().imag, -z.conj()), z)
    check(lambda z: (z.conj(), z.conj().imag, z.mH if z.dim() > 1 else z), z)
    check(lambda z: (z.conj().to(torch.complex128), torch.empty_like(z).copy_(z.conj())), z)
    check(lambda z: z.conj_physical_(), z)


def test_logit():
    x = torch.tensor([0.0, 0.001, 0.3, 1.0, 1.5])
    check(lambda x: (torch.logit(x), torch.logit(x, 0.01), torch.logit(x, -1)), x)
    check_grad(lambda x: torch.logit(x, 0.01), x.requires_grad_())


@pytest.mark.parametrize("n", range(4))
def test_polygamma(n):
    check(lambda x: torch.polygamma(n, x), values(20, low=0.1))
    check_grad(lambda x: torch.polygamma(n, x), values(20, low=0.1).requires_grad_())


def test_functions_of_two_tensors():
    x, y = values(20, low=1.5), values(20, low=0.1, seed=1)
    check(torch.special.zeta, x, y)
    check(torch.special.xlog1py, x, y)
    check(lambda x: torch.special.xlog1py(x, 2), x)


GRADIENTS = [fn for fn in EVERYWHERE if fn.__name__ not in ("special_erfcx",)]


@pytest.mark.parametrize("fn", GRADIENTS, ids=name)
def test_gradients(fn):
    check_grad(fn, values(20, low=0.2, high=0.9).requires_grad_())


@pytest.mark.parametrize("fn", [*POSITIVE, *UNIT, torch.abs, torch.sgn, torch.reciprocal], ids=name)
def test_gradients_of_positive_numbers(fn):
    check_grad(fn, values(20, low=0.1, high=0.9).requires_grad_())


GAMMA_PLACES = [*torch.linspace(-9.85, 9.85, 198).tolist(), -50.3, -1000.3, 1e-3, 30.0, 1e4, nan, inf]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_polygamma_on_both_sides(n: int) -> None:
    """Measured by float64; PyTorch's trigamma has ten digits in it."""
    x = torch.tensor(GAMMA_PLACES)
    check(lambda x: torch.polygamma(n, x), x.double(), rtol=1e-8, atol=1e-8)
    exact = torch.polygamma(n, x.double())
    mine = torch.polygamma(n, x.to("tpu")).cpu().double()
    known = exact.isfinite()
    error = (mine - exact).abs()[known]
    assert (error <= 5e-6 * (exact.abs() + 1)[known]).all()


def test_poles_of_the_gamma_functions() -> None:
    x = torch.tensor([0.0, -0.0, -1.0, -4.0])
    check(torch.digamma, x, exact=True)
    check(lambda x: torch.polygamma(0, x), x, exact=True)
    for n in (2, 3):
        check(lambda x, n=n: torch.polygamma(n, x), x, exact=True)


def test_erfinv_to_the_last_digits() -> None:
    x = torch.cat([1 - 10 ** torch.linspace(-7, 0, 50), torch.linspace(-1, 1, 41), torch.tensor([2.0, torch.nan])])
    got, exact = torch.erfinv(x.to("tpu")).cpu().double(), torch.erfinv(x.double())
    assert torch.equal(got.isnan(), exact.isnan()) and torch.equal(got.isinf(), exact.isinf())
    assert torch.allclose(got, exact, rtol=5e-7, atol=0, equal_nan=True)


def test_zeta_on_both_sides() -> None:
    q = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -1.0, -1.25, -30.25, 1e-3, 3.0, 50.0, -0.5, -2.5])
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 1.5, 0.5, -1.0, torch.nan, 6.0]).unsqueeze(1)
    check(torch.special.zeta, x, q, rtol=5e-6, atol=0.0)
    check(torch.special.zeta, torch.tensor([2, 3]), torch.tensor([-3, 2]))


@pytest.mark.parametrize("fn", [torch.Tensor.logit_, lambda x: x.mvlgamma_(1)], ids=["row", "decomposed"])
def test_in_place_results_must_fit(fn: Any) -> None:
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        fn(torch.ones(3, dtype=torch.int64, device="tpu"))
