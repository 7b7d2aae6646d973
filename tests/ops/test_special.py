"""Special functions, against values computed with many digits: some of PyTorch's own kernels are right to 1e-5 only."""

from math import inf, nan

import mpmath
import pytest
import torch
from ops.samples import values
from oracle import check, check_grad, check_rounded
from torch import special

ORACLES = {
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "modified_bessel_i0": lambda x: mpmath.besseli(0, x),
    "modified_bessel_i1": lambda x: mpmath.besseli(1, x),
    "modified_bessel_k0": lambda x: mpmath.besselk(0, x),
    "modified_bessel_k1": lambda x: mpmath.besselk(1, x),
    "scaled_modified_bessel_k0": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "scaled_modified_bessel_k1": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
    "spherical_bessel_j0": lambda x: mpmath.sin(x) / x,
    "airy_ai": mpmath.airyai,
}
POSITIVE = ("y", "k")
WAVES = ("bessel_j", "bessel_y", "airy", "spherical")
POLYNOMIALS = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
]
EDGES = torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 5.0, 2.0, 0.5, 8.0])


def arguments(name, dtype):
    kind = name.rsplit("_", 1)[-1][0]
    low = 1e-3 if kind in POSITIVE else -12
    return torch.cat([values(60, dtype=dtype, low=low, high=12), values(20, dtype=dtype, low=max(low, -60), high=60)])


def exact(oracle, *arguments, digits=40):
    rows = zip(*(t.double().tolist() for t in arguments), strict=True)
    with mpmath.workdps(digits):
        return torch.tensor([float(oracle(*map(mpmath.mpf, row))) for row in rows], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ORACLES)
def test_bessel(name, dtype):
    x = arguments(name, dtype)
    got = getattr(special, name)(x.to("tpu")).cpu().double()
    want = exact(ORACLES[name], x)
    eps = torch.finfo(dtype).eps
    # Near the zeros of a wave the argument's own digits say no more.
    scale = 1 + x.double().abs().clamp(max=60) * (2 if "airy" in name else 0.25)
    size = want.abs() + (0.5 * scale if name.startswith(WAVES) else 0)
    assert ((got - want).abs() / size).max() < 12 * eps


@pytest.mark.parametrize("name", ORACLES)
def test_bessel_at_the_edges(name):
    check(getattr(special, name), EDGES, rtol=1e-4, atol=1e-5)
    check(getattr(special, name), torch.tensor([1, 2, 5]), rtol=1e-4, atol=1e-5)
    check(getattr(special, name), torch.empty(0, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name, dtype):
    fn = getattr(special, name)
    x = torch.cat([values(30, dtype=dtype, low=-1.5, high=1.5), torch.tensor([0.0, 1.0, -1.0, 0.5, inf])])
    n = torch.tensor([-1, 0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 20])
    how = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    check(fn, x.to(dtype)[:, None], n, **how)
    check(fn, x.to(dtype), 4, **how)
    check(fn, 0.25, n, rtol=1e-4, atol=1e-4)
    # PyTorch returns what its loop never set.
    assert fn(torch.tensor(nan, dtype=dtype, device="tpu"), 4).isnan()


def test_polynomials_of_any_degree():
    n = torch.tensor([nan, inf, -inf, 1e30, 2.7, -0.7, -1.2, 127.0, 128.0, 129.0])
    for name in POLYNOMIALS:
        if "laguerre" not in name and "legendre" not in name:
            check(getattr(special, name), torch.tensor(0.3), n, rtol=1e-3, atol=1e-3)
    x = torch.tensor([1.5, 3.0, -2.0])
    check(special.chebyshev_polynomial_t, x, torch.tensor(100000))
    check(special.hermite_polynomial_h, torch.tensor(3, dtype=torch.int32), torch.tensor([2, 5]))


GAMMA = [(a, x) for a in (1e-3, 0.1, 0.5, 1.0, 1.2, 3.0, 19.0, 25.0, 150.0) for x in (1e-4, 0.3, 0.7, 1.05, 2.0, 20.0)]
GAMMA += [(a, a * r) for a in (5.0, 60.0, 199.0, 201.0, 1e3, 1e5) for r in (0.6, 0.8, 0.95, 1.0, 1.1, 1.3)]


def lower_gamma(a, x):
    return x**a * mpmath.exp(-x) / mpmath.gamma(a + 1) * mpmath.hyp1f1(1, a + 1, x, maxterms=10**6)


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma(upper):
    fn = torch.igammac if upper else torch.igamma
    for dtype in (torch.float64, torch.float32):
        a, x = torch.tensor(GAMMA, dtype=dtype).unbind(1)
        got = fn(a.to("tpu"), x.to("tpu")).cpu().double()
        want = exact(lambda a, x: 1 - lower_gamma(a, x) if upper else lower_gamma(a, x), a, x, digits=400)
        # The result changes by about this much with the last digit of its arguments.
        slack = 1 + a.double().sqrt() + (a - x).double().abs()
        tiny = torch.finfo(dtype).tiny
        error = (got - want).abs() / (want.abs() * slack * torch.finfo(dtype).eps + tiny)
        assert error.max() < 20, (error.max(), a[error.argmax()], x[error.argmax()])
        check(
            fn, *(t.flatten() for t in torch.meshgrid(*(torch.tensor([0.0, 1.0, inf, nan, -1.0]),) * 2, indexing="ij"))
        )


def test_incomplete_gamma_gradient_and_narrow_types():
    a, x = values(20, low=0.1, high=30), values(20, low=0.1, high=30, seed=1).requires_grad_()
    check_grad(torch.igamma, a, x)
    check_grad(torch.igammac, a, x)
    for dtype in (torch.bfloat16, torch.float16):
        check_rounded(torch.igamma, a.to(dtype), x.detach().to(dtype))
    check(lambda a, x: a.clone().igamma_(x), a, x.detach())
