"""gather, scatter and their relatives."""

import pytest
import torch
from oracle import MODES, check, check_grad
from samples import values

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)
TWICE = torch.tensor([[0, 0, 3], [2, 2, 2]])
ONCE = torch.tensor([[0, 1, 3], [2, 0, 1]])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gather(dtype: torch.dtype) -> None:
    x = values(4, 5, dtype=dtype)
    check(lambda x, i: (x.gather(0, i), x.gather(-1, i), x.t().gather(0, i)), x, TWICE)


@pytest.mark.parametrize("mode", MODES)
def test_gather_and_its_gradient(mode: str) -> None:
    check_grad(lambda x, i: x.gather(1, i), values(4, 5).requires_grad_(), TWICE, mode=mode)


def test_gather_of_little() -> None:
    check(lambda x, i: x.gather(0, i), values(), torch.zeros((), dtype=torch.int64))
    check(lambda x, i: x.gather(0, i), values(3), torch.zeros(0, dtype=torch.int64))
    check(lambda x, i: x.gather(0, i), values(2, 3, 4), torch.zeros(1, 3, 2, dtype=torch.int64))
    check(lambda x, i: x.gather(1, i), values(2, 3), torch.zeros(2, 3, dtype=torch.int32).long())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scatter(dtype: torch.dtype) -> None:
    x, v = values(4, 5, dtype=dtype), values(3, 4, dtype=dtype, seed=1)
    check(lambda x, i, v: x.scatter(0, i, v), x, ONCE, v)
    check(lambda x, i: x.scatter_(1, i, 1), x, ONCE)
    check(lambda x, i, v: x.scatter_add(1, i, v), x, TWICE, v)
    check(lambda x, i, v: x.t().scatter_add_(1, i, v), x, TWICE, v)


@pytest.mark.parametrize("how", ["add", "multiply"])
def test_scatter_with_reduction(how: str) -> None:
    x, v = values(4, 5), values(3, 4, seed=1)
    check(lambda x, i, v: x.scatter(0, i, v, reduce=how), x, TWICE, v)
    check(lambda x, i: x.scatter(0, i, 2.5, reduce=how), x, TWICE)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(how: str, include: bool) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x, v = values(4, 5, dtype=dtype), values(3, 4, dtype=dtype, seed=1)
        check(lambda x, i, v: x.scatter_reduce(1, i, v, how, include_self=include), x, TWICE, v)
    x, v = values(4, 5).requires_grad_(), values(2, 3, seed=1).requires_grad_()
    check_grad(lambda x, i, v: x.scatter_reduce(0, i, v, how, include_self=include), x, TWICE, v)


def test_scatter_and_its_gradient() -> None:
    x, v = values(4, 5).requires_grad_(), values(2, 3, seed=1).requires_grad_()
    check_grad(lambda x, i, v: x.scatter(0, i, v), x, ONCE, v)
    check_grad(lambda x, i, v: x.scatter_add(1, i, v), x, TWICE, v)


def test_reductions_of_nan() -> None:
    x, v = torch.zeros(3), torch.tensor([float("nan"), 1.0, -1.0])
    for how in ("amax", "amin"):
        check(lambda x, i, v, how=how: x.scatter_reduce(0, i, v, how), x, torch.tensor([1, 1, 2]), v)


def test_new_numbers_and_sizes() -> None:
    x, i = values(4, 5).to("tpu"), ONCE.to("tpu")
    x.scatter(0, i, 0.5)
    before = torch.tpu.compile_stats()["compiles"]
    x.scatter(0, i, 0.75)
    assert torch.tpu.compile_stats()["compiles"] == before


def test_one_hot() -> None:
    check(lambda i: torch.nn.functional.one_hot(i, 6), TWICE)
