"""One call, run on the device and on the CPU, and what came of it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

import torch_tpu

from . import randomness
from .arguments import Arguments
from .comparison import Tolerance, difference, off_device, taken
from .errors import told
from .latitude import Process
from .verdict import Stage
from .watching import Seen, settle

Run = Callable[[Arguments, str], Any]  # arguments that stand on a device, and its name, to what the call returns


@dataclass(frozen=True)
class Worth:
    """What the results of a call are worth comparing for, beside shape, dtype and strides."""

    tolerance: Tolerance
    contents: bool = True  # not where nobody wrote them
    strides: bool = True  # not of gradients, which PyTorch accumulates in the strides of the parameter
    draws: bool = False  # the numbers are random
    process: Process | None = None  # makes them unique, as with the signs of eigenvectors
    wider: tuple[int, ...] = ()  # results that may be of a wider dtype
    coarse: bool = False  # integers too may be as near to the result in float64


@dataclass(frozen=True)
class Outputs:
    """What a call returned, and what that comes to once made unique; both as ``taken``."""

    returned: Any
    unique: Any


def call(run: Run, arguments: Arguments, device: str, worth: Worth) -> Outputs:
    on_device = arguments.on(device)
    # A factory that is told no device makes its tensor on the default one.
    with contextlib.nullcontext() if arguments.tensors() else torch.device(device):
        outputs = run(on_device, device)
    returned = taken(outputs)
    return Outputs(returned, returned if worth.process is None else taken(worth.process(outputs, on_device)))


def attempt(run: Callable[[], Outputs]) -> Outputs | Exception:
    try:
        return randomness.seeded(run, 0)
    except Exception as error:
        settle()
        return error


def trial(
    run: Run, arguments: Arguments, worth: Worth, mode: str, notes: Stage, exact: Run | None = None
) -> Outputs | None:
    """Notes how the call fares; returns the CPU's results, or None where there is nothing to compare with.

    ``exact``, of wider arguments, gives the results before they are rounded; ``run`` does if it writes to no target.
    """

    def cpu() -> Outputs:
        return call(run, arguments, "cpu", worth)

    def device() -> Outputs:
        with torch_tpu.eager_mode(mode):
            return call(run, arguments, "tpu", worth)

    want = attempt(cpu)
    seen = Seen()
    got = attempt(device)
    outcome, reason = seen.outcome()
    if isinstance(got, Exception) and isinstance(want, Exception):
        return None  # an agreement, but not one on results
    if isinstance(got, Exception):
        outcome, reason = "error", told(got)
    elif isinstance(want, Exception):
        outcome, reason = "error", f"no error, but the CPU raises {told(want)}"
    elif text := _difference(got, want, exact or run, arguments, worth):
        outcome, reason = "wrong", text
    elif worth.draws and (text := randomness.distributions_differ(lambda: device().returned, lambda: cpu().returned)):
        outcome, reason = "wrong", text
    notes.add(outcome, reason, str(arguments))
    return None if isinstance(want, Exception) or isinstance(got, Exception) else want


def _rounded(got: Any, want: Any, wider: tuple[int, ...]) -> Any:
    """With the results that may be wider in the dtype of the CPU's."""
    if not wider or not isinstance(got, (list, tuple)) or len(got) != len(want):
        return got

    def rounded(g: Any, w: Any) -> Any:
        finer = torch.promote_types(g.value.dtype, w.value.dtype) == g.value.dtype
        return replace(g, value=g.value.to(w.value.dtype)) if finer else g

    return [rounded(g, w) if i in wider else g for i, (g, w) in enumerate(zip(got, want, strict=True))]


def _difference(got: Outputs, want: Outputs, run: Run, arguments: Arguments, worth: Worth) -> str | None:
    got = Outputs(*(_rounded(g, w, worth.wider) for g, w in ((got.returned, want.returned), (got.unique, want.unique))))

    def exact() -> Any:
        try:
            return randomness.seeded(lambda: call(run, arguments.widened(worth.coarse), "cpu", worth), 0).unique
        except Exception:
            return None  # no float64 form: no excuse either

    def differ(a: Any, b: Any, contents: bool, strides: bool) -> str | None:
        return difference(a, b, tolerance=worth.tolerance, contents=contents, strides=strides, exact=exact)

    return (  # from bad to harmless
        off_device(got.returned)
        or differ(got.returned, want.returned, False, False)
        or differ(got.unique, want.unique, worth.contents and not worth.draws, False)
        or differ(got.returned, want.returned, False, worth.strides)
    )
