"""Where PyTorch leaves results open: what of them is compared instead."""

import re
from collections.abc import Callable
from typing import Any

import torch

from .arguments import Arguments

Process = Callable[[Any, Arguments], Any]  # results of a call, and its arguments

# Saved for the backward: the CPU rounds them to the dtype of the parameters, CUDA and the meta functions do not.
STATISTICS = {
    "_batch_norm_with_update": (1, 2),
    "_native_batch_norm_legit": (1, 2),
    "native_batch_norm": (1, 2),
    "native_group_norm": (1, 2),
    "native_layer_norm": (1, 2),
}

# Of uint8 the CPU forms sums in 16-bit integers, and rounds between the dimensions: it is not exact itself.
COARSE = re.compile(r"(_upsample|nn_functional_(interpolate|upsample))_bi(linear|cubic)(2d_aa)?")

# What names elements by their index may take any of several equal ones, unless it is asked to be stable: the position
# of its dim.
TIES = {"argsort": 1, "kthvalue": 2, "mode": 1, "msort": None, "sort": 1, "topk": 2}


def wider(name: str) -> tuple[int, ...]:
    """Results that may be of a wider dtype than the CPU's."""
    return STATISTICS.get(name, ())


def coarse(name: str, dtype: torch.dtype) -> bool:
    """Whether a result in this integer dtype is also right if it is as near to that of float64 as the CPU's."""
    return dtype == torch.uint8 and COARSE.fullmatch(name) is not None


def results(name: str, arguments: Arguments) -> Process | None:
    """Makes the results of a call unique, where they are not."""
    if name == "logcumsumexp":  # a logarithm, on any of its branches
        return lambda out, a: out.exp() if out.is_complex() else out
    if name in TIES and name != "msort" and not arguments.kwargs.get("stable"):
        return lambda out, a: _named(out, a.args[0], _dim(name, a))
    return None


def gradients(name: str, arguments: Arguments) -> Process | None:
    """As ``results``, of the gradients of a call."""
    if name in TIES and not arguments.kwargs.get("stable"):
        return lambda out, a: [_shared(grad, a.args[0], _dim(name, a)) for grad in out]
    return None


def _dim(name: str, a: Arguments) -> int:
    at = TIES[name]
    if at is None:
        return 0
    return a.args[at] if len(a.args) > at else a.kwargs.get("dim", -1)


def _named(out: Any, x: torch.Tensor, dim: int) -> Any:
    """Instead of indices the elements they name, and how often one element is named twice."""
    *values, index = [out] if isinstance(out, torch.Tensor) else out
    x, index = x.detach().cpu(), index.cpu()
    x, index = x.reshape(x.shape or (1,)), index.reshape(index.shape or (1,)) if index.dim() == x.dim() else index
    if index.dim() < x.dim():
        index = index.unsqueeze(dim)
    order = index.sort(dim).values
    repeats = (order.diff(dim=dim) == 0).sum()
    return *[v.cpu() for v in values], x.gather(dim, index), repeats


def _shared(grad: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """What all elements of one value in a row receive together."""
    x, grad = x.detach().cpu(), grad.detach().cpu()
    if x.dim() == 0:
        return grad
    rows = x.movedim(dim, -1).flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)
    parts = grad.movedim(dim, -1).reshape(rows.shape).double()
    values, group = torch.unique(rows, return_inverse=True)
    return torch.zeros(len(rows), len(values), dtype=torch.float64).scatter_add_(1, group, parts)
