from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad, launches
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend

TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float64: {"rtol": 1e-6, "atol": 1e-8},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
}


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    return leaf(2, 4, 5, 8, dtype=dtype), leaf(2, 4, 7, 8, dtype=dtype), leaf(2, 4, 7, 8, dtype=dtype)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("how", [{}, {"scale": 0.3}, {"is_causal": True}], ids=str)
def test_attention(how: dict[str, Any], dtype: torch.dtype) -> None:
    check_grad(partial(attend, **how), *inputs(dtype), **TOLERANCE[dtype])


@pytest.mark.parametrize("mode", MODES)
def test_modes(mode: str) -> None:
    check_grad(partial(attend, is_causal=True), *inputs(), mode=mode, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (2, 1, 5, 7), (2, 4, 5, 7)], ids=str)
def test_bias(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check_grad(lambda q, k, v, m: attend(q, k, v, m), *inputs(dtype), leaf(*shape, dtype=dtype), **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_bool_mask_with_a_row_that_sees_nothing(dtype: torch.dtype) -> None:
    mask = torch.rand(5, 7) > 0.4
    mask[:, 0], mask[2] = True, False
    check_grad(lambda q, k, v, m: attend(q, k, v, m), *inputs(dtype), mask, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_grouped_queries(dtype: torch.dtype) -> None:
    q, k, v = leaf(2, 6, 5, 8, dtype=dtype), leaf(2, 2, 5, 8, dtype=dtype), leaf(2, 2, 5, 8, dtype=dtype)
    check_grad(partial(attend, is_causal=True, enable_gqa=True), q, k, v, **TOLERANCE[dtype])


def test_other_shapes() -> None:
    how = TOLERANCE[torch.float32]
    check_grad(attend, leaf(4, 5, 8), leaf(4, 7, 8), leaf(4, 7, 8), **how)
    check_grad(attend, leaf(2, 4, 5, 8), leaf(2, 4, 7, 8), leaf(2, 4, 7, 3), **how)
    check_grad(attend, leaf(5, 8), leaf(7, 8), leaf(7, 8), **how)
    check_grad(attend, leaf(2, 4, 5, 8), leaf(1, 4, 7, 8), leaf(1, 4, 7, 8), **how)
    check(attend, torch.randn(2, 4, 0, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8))


def test_heads_that_are_transposed_views() -> None:
    def run(x: Tensor) -> Tensor:
        q, k, v = x.reshape(2, 5, 3, 4, 8).transpose(1, 3).unbind(2)
        return attend(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 32)

    check_grad(run, leaf(2, 5, 96), **TOLERANCE[torch.float32])


def test_one_node_forward_and_one_backward() -> None:
    q, k, v = (t.detach().to("tpu").requires_grad_() for t in inputs())
    grad = torch.ones(2, 4, 5, 8, device="tpu")

    def step() -> None:
        torch.autograd.grad(attend(q, k, v, is_causal=True), (q, k, v), grad)

    step()
    with launches() as count:
        step()
        assert count() == 2


def test_the_composite_can_be_asked_for() -> None:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel([SDPBackend.MATH]):
            return attend(q, k, v)

    check_grad(run, *inputs(), **TOLERANCE[torch.float32])


@pytest.mark.parametrize("module", [partial(torch.nn.MultiheadAttention, 8, 2, batch_first=True)])
@pytest.mark.parametrize("weights", [True, False])
def test_multihead_module(module: Callable[..., torch.nn.Module], weights: bool) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        m = module().to(x.device)
        y, w = m(x, x, x, need_weights=weights)
        return y, w, torch.autograd.grad(y.square().sum(), list(m.parameters()))

    check(run, torch.randn(2, 5, 8), **TOLERANCE[torch.float32])


def test_narrow_gradients_do_not_cancel() -> None:
    """What is subtracted from the gradient of a weight is not made of the result, which was rounded."""
    inputs = [torch.randn(4, n, 8).bfloat16() for n in (3, 6, 6)]

    def gradients(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        q, k, v = (t.to(device, dtype).requires_grad_() for t in inputs)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        seed = (torch.arange(out.numel()) % 13 - 4).div(4).reshape(out.shape)
        return [g.cpu().double() for g in torch.autograd.grad(out, [q, k, v], seed.to(device, dtype))]

    exact = gradients("cpu", torch.float64)
    for dtype, most in ((torch.bfloat16, 0.01), (torch.float32, 5e-6)):
        for got, want in zip(gradients("tpu", dtype), exact, strict=True):
            assert (got - want).abs().max() <= most * want.abs().max()
