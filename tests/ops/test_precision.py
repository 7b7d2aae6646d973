"""torch.set_float32_matmul_precision() reaches the products of float32, and nothing else."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import torch_tpu
from torch_tpu import aot

NAMES = {"highest": "HIGHEST", "high": "HIGH", "medium": "DEFAULT"}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def attention(x: torch.Tensor) -> torch.Tensor:
    q = x.reshape(1, 2, 4, 8)
    return F.scaled_dot_product_attention(q, q, q)


def gradient(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad((x @ x.t()).sin().sum(), x)[0]


CALLS: dict[str, Callable[..., Any]] = {
    "mm": lambda x: x @ x.t(),
    "addmm": lambda x: F.linear(x, x, x[:, 0]),
    "bmm": lambda x: torch.bmm(x[None], x.t()[None]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "convolution": lambda x: F.conv1d(x[None], x[:, :, None]),
    "attention": attention,
    "gradient": gradient,
}


def precisions(fn: Callable[..., Any], *inputs: torch.Tensor) -> set[str]:
    text = "".join(p.text for p in aot.capture_call(fn, inputs))
    return {
        name for pair in re.findall(r"precision = \[(\w+), (\w+)\]|#stablehlo<precision (\w+)>", text) for name in pair
    } - {""}


@pytest.mark.parametrize("name", CALLS)
def test_products_have_the_precision_that_is_set(name: str) -> None:
    x = torch.randn(8, 8)
    for chosen in ("highest", "medium", "high", "highest"):  # a plan that is known is not that of another precision
        torch.set_float32_matmul_precision(chosen)
        assert precisions(CALLS[name], x) == {NAMES[chosen]}


def test_other_dtypes_and_solvers_stay_exact() -> None:
    torch.set_float32_matmul_precision("medium")
    for dtype in (torch.bfloat16, torch.float64):
        assert precisions(CALLS["mm"], torch.randn(8, 8).to(dtype)) == {"HIGHEST"}
    assert precisions(CALLS["mm"], torch.randn(8, 8, dtype=torch.complex64)) == {"DEFAULT"}
    assert precisions(torch.linalg.matrix_exp, torch.randn(8, 8)) == {"HIGHEST"}


def test_only_products_are_compiled_anew(mode: str) -> None:
    def compiles(fn: Callable[..., Any], precision: str) -> int:
        torch.set_float32_matmul_precision(precision)
        x = torch.ones(7 + ["strict", "debug", "defer"].index(mode), 9, device="tpu")  # of its own in each mode
        torch.tpu.synchronize()
        before = torch.tpu.compile_stats()["compiles"]
        fn(x).cpu()
        return torch.tpu.compile_stats()["compiles"] - before

    for fn, again in ((lambda x: x @ x.t(), True), (lambda x: x.sin(), False)):
        compiles(fn, "highest")
        assert (compiles(fn, "high") > 0) == again
        assert compiles(fn, "highest") == compiles(fn, "high") == 0
    assert torch_tpu.modes.current_mode() == mode
