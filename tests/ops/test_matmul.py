from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import check, check_error, check_grad, check_rounded

nan, inf = float("nan"), float("inf")
EXACT = [torch.int64, torch.int32, torch.uint8]
WIDE = [torch.float32, torch.float64, torch.complex64]
NARROW = [torch.bfloat16, torch.float16]

OPS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(2, 3), (3, 4)]),
    "bmm": (torch.bmm, [(5, 2, 3), (5, 3, 4)]),
    "addmm": (torch.addmm, [(4,), (2, 3), (3, 4)]),
    "addmm_scaled": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), [(2, 1), (2, 3), (3, 4)]),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=3, alpha=2), [(2, 4), (5, 2, 3), (5, 3, 4)]),
    "addbmm": (torch.addbmm, [(2, 4), (5, 2, 3), (5, 3, 4)]),
    "mv": (torch.mv, [(2, 3), (3,)]),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=2, alpha=3), [(2,), (2, 3), (3,)]),
    "dot": (torch.dot, [(3,), (3,)]),
    "vdot": (torch.vdot, [(3,), (3,)]),
    "addr": (lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3), [(2, 3), (2,), (3,)]),
    "outer": (torch.outer, [(2,), (3,)]),
    "matmul": (torch.matmul, [(2, 1, 3, 4), (5, 4, 2)]),
    "linear": (torch.nn.functional.linear, [(2, 5, 3), (4, 3), (4,)]),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)]),
    "bilinear": (torch.nn.functional.bilinear, [(2, 3), (2, 4), (5, 3, 4), (5,)]),
    "chain": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [(2, 3), (3, 4), (4, 2)]),
}


def tensors(shapes: list[tuple[int, ...]], dtype: torch.dtype, grad: bool = False) -> list[torch.Tensor]:
    made = [(3 * torch.randn(s, dtype=torch.float64)) for s in shapes]
    if dtype == torch.uint8:
        made = [t.abs() for t in made]
    return [t.to(dtype).requires_grad_(grad) for t in made]


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("name", [n for n in OPS if n not in ("vdot", "bilinear", "chain")])
def test_integers(name: str, dtype: torch.dtype) -> None:
    fn, shapes = OPS[name]
    check(fn, *tensors(shapes, dtype), exact=True)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_floats(name: str, dtype: torch.dtype) -> None:
    fn, shapes = OPS[name]
    if dtype == torch.complex64:
        check(fn, *tensors(shapes, dtype), rtol=1e-5, atol=1e-4)
    else:
        check_grad(fn, *tensors(shapes, dtype, grad=True), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", ["mm", "bmm", "addmm_scaled", "baddbmm", "addbmm", "mv", "addmv", "dot", "addr"])
def test_narrow_floats_round_once(name: str, dtype: torch.dtype) -> None:
    fn, shapes = OPS[name]
    check_rounded(fn, *tensors(shapes, dtype))


@pytest.mark.parametrize("mode", ["debug", "defer"])
def test_modes(mode: str) -> None:
    fn, shapes = OPS["addmm_scaled"]
    check_grad(fn, *tensors(shapes, torch.float32, grad=True), mode=mode)


@pytest.mark.parametrize(
    "shapes",
    [[(0, 3), (3, 4)], [(2, 0), (0, 4)], [(2, 3), (3, 0)]],
    ids=["rows", "inner", "columns"],
)
def test_empty(shapes: list[tuple[int, ...]]) -> None:
    a, b = tensors(shapes, torch.float32)
    check(torch.mm, a, b, exact=True)
    check(torch.addmm, torch.randn(b.shape[1]), a, b, exact=True)
    check(torch.bmm, a.expand(2, *a.shape), b.expand(2, *b.shape), exact=True)
    check(torch.mv, a, b[:, 0] if b.shape[1] else torch.randn(3), rtol=1e-6, atol=1e-6)


def test_a_factor_of_zero_hides_nan() -> None:
    bad, a, b = torch.full((2, 4), nan), torch.randn(2, 3), torch.randn(3, 4)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), bad, a, b)
    check(lambda c, a, b: torch.addmm(c, a, b, alpha=0), torch.randn(2, 4), torch.full((2, 3), inf), b, exact=True)
    check(lambda c, a, b: c.addmm_(a, b, beta=0), bad, a, b)


