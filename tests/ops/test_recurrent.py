from typing import Any

import pytest
import torch
from oracle import MODES, check, check_grad
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def step(module: nn.Module, x: Tensor) -> Any:
    out, state = module(x)
    states = state if isinstance(state, tuple) else (state,)
    loss = out.square().sum() + sum(s.sum() for s in states)
    return out, state, torch.autograd.grad(loss, [x, *module.parameters()])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "how", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}], ids=str
)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_module(name: str, how: dict[str, Any], mode: str) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        return step(getattr(nn, name)(3, 4, **how).to(x.device), x)

    check(run, torch.randn(2, 5, 3, requires_grad=True), mode=mode, **TOLERANCE)


def test_projection_and_relu() -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        first = step(nn.LSTM(3, 4, proj_size=2).to(x.device), x)
        return first, step(nn.RNN(3, 4, nonlinearity="relu").to(x.device), x)

    check(run, torch.randn(2, 5, 3, requires_grad=True), **TOLERANCE)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_packed(name: str) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        module = getattr(nn, name)(3, 4, bidirectional=True).to(x.device)
        packed = pack_padded_sequence(x, torch.tensor([5, 3, 2]))
        out, _ = pad_packed_sequence(module(packed)[0])
        return out, torch.autograd.grad(out.square().sum(), [x, *module.parameters()])

    check(run, torch.randn(5, 3, 3, requires_grad=True), **TOLERANCE)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_cell(name: str, dtype: torch.dtype) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        module = getattr(nn, name)(3, 4).to(x.device, dtype)
        return module(x)

    check_grad(run, torch.randn(2, 3, dtype=dtype, requires_grad=True), **TOLERANCE)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_narrow_floats(name: str) -> None:
    def run(x: Tensor) -> Any:
        torch.manual_seed(0)
        return step(getattr(nn, name)(3, 4).to(x.device, torch.bfloat16), x)

    check(run, torch.randn(2, 5, 3).bfloat16().requires_grad_(), rtol=5e-2, atol=5e-2)
