from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from oracle import check, check_error, check_grad
from torch import Tensor, linalg

DTYPES = [torch.float32, torch.float64, torch.complex64]
TOLERANCE = {
    torch.float32: {"rtol": 1e-3, "atol": 1e-4},
    torch.float64: {"rtol": 1e-7, "atol": 1e-9},
    torch.complex64: {"rtol": 1e-3, "atol": 1e-4},
}
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def matrix(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype).requires_grad_()


def positive(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    a = torch.randn(shape, dtype=dtype)
    return (a @ a.mH + torch.eye(shape[-1], dtype=dtype)).requires_grad_()


def regular(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (torch.randn(shape, dtype=dtype) + 3 * torch.eye(shape[-1], dtype=dtype)).requires_grad_()


@every_dtype
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper: bool, dtype: torch.dtype) -> None:
    check_grad(partial(linalg.cholesky, upper=upper), positive(2, 4, 4, dtype=dtype), strides=True, **TOLERANCE[dtype])
    check(partial(torch.cholesky_inverse, upper=upper), linalg.cholesky(positive(4, 4, dtype=dtype), upper=upper))


def test_cholesky_of_what_is_not_positive() -> None:
    a = torch.stack([torch.eye(4), torch.diag(torch.tensor([1.0, 1.0, -1.0, 1.0])), -torch.eye(4)])
    check(lambda a: linalg.cholesky_ex(a).info, a, exact=True)
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 3"):
        linalg.cholesky(a[1].to("tpu"))


@every_dtype
@pytest.mark.parametrize("how", [{}, {"left": False}, {"unitriangular": True}], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_triangular(upper: bool, how: dict[str, Any], dtype: torch.dtype) -> None:
    y = matrix(2, 3, 4, dtype=dtype) if "left" in how else matrix(2, 4, 3, dtype=dtype)
    check_grad(partial(linalg.solve_triangular, upper=upper, **how), regular(4, 4, dtype=dtype), y, **TOLERANCE[dtype])


@every_dtype
def test_cholesky_solve(dtype: torch.dtype) -> None:
    factor = linalg.cholesky(positive(4, 4, dtype=dtype)).detach()
    check_grad(torch.cholesky_solve, matrix(4, 2, dtype=dtype), factor.requires_grad_(), **TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)], ids=str)