def test_views_in_place_and_out() -> None:
    a, b = torch.randn(3, 2), torch.randn(8, 3)[::2]
    check(lambda a, b: a.t() @ b.t(), a, b)
    check(lambda a, b: torch.mm(a.t(), b.t(), out=torch.empty(2, 4, device=a.device)), a, b)
    check(lambda c, a, b: c.t().addmm_(a.t(), b.t(), alpha=0.5), torch.randn(4, 2), a, b)
    check(lambda x: torch.mm(x, x), torch.randn(3, 3))
    check(lambda x: torch.baddbmm(x, x.expand(2, 3, 3), x.expand(2, 3, 3)), torch.randn(1, 3, 3))


@pytest.mark.parametrize("gelu", [False, True])
def test_addmm_activation(gelu: bool) -> None:
    def fn(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._addmm_activation(c, a, b, use_gelu=gelu)

    check(fn, torch.randn(4), torch.randn(2, 3), torch.randn(3, 4))


MISFITS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(2, 3), (4, 5)]),
    "mm_of_a_vector": (torch.mm, [(2,), (2, 3)]),
    "bmm": (torch.bmm, [(2, 2, 3), (2, 4, 5)]),
    "bmm_batches": (torch.bmm, [(2, 2, 3), (3, 3, 5)]),
    "matmul": (torch.matmul, [(2, 3), (2, 3)]),
    "linear": (torch.nn.functional.linear, [(2, 3), (4, 2)]),
    "addmm": (torch.addmm, [(2, 5), (2, 3), (4, 5)]),
    "addmm_self": (torch.addmm, [(3, 5), (2, 4), (4, 5)]),
    "linear_bias": (torch.nn.functional.linear, [(2, 3), (4, 3), (5,)]),
    "baddbmm": (torch.baddbmm, [(2, 2, 5), (2, 2, 3), (2, 4, 5)]),
    "baddbmm_self": (torch.baddbmm, [(3, 2, 5), (2, 2, 3), (2, 3, 5)]),
    "mv": (torch.mv, [(2, 3), (4,)]),
    "addmv": (torch.addmv, [(2,), (2, 3), (4,)]),
    "dot": (torch.dot, [(3,), (4,)]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_shapes_that_do_not_fit(name: str) -> None:
    fn, shapes = MISFITS[name]
    check_error(fn, *(torch.randn(s) for s in shapes))


@pytest.mark.parametrize("added", [torch.bfloat16, torch.float32])
def test_sums_with_products_in_a_wider_dtype(added: torch.dtype) -> None:
    a, b = torch.randn(2, 3, 4).bfloat16(), torch.randn(2, 4, 5).bfloat16()
    c = torch.randn(2, 3, 5).to(added)
    wanted = 2 * c.float() + 3 * a.float() @ b.float()  # the CPU has no kernels for these
    on = [t.to("tpu") for t in (c, a, b)]
    sums = torch.baddbmm(*on, beta=2, alpha=3, out_dtype=torch.float32)
    assert sums.dtype == torch.float32
    torch.testing.assert_close(sums.cpu(), wanted)
    sums = torch.addmm(*(t[0] for t in on), beta=2, alpha=3, out_dtype=torch.float32)
    torch.testing.assert_close(sums.cpu(), wanted[0])
    with pytest.raises(RuntimeError, match="out_dtype must be"):
        torch.baddbmm(*on, out_dtype=torch.float16)
    with pytest.raises(RuntimeError, match="self dtype must match"):
        torch.baddbmm(on[0].double(), *on[1:], out_dtype=torch.float32)
    with pytest.raises(RuntimeError, match=r"\[2, 4\] but got: \[2, 3\]"):
        torch.baddbmm(*on[:2], on[2][:, :3], out_dtype=torch.float32)


def test_dtypes_that_do_not_fit() -> None:
    a = torch.randn(2, 3, device="tpu")
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.mm(a, a.t().double())
