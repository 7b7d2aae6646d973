"""Reductions: sums, extrema, truth, moments, norms."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.uint8]
SHAPES = [(), (3,), (2, 3, 4), (0, 3), (3, 0)]


def make(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 9, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype) * (1 + 1j if dtype.is_complex else 1)


def name(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


SUMS = {
    "sum": lambda x: (x.sum(), x.sum(-1), x.sum(0, keepdim=True), x.sum([])),
    "nansum": lambda x: (x.nansum(), x.nansum(-1)),
    "prod": lambda x: (x.prod(), x.prod(-1), x.prod(0, keepdim=True)),
    "count_nonzero": lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 0)),
}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", SUMS)
def test_sums(op: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if op == "nansum" and dtype == torch.complex64:
        pytest.skip("not defined")
    check(SUMS[op], make(shape, dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mean(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(lambda x: (x.mean(), x.mean(-1), x.mean(0, keepdim=True)), make(shape, dtype))


def test_sum_of_views() -> None:
    x = make((4, 6))
    check(lambda x: (x.t().sum(0), x[:, ::2].sum(1), x[1].expand(3, 6).sum(0), x.sum((0, 1))), x)


def test_result_dtype() -> None:
    x = torch.full((70000,), 1.0, dtype=torch.float16)
    check(lambda x: (x.sum(dtype=torch.float32), x.mean(dtype=torch.float64)), x)
    check(lambda x: x.sum(dtype=torch.int32), torch.tensor([1.9, 2.9]))
    check(lambda x: torch.sum(x, 0, out=torch.empty((), dtype=torch.float32, device=x.device)), x)
    check(lambda x: x.sum(dtype=torch.uint8), torch.full((300,), 1))


@pytest.mark.parametrize("shape", [(10**7,), (10**6, 4)], ids=str)
def test_long_sums_are_exact_enough(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    exact = x.double().sum(0)
    assert ((x.to("tpu").sum(0).cpu().double() - exact).abs() / exact).max() < 5e-7


EXTREMA = {
    "max": lambda x: (x.max(), *x.max(-1), *x.max(0, keepdim=True)),
    "min": lambda x: (x.min(), *x.min(-1), *x.min(0, keepdim=True)),
    "amax": lambda x: (x.amax(), x.amax(-1), x.amax(0, keepdim=True)),
    "amin": lambda x: (x.amin(), x.amin(-1), x.amin(0, keepdim=True)),
    "aminmax": lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=0, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmax(-1), x.argmax(0, keepdim=True)),
    "argmin": lambda x: (x.argmin(), x.argmin(-1), x.argmin(0, keepdim=True)),
}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=name)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("op", EXTREMA)
def test_extrema(op: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if op.startswith("arg") and dtype == torch.bool:
        pytest.skip("not defined")
    check(EXTREMA[op], make(shape, dtype), exact=True)


@pytest.mark.parametrize("op", EXTREMA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=name)
def test_extrema_of_what_is_no_number(op: str, dtype: torch.dtype) -> None:
    nan, inf = float("nan"), float("inf")
    rows = [[1, nan, 3, nan], [nan] * 4, [inf, inf, -inf, 1], [-inf] * 4, [2, 2, 1, 1], [0.0, -0.0, 0.0, -0.0]]
    check(lambda x: tuple(EXTREMA[op](row) for row in x), torch.tensor(rows, dtype=dtype))
    check(lambda x: EXTREMA[op](x), torch.tensor(rows, dtype=dtype))


REFUSED = [
    (RuntimeError, r"numel\(\) == 0", lambda x: x[:0].max()),
    (RuntimeError, r"numel\(\) == 0", lambda x: x[:0].min()),
    (IndexError, "non-zero size", lambda x: x[:0].max(0)),
    (IndexError, "non-zero size", lambda x: x[:0].amax(0)),
    (IndexError, "non-zero size", lambda x: x[:0].argmin(0)),
    (IndexError, r"numel\(\) == 0", lambda x: x[:0].argmax()),
    (IndexError, "out of range", lambda x: x.sum(5)),
    (IndexError, "out of range", lambda x: x.max(5)),
    (NotImplementedError, "not implemented", lambda x: (x + 0j).max()),
    (RuntimeError, "does not support bool", lambda x: x.bool().argmax()),
    (RuntimeError, "only support floating point", lambda x: x.long().var()),
    (RuntimeError, "floating point or complex", lambda x: x.long().mean()),
    (RuntimeError, "", lambda x: torch.mean(x, 0, out=torch.empty(4, dtype=torch.int64, device=x.device))),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case: int) -> None:
    error, match, call = REFUSED[case]
    for device in ("cpu", "tpu"):
        with pytest.raises(error, match=match):
            call(torch.ones(3, 4, device=device))


def test_extrema_along_nothing() -> None:
    check(lambda x: (x.max(1), x.amin(1), x.argmax(1)), torch.empty(0, 3))


def test_out_of_pairs() -> None:
    def run(x: torch.Tensor) -> object:
        values, indices = torch.empty(0, device=x.device), torch.empty(0, dtype=torch.int64, device=x.device)
        torch.max(x, 1, out=(values, indices))
        return values, indices

    check(run, make((3, 5)))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool, torch.complex64], ids=name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", [torch.any, torch.all], ids=["any", "all"])
def test_truth(op: Callable[..., Any], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(lambda x: (op(x), op(x, -1), op(x, 0, keepdim=True), op(x, [0]), op(x, [])), make(shape, dtype))


def test_truth_of_nan() -> None:
    check(lambda x: (x.any(), x.all()), torch.tensor([float("nan")]))


MOMENTS = {"var": torch.var, "std": torch.std, "var_mean": torch.var_mean, "std_mean": torch.std_mean}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=name)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 4), (3, 0)], ids=str)
@pytest.mark.parametrize("op", MOMENTS)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments(op: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def run(x: torch.Tensor) -> object:
        f = MOMENTS[op]
        return f(x), f(x, -1), f(x, 0, correction=0, keepdim=True), f(x, -1, correction=1.5), f(x, 0, correction=7)

    check(run, make(shape, dtype))


def test_variance_far_from_zero() -> None:
    check(torch.var, make((1000,)) + 1e4, rtol=1e-4, atol=0.0)


def test_correction_compiles_nothing() -> None:
    x = make((5,)).to("tpu")
    x.var(correction=2.5)
    compiles = torch.tpu.compile_stats()["compiles"]
    x.var(correction=3.5)
    assert torch.tpu.compile_stats()["compiles"] == compiles


ORDERS = [0, 1, 2, 3, 0.5, -1, float("inf"), -float("inf")]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=name)
@pytest.mark.parametrize("p", ORDERS)
def test_norms(p: float, dtype: torch.dtype) -> None:
    def run(x: torch.Tensor) -> object:
        norm = torch.linalg.vector_norm
        return norm(x, p), norm(x, p, dim=-1), norm(x, p, dim=(0, 1), keepdim=True), x[0, 0, 0].norm(p)

    check(run, make((2, 3, 4), dtype))


def test_norms_of_edges() -> None:
    norm = torch.linalg.vector_norm
    check(lambda x: (norm(x), norm(x, 1), norm(x, 0), norm(x, 2, dim=0), x.norm()), torch.empty(0, 3))
    nan = torch.tensor([1.0, float("nan"), float("inf")])
    check(lambda x: (norm(x), norm(x, 1), norm(x, float("inf")), norm(x, -float("inf")), norm(x, 0)), nan)
    check(lambda x: norm(x, dtype=torch.float64), nan[:1])
    check(lambda x, y: torch.dist(x, y, 3), make((3,)), make((4, 3)))


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_logsumexp(dtype: torch.dtype) -> None:
    # PyTorch rounds between its three steps.
    tolerance = {torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(dtype)
    how = {"rtol": tolerance, "atol": tolerance}
    check(lambda x: (x.logsumexp(0), x.logsumexp((0, -1), keepdim=True), x.logsumexp(1)), make((2, 3, 4), dtype), **how)
    inf = float("inf")
    rows = torch.tensor([[inf, 1], [-inf, -inf], [-inf, 1], [float("nan"), 1], [1e4, 1e4]]).to(dtype)
    check(lambda x: x.logsumexp(1), rows)


def test_trace() -> None:
    check(torch.trace, make((3, 5)))
    check(torch.trace, make((5, 3), torch.int32))
    check(torch.trace, torch.empty(0, 3))


GRADIENTS = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((0, 1)),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1).values,
    "min": lambda x: x.min(),
    "var": lambda x: x.var(1),
    "std_mean": lambda x: torch.std_mean(x, 0),
    "norm": lambda x: x.norm(dim=1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, dim=0),
    "norm3": lambda x: torch.linalg.vector_norm(x, 3),
    "logsumexp": lambda x: x.logsumexp(1),
}


@pytest.mark.parametrize("op", GRADIENTS)
def test_gradients(op: str) -> None:
    check_grad(GRADIENTS[op], make((3, 4)).requires_grad_())


def test_gradients_of_complex() -> None:
    check_grad(lambda x: (x.logsumexp(1), x.prod(0)), make((3, 4), torch.complex64).requires_grad_())


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    x = make((4, 5))
    check(lambda x: ((x - x.mean(1, keepdim=True)).sum(0), x.argmax(1), x.var(0), x.norm()), x, mode=mode)


def test_equal() -> None:
    x = make((3, 4)).to("tpu")
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)
    assert not torch.equal(x, x[:2])
    assert not torch.equal(x * float("nan"), x * float("nan"))
    assert torch.equal(x[:0], x[:0].clone())
    assert torch.equal(x.t(), x.t().contiguous())
    with pytest.raises(RuntimeError, match="same"):
        torch.equal(x, x.cpu())
