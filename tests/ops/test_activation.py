"""Activations and their derivatives."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ops.samples import values
from oracle import MODES, check_grad, check_rounded

ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "threshold": lambda x: F.threshold(x, 0.3, -1.0),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardtanh": lambda x: F.hardtanh(x, -0.7, 1.2),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 1.3),
    "celu": lambda x: F.celu(x, 1.3),
    "selu": F.selu,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, 2.5, 3.0),
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
}
activations = pytest.mark.parametrize("fn", ACTIVATIONS.values(), ids=ACTIVATIONS)


@activations
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_values_and_gradients(fn, dtype):
    # Steps that the reduced types of both devices round differently by one unit.
    loose = {} if dtype.itemsize >= 4 else {"rtol": 2 * torch.finfo(dtype).eps, "atol": 2 * torch.finfo(dtype).eps}
    check_grad(fn, values(5, 8, dtype=dtype).requires_grad_(), **loose)


@activations
def test_special_values(fn):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 3.0, -3.0, 6.0, 0.3, -0.3, 100.0, -100.0])
    if fn is F.gelu:  # of an infinity the CPU gives NaN on some machines
        x = x[x.isfinite() | x.isnan()]
    check_grad(fn, x.requires_grad_())


@pytest.mark.parametrize("mode", MODES)
def test_in_place(mode):
    def run(x):
        y = x * 1
        F.relu(y.t(), inplace=True)
        return y, F.leaky_relu_(x * 1), F.elu(x * 1, inplace=True), F.silu(x * 1, inplace=True)

    check_grad(run, values(3, 4).requires_grad_(), mode=mode)


@pytest.mark.parametrize("dim", [0, -1])
def test_glu(dim):
    check_grad(lambda x: F.glu(x, dim), values(4, 6).requires_grad_())
    check_grad(lambda x: F.glu(x, dim), values(4, 6, dtype=torch.bfloat16).requires_grad_(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("weights", [1, 3])
def test_prelu(weights):
    check_grad(F.prelu, values(2, 3, 4).requires_grad_(), values(weights, seed=1).requires_grad_())


def test_channels_last_is_kept():
    x = values(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    check_grad(F.relu, x, strides=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("fn", [torch.nn.functional.silu, torch.nn.functional.mish])
def test_gradients_of_composites_round_once(fn: Any, dtype: torch.dtype) -> None:
    """PyTorch would make them of other operators, each of which rounds."""
    check_rounded(fn, torch.linspace(-2, 2, 101).to(dtype).requires_grad_())
