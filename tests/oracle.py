"""Compares device ``tpu`` with PyTorch on CPU."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_tpu

MODES = ("strict", "debug", "defer")


def place(inputs: Any, device: str) -> Any:
    """Copies of all tensors in ``inputs`` on ``device``: same strides, same requires_grad."""

    def move(t: torch.Tensor) -> torch.Tensor:
        return t.detach().clone().to(device).requires_grad_(t.requires_grad)

    return tree_map_only(torch.Tensor, move, inputs)


def check(
    fn: Callable[..., Any],
    *inputs: Any,
    mode: str = "strict",
    rtol: float | None = None,
    atol: float | None = None,
    exact: bool = False,
    strides: bool = False,
    fallbacks: int = 0,
) -> Any:
    """``fn(*inputs)`` gives the same on ``tpu`` as on CPU; returns the CPU result.

    Tolerances are those of ``torch.testing``; ``exact`` compares bit for bit. ``strides`` compares these too. No
    operator may run on the CPU unless ``fallbacks`` says so.
    """
    want = fn(*place(inputs, "cpu"))
    before = torch.tpu.compile_stats()["cpu_fallbacks"]
    with torch_tpu.eager_mode(mode):
        got = fn(*place(inputs, "tpu"))
        tensors = [t for t in tree_leaves(got) if isinstance(t, torch.Tensor)]
        assert all(t.device.type == "tpu" for t in tensors), "a result left the device"
        if strides:
            wanted = [t for t in tree_leaves(want) if isinstance(t, torch.Tensor)]
            assert [t.stride() for t in tensors] == [t.stride() for t in wanted]
        got = tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), got)
    assert torch.tpu.compile_stats()["cpu_fallbacks"] - before <= fallbacks, torch_tpu._C.fallback_counts()
    want_cpu = tree_map_only(torch.Tensor, lambda t: t.detach(), want)
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": rtol, "atol": atol}
    assert_close(got, want_cpu, equal_nan=True, **tolerance)
    return want


def check_grad(fn: Callable[..., Any], *inputs: Any, **how: Any) -> None:
    """As ``check``, for the result and the gradients of all inputs that require one."""

    def run(*args: Any) -> Any:
        out = fn(*args)
        outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
        # Not all ones: a wrong transposition must show.
        seeds = [torch.linspace(-1, 2, t.numel()).to(t.dtype).reshape(t.shape).to(t.device) for t in outs]
        return out, torch.autograd.grad(outs, leaves, seeds, allow_unused=True)

    check(run, *inputs, **how)


def check_rounded(fn: Callable[..., Any], *inputs: Any, ulps: float = 1.0) -> None:
    """``fn`` of float16 or bfloat16 inputs, and its gradients, are those of float64, rounded once.

    PyTorch's own kernels on CPU often round in between, so they are no measure.
    """

    def run(device: str, dtype: torch.dtype | None) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        args = place(inputs, device)
        if dtype is not None:
            args = tree_map_only(torch.Tensor, lambda t: t.detach().to(dtype).requires_grad_(t.requires_grad), args)
        outs = [t for t in tree_leaves(fn(*args)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        leaves = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
        seeds = [torch.linspace(-1, 2, t.numel()).bfloat16().to(t.dtype).reshape(t.shape).to(t.device) for t in outs]
        return outs, torch.autograd.grad(outs, leaves, seeds) if leaves else ()

    got, want = run("tpu", None), run("cpu", torch.float64)
    for mine, exact in zip(tree_leaves(got), tree_leaves(want), strict=True):
        eps = torch.finfo(mine.dtype).eps
        scale = exact.abs().max().item() if exact.numel() else 0.0
        assert_close(mine.cpu().double(), exact, rtol=ulps * eps, atol=scale * 2e-6)


def check_error(fn: Callable[..., Any], *inputs: Any) -> None:
    """``fn(*inputs)`` is refused on ``tpu`` as on CPU: the same type of exception, the same words."""
    said = []
    for device in ("cpu", "tpu"):
        with pytest.raises(Exception) as info:
            fn(*place(inputs, device))
        words = str(info.value).splitlines()[0].replace("tpuFloatType", "torch.FloatTensor")
        said.append((info.type, re.sub(r"(\b|_)tpu(?=\b|_)", r"\1cpu", words)))
    assert said[0] == said[1]


@contextmanager
def launches() -> Iterator[Callable[[], int]]:
    """Counts launches since the block began."""
    start = torch.tpu.compile_stats()["executions"]
    yield lambda: torch.tpu.compile_stats()["executions"] - start