def test_qr(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check_grad(linalg.qr, matrix(*shape, dtype=dtype), **TOLERANCE[dtype])
    check(partial(linalg.qr, mode="complete"), matrix(*shape, dtype=dtype), **TOLERANCE[dtype])
    check(partial(linalg.qr, mode="r"), matrix(*shape, dtype=dtype), **TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("part", ["L", "U"])
def test_eigh(part: str, dtype: torch.dtype) -> None:
    def run(a: Tensor) -> Any:
        w, v = linalg.eigh(a, UPLO=part)
        return w, (v * w.unsqueeze(-2)) @ v.mH

    check_grad(run, positive(2, 4, 4, dtype=dtype), **TOLERANCE[dtype])
    check(partial(linalg.eigvalsh, UPLO=part), matrix(5, 5, dtype=dtype), **TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("full", [False, True])
def test_svd(full: bool, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def run(a: Tensor) -> Any:
        u, s, v = linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        unit = u.mH @ u, v @ v.mH
        return s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k, :], *unit

    check(run, matrix(*shape, dtype=dtype), **TOLERANCE[dtype])
    check(linalg.svdvals, matrix(*shape, dtype=dtype), **TOLERANCE[dtype])


def test_svd_of_less_than_full_rank() -> None:
    def run(a: Tensor) -> Any:
        u, s, v = linalg.svd(a)
        return s, u.mH @ u, v @ v.mH, (u * s) @ v

    a = torch.randn(4, 2) @ torch.randn(2, 4)
    check(run, a, rtol=1e-4, atol=1e-5)
    check(run, torch.zeros(3, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_svd_to_the_last_digits(dtype: torch.dtype) -> None:
    """Singular values that the square of the matrix rounds away."""
    q, p = (linalg.qr(torch.randn(12, 12, dtype=dtype)).Q for _ in range(2))
    a = q @ torch.diag(torch.logspace(0, -12, 12)).to(dtype) @ p

    def run(a: Tensor) -> Any:
        u, s, v = linalg.svd(a)
        return s, u.mH @ u, v @ v.mH, (u * s) @ v

    check(run, a, rtol=1e-13, atol=1e-14)
    check(lambda a: linalg.svdvals(a * 1e200) / 1e200, a, rtol=1e-13, atol=1e-14)
    check(linalg.svdvals, torch.randn(2, 30, 41, dtype=dtype), rtol=1e-13, atol=1e-13)


RESTS_ON_SVD: dict[str, Callable[..., Any]] = {
    "pinv": linalg.pinv,
    "matrix_rank": linalg.matrix_rank,
    "cond": linalg.cond,
    "nuc": partial(linalg.matrix_norm, ord="nuc"),
    "norm2": partial(linalg.matrix_norm, ord=2),
    "svdvals": linalg.svdvals,
}


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("name", RESTS_ON_SVD)
def test_what_rests_on_svd(name: str, shape: tuple[int, ...]) -> None:
    fn = check if name == "matrix_rank" else check_grad
    fn(RESTS_ON_SVD[name], matrix(*shape), rtol=1e-7, atol=1e-9)


def test_ranks_and_inverses_of_less_than_full_rank() -> None:
    a = torch.randn(2, 6, 2, dtype=torch.float64) @ torch.randn(2, 2, 4, dtype=torch.float64)
    for b in (a, a.float(), torch.zeros(3, 2), torch.zeros(0, 3), a @ a.mT):
        check(linalg.matrix_rank, b, exact=True)
        check(linalg.pinv, b, rtol=1e-4, atol=1e-4)
    check(partial(linalg.pinv, hermitian=True), a @ a.mT)
    check(partial(linalg.matrix_rank, tol=0.5), a)


SOLVES: dict[str, Callable[..., Any]] = {
    "solve": linalg.solve,
    "solve_right": lambda a, y: linalg.solve(a, y.mT, left=False),
    "inv": lambda a, y: linalg.inv(a),
    "det": lambda a, y: linalg.det(a),
    "slogdet": lambda a, y: linalg.slogdet(a).logabsdet,
    "lu_solve": lambda a, y: linalg.lu_solve(*linalg.lu_factor(a), y),
    "lu_solve_adjoint": lambda a, y: linalg.lu_solve(*linalg.lu_factor(a), y, adjoint=True),
    "matrix_power": lambda a, y: linalg.matrix_power(a, -2),
}


@every_dtype
@pytest.mark.parametrize("name", SOLVES)
def test_solves(name: str, dtype: torch.dtype) -> None:
    check_grad(SOLVES[name], regular(2, 4, 4, dtype=dtype), matrix(2, 4, 3, dtype=dtype), **TOLERANCE[dtype])


def test_solves_broadcast() -> None:
    check_grad(linalg.solve, regular(4, 4), matrix(4), rtol=1e-7, atol=1e-9)
    check_grad(linalg.solve, regular(4, 4), matrix(3, 4, 2), rtol=1e-7, atol=1e-9)
    check_grad(linalg.solve, regular(3, 4, 4), matrix(3, 4), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5)], ids=str)
def test_lu(shape: tuple[int, ...]) -> None:
    check(linalg.lu_factor_ex, matrix(*shape))
    check_grad(linalg.lu, matrix(*shape), rtol=1e-6, atol=1e-8)
    check(lambda a: torch.lu_unpack(*linalg.lu_factor(a)), matrix(*shape))


def test_lu_without_pivoting() -> None:
    """PyTorch has none on the CPU."""
    a = regular(2, 4, 4)
    packed, pivots = linalg.lu_factor(a.to("tpu"), pivot=False)
    _, lower, upper = linalg.lu(a.to("tpu"), pivot=False)
    torch.testing.assert_close((lower @ upper).cpu(), a)
    torch.testing.assert_close((packed.tril(-1) + torch.eye(4, dtype=a.dtype, device="tpu")).cpu(), lower.cpu())
    assert pivots.cpu().tolist() == [[1, 2, 3, 4]] * 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", ["det", "slogdet", "solve", "inv"])
def test_gradients_of_any_strides(name: str, dtype: torch.dtype) -> None:
    """PyTorch reads the factors that the forward leaves by the strides of the matrix."""
    a, y = regular(2, 4, 4, dtype=dtype), matrix(2, 4, 3, dtype=dtype)
    views: list[Callable[[Tensor], Tensor]] = [lambda a: a, lambda a: a.mT, lambda a: a[:, ::2, ::2]]
    for view in views:
        check_grad(lambda a, y, view=view: SOLVES[name](view(a + 0), view(y @ y.mT)), a, y)


def test_determinants_of_nothing() -> None:
    check(linalg.det, torch.zeros(2, 0, 0))
    check(linalg.slogdet, torch.zeros(0, 3, 3))
    check_error(linalg.det, torch.zeros(2, 3))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(("a", "y"), [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((2, 5, 3), (2, 5))], ids=str)
def test_least_squares(a: tuple[int, ...], y: tuple[int, ...], driver: str) -> None:
    check(lambda a, y: tuple(linalg.lstsq(a, y, driver=driver)), matrix(*a), matrix(*y))


def test_least_squares_gradient_and_complex() -> None:
    check_grad(lambda a, y: linalg.lstsq(a, y).solution, matrix(5, 3), matrix(5, 2))
    a, y = matrix(5, 3, dtype=torch.complex64), matrix(5, 2, dtype=torch.complex64)
    check(lambda a, y: linalg.lstsq(a, y).solution, a, y, rtol=1e-3, atol=1e-4)


def test_least_squares_of_less_than_full_rank() -> None:
    a = torch.randn(5, 2, dtype=torch.float64) @ torch.randn(2, 4, dtype=torch.float64)
    for driver in ("gelsy", "gelsd", "gelss"):
        check(lambda a, y, how=driver: tuple(linalg.lstsq(a, y, driver=how)), a, torch.randn(5, 2, dtype=torch.float64))


def test_singular() -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    check(lambda a: (linalg.inv_ex(a).info, linalg.det(a), linalg.slogdet(a)), a)
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.inv(a.to("tpu"))


@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_matrix_exp(scale: float) -> None:
    check(torch.matrix_exp, matrix(2, 4, 4).detach() * scale, rtol=1e-7, atol=1e-9)


def test_matrix_exp_gradient() -> None:
    check_grad(torch.matrix_exp, matrix(3, 3), rtol=1e-7, atol=1e-9)


def test_products() -> None:
    check_grad(partial(linalg.cross, dim=-2), matrix(2, 3, 4), matrix(1, 3, 4))
    check_grad(torch.kron, matrix(2, 3), matrix(3, 2))
    check(torch.tensordot, matrix(2, 3, 4), matrix(3, 4, 2))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    if p == 0.0:
        check(partial(torch.cdist, p=p), torch.randn(2, 3, 4).round(), torch.randn(5, 4).round())
        return
    check_grad(partial(torch.cdist, p=p), matrix(2, 3, 4), matrix(5, 4))
    check_grad(partial(torch.nn.functional.pdist, p=p), matrix(5, 3))


def test_distances_of_equal_points() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    check_grad(lambda x: torch.cdist(x, x), x, rtol=1e-4, atol=1e-3)
    check_grad(torch.nn.functional.pdist, torch.zeros(3, 4, requires_grad=True))


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "irfftn", "fftn"])
def test_fourier(name: str, norm: str) -> None:
    real = name in ("rfft", "ihfft", "rfft2")
    x = matrix(3, 4, 5, dtype=torch.float64 if real else torch.complex128)
    check_grad(partial(getattr(torch.fft, name), norm=norm), x)
    check(partial(getattr(torch.fft, name), norm=norm), x.detach().to(torch.float32 if real else torch.complex64))


def test_fourier_of_other_dims_and_lengths() -> None:
    x = torch.randn(3, 4, 5, 2, 3)
    check(lambda x: torch.fft.fftn(x), x, rtol=1e-4, atol=1e-4)
    check(lambda x: torch.fft.rfft(x, n=7, dim=1), x)
    check(lambda x: torch.fft.irfft(x, n=6, dim=0), x + 0j)
    check(lambda x: torch.stft(x, 8, return_complex=True, window=torch.hann_window(8, device=x.device)), x.flatten())


def test_distances_to_nothing_over_a_batch() -> None:
    check_grad(torch.cdist, matrix(0, 4, 5), matrix(3, 5))


def test_fourier_lays_out_as_the_cpu() -> None:
    z, x = torch.randn(2, 3, 4, dtype=torch.complex64), torch.randn(2, 3, 4)
    fft = torch.fft
    for fn, v in (
        (lambda v: fft.fftn(v.permute(2, 0, 1), dim=(0, 1)), z),
        (lambda v: fft.hfft2(v, dim=(0, 2)), z),
        (lambda v: fft.irfft(v.mT, dim=0), z),
        (lambda v: fft.rfft2(v.permute(1, 2, 0)), x),
        (lambda v: fft.rfft(v, dim=1, out=v.new_empty(0, dtype=torch.complex64)), x),
        (lambda v: fft.ihfft(v, dim=1, out=v.new_empty(0, dtype=torch.complex64)), x),
    ):
        check(fn, v, strides=True, rtol=1e-4, atol=1e-5)


def test_empty_targets_are_laid_out_as_results() -> None:
    a = torch.randn(4, 4)
    a = a @ a.mT + torch.eye(4)
    check(lambda a: torch.linalg.eigh(a, out=(a.new_empty(0), a.new_empty(0)))[0], a, rtol=1e-4, atol=1e-4)
    for fn in (
        lambda a: torch.linalg.eigh(a, out=(a.new_empty(0), a.new_empty(0)))[1].abs(),
        lambda a: torch.linalg.qr(a, out=(a.new_empty(0), a.new_empty(0))),
        lambda a: torch.triangular_solve(a, a, out=(a.new_empty(0), a.new_empty(0))),
    ):
        check(fn, a, strides=True, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("driver", ["gels", "gelsd"])
def test_least_squares_lie_in_columns(driver: str) -> None:
    for m, n in ((5, 3), (3, 5)):
        check(
            lambda a, y: torch.linalg.lstsq(a, y, driver=driver).solution,
            torch.randn(2, m, n),
            torch.randn(2, m, 2),
            strides=True,
            rtol=1e-3,
            atol=1e-3,
        )


def test_svd_of_zero_is_the_identity() -> None:
    check(lambda a: torch.linalg.svd(a), torch.zeros(3, 3))
    check_grad(lambda a: torch.linalg.norm(a, 2), torch.zeros(4, 4, requires_grad=True))


def test_matrix_exp_of_a_batch_squares_each_as_often_as_it_needs() -> None:
    a = torch.randn(3, 4, 4) * torch.tensor([0.1, 1.0, 8.0]).reshape(3, 1, 1)
    exact = torch.linalg.matrix_exp(a.double())
    errors = [(torch.linalg.matrix_exp(a.to(d)).cpu().double() - exact).norm(dim=(1, 2)) for d in ("cpu", "tpu")]
    assert (errors[1] <= 2 * errors[0] + 1e-6 * exact.norm(dim=(1, 2))).all()


@every_dtype
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_by_its_older_name(upper: bool, dtype: torch.dtype) -> None:
    check_grad(partial(torch.cholesky, upper=upper), positive(2, 4, 4, dtype=dtype), **TOLERANCE[dtype])
    check(lambda a: torch.cholesky(a, upper, out=torch.empty_like(a)), positive(4, 4, dtype=dtype).detach())
    check(torch.cholesky, torch.empty(2, 0, 0, dtype=dtype))
    check_error(torch.cholesky, -torch.eye(3, dtype=dtype))


@every_dtype
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5), (2, 0, 3)], ids=str)
def test_geqrf(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(torch.geqrf, matrix(*shape, dtype=dtype).detach(), strides=True, **TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_ormqr(left: bool, transpose: bool, dtype: torch.dtype) -> None:
    for rows, columns in [(5, 3), (4, 4)]:
        packed, taus = torch.geqrf(matrix(2, rows, columns, dtype=dtype).detach())
        y = matrix(2, rows, 3, dtype=dtype) if left else matrix(2, 3, rows, dtype=dtype)
        run = partial(torch.ormqr, left=left, transpose=transpose)
        check_grad(run, packed.requires_grad_(), taus.requires_grad_(), y, **TOLERANCE[dtype])
    check(run, *(t.detach() for t in (packed, taus)), y.detach()[:, :0] if not left else y.detach()[..., :0])


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_ldl(hermitian: bool, dtype: torch.dtype) -> None:
    def run(a: Tensor, y: Tensor) -> Any:
        factors = linalg.ldl_factor_ex(a, hermitian=hermitian)
        return factors, linalg.ldl_solve(factors.LD, factors.pivots, y, hermitian=hermitian)

    a = torch.randn(6, 7, 7, dtype=dtype)
    a[1] -= torch.diag(a[1].diagonal())  # pivots of two rows
    a[2, :, 3], a[2, 3, :] = 0, 0  # singular
    a[3] = torch.eye(7)
    tolerance = TOLERANCE.get(dtype, TOLERANCE[torch.float64])
    check(lambda a: linalg.ldl_factor_ex(a, hermitian=hermitian), a, strides=True, **tolerance)
    regular = a[[0, 1, 3, 4, 5]]
    check(run, regular, torch.randn(5, 7, 2, dtype=dtype), **tolerance)
    check(run, regular, torch.randn(1, 7, 3, dtype=dtype), **tolerance)
    check(run, regular[1], torch.randn(4, 7, 1, dtype=dtype), **tolerance)
    check(run, a[:, :0, :0], a[:, :0])
    check_error(partial(linalg.ldl_factor, hermitian=hermitian), a[2])


def by_place(values: Tensor) -> Tensor:
    """Eigenvalues in an order of their own: rounding may change the device's."""
    order = sorted(values.tolist(), key=lambda v: (round(v.real, 3), round(v.imag, 3)))
    return torch.tensor(order, dtype=values.dtype)


SQUARE = {
    "random": torch.randn(8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    "lower": torch.tril(torch.arange(1.0, 65.0, dtype=torch.float64).view(8, 8)),
    "rotation": torch.roll(torch.eye(8, dtype=torch.float64), 1, 0),
    "defective": torch.diag(torch.ones(7, dtype=torch.float64), 1) + 2 * torch.eye(8, dtype=torch.float64),
    "nilpotent": torch.diag(torch.ones(7, dtype=torch.float64), -1),
    "graded": torch.diag(torch.logspace(0, -12, 8, dtype=torch.float64)) + torch.diag(torch.full((7,), 1e-13), 1),
    "zero": torch.zeros(8, 8, dtype=torch.float64),
    "huge": 1e300 * torch.eye(8, dtype=torch.float64).flip(0),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_eig(dtype: torch.dtype) -> None:
    a = torch.stack(list(SQUARE.values())).to(dtype)
    if dtype.is_complex:
        a = a * torch.tensor(1 + 0.5j)
    values, vectors = (t.cpu() for t in linalg.eig(a.to("tpu")))
    size = a.abs().amax((-1, -2)).clamp(min=1e-300)
    unit = a / size[:, None, None]
    rest = unit.to(vectors.dtype) @ vectors - vectors * (values / size[:, None]).unsqueeze(-2)
    assert rest.abs().max() < 2e-14
    assert (linalg.vector_norm(vectors, dim=-2) - 1).abs().max() < 1e-14
    want = linalg.eigvals(a)
    for name, got, right in zip(SQUARE, values, want, strict=True):
        if name not in ("defective", "nilpotent"):  # whose eigenvalues change with the square root of what is rounded
            torch.testing.assert_close(by_place(got), by_place(right), rtol=1e-12, atol=1e-12 * right.abs().max())
    if not dtype.is_complex:
        assert not values[1].imag.any() and not vectors[1].imag.any()
        assert set(values[0].tolist()) == set(values[0].conj().tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_what_rests_on_eig(dtype: torch.dtype) -> None:
    def run(a: Tensor) -> Any:
        values, vectors = linalg.eig(a)
        return (vectors * values.exp().unsqueeze(-2)) @ linalg.inv(vectors), linalg.eigvals(a).pow(2).sum(-1)

    a = torch.randn(3, 5, 5, dtype=dtype, generator=torch.Generator().manual_seed(3)).requires_grad_()
    check_grad(run, a, **TOLERANCE.get(dtype, TOLERANCE[torch.float64]))
    check(linalg.eig, a[:, :0, :0].detach(), strides=True)
    into = torch.empty(0, dtype=(a * 1j).dtype, device="tpu")
    assert linalg.eigvals(a.detach().to("tpu"), out=into) is into
    torch.testing.assert_close(by_place(into.cpu()[0]), by_place(linalg.eigvals(a[0].detach())), rtol=1e-4, atol=1e-4)
    check_error(linalg.eig, a.detach() * float("nan"))
    check_error(linalg.eig, a.detach()[:, :3])
    check_error(linalg.eigvals, a.detach()[0, 0])
    got = torch.empty(0, dtype=into.dtype, device="tpu"), torch.empty(0, dtype=into.dtype, device="tpu")
    linalg.eig(a.detach().to("tpu"), out=got)
    for vectors in (linalg.eig(a.to("tpu")).eigenvectors, got[1]):
        assert vectors.stride() == linalg.eig(a).eigenvectors.stride()
