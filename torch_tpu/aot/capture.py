"""The programs that Python code runs on device ``tpu``, collected for another target."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from torch_tpu import _C
from torch_tpu.modes import eager_mode


@dataclass(frozen=True)
class Tensor:
    """An argument or a result of a program."""

    type: str  # "tensor<2x3xf32>"
    bytes: int
    donated: bool = False  # an argument whose memory becomes a result's
    op: str = ""  # that makes a result
    line: str = ""  # of Python, which called it


@dataclass(frozen=True)
class Program:
    """A program as it was recorded: what DeferAndFuse would compile on a TPU."""

    name: str
    times: int  # that it was launched
    text: str = field(repr=False)  # StableHLO
    located: str = field(repr=False)  # the same, each operation with its operator and line of Python
    inputs: tuple[Tensor, ...] = field(repr=False)
    outputs: tuple[Tensor, ...] = field(repr=False)
    ops: tuple[tuple[str, str], ...] = field(repr=False)  # operators in order, each with its line

    @property
    def lines(self) -> str:
        """Where it comes from: its first line, and its last where that is another one."""
        known = [line for _, line in self.ops if line]
        if not known or known[0] == known[-1]:
            return known[0] if known else ""
        (first, a), (last, b) = (line.rsplit(":", 1) for line in (known[0], known[-1]))
        return f"{first}:{a}-{b}" if first == last else f"{known[0]} to {known[-1]}"


def _program(found: dict[str, Any]) -> Program:
    if "error" in found:
        raise RuntimeError(f"{found['name']} has no program: {found['error']}")
    return Program(
        found["name"],
        found["times"],
        found["text"],
        found["located"],
        tuple(Tensor(**t) for t in found["inputs"]),
        tuple(Tensor(**t) for t in found["outputs"]),
        tuple(found["ops"]),
    )


@contextlib.contextmanager
def collected(*, dry: bool = False) -> Iterator[list[Program]]:
    """Collects what the block runs, in whatever mode; the list is filled when the block ends.

    ``dry``, in DeferAndFuse only: nothing is compiled or computed on the CPU. Tensors take no memory, and a program may
    be larger than this machine; reading a number raises RuntimeError.
    """
    programs: list[Program] = []
    torch.tpu.synchronize()
    _C.collect_programs(True, dry)
    try:
        yield programs
        torch.tpu.synchronize()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # what was recorded so far belongs to the block
            torch.tpu.synchronize()
        raise
    finally:
        _C.collect_programs(False)
    programs += map(_program, _C.collected_programs())


@contextlib.contextmanager
def capture(*, dry: bool = False) -> Iterator[list[Program]]:
    """Collects what the block runs in DeferAndFuse; the list is filled when the block ends. ``dry``: see collected."""
    with eager_mode("defer"), collected(dry=dry) as programs:
        yield programs


def capture_call(fn: Callable[..., Any], inputs: Any, *, dry: bool = False) -> list[Program]:
    """The programs of ``fn(*inputs)``, after which all that it returns is wanted. A module on the CPU is copied."""
    if isinstance(fn, torch.nn.Module) and any(t.device.type != "tpu" for t in [*fn.parameters(), *fn.buffers()]):
        fn = copy.deepcopy(fn).to("tpu")
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    placed = tree_map_only(torch.Tensor, lambda t: t.detach().to("tpu").requires_grad_(t.requires_grad), tuple(inputs))
    with capture(dry=dry) as programs:
        results = fn(*placed)
        torch.tpu.synchronize()  # while they are held
        del results
    return programs
