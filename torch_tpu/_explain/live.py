"""What is told while a program runs: a warning of storms always, each compile with ``TORCH_TPU_EXPLAIN=1``.

The compiled part asks the interpreter to call ``_tell`` in the main thread between two instructions, most often right
after the operator that compiled: a compile may be under locks that leave no room for Python.
"""

import os
import sys
import warnings

from torch_tpu import _C
from torch_tpu import _explain as explaining

_each = False
_process = 0  # a forked child inherits the exit handlers, but not the device
_told = 0  # programs
_storms = 0  # that were looked at: where there are many, describing them is no work for each compile
_warned: set[str] = set()  # their lines
_telling = False


def start() -> None:
    global _each, _process
    _each = os.environ.get("TORCH_TPU_EXPLAIN", "") not in ("", "0")
    _process = os.getpid()
    _C.explain_listen(_tell, _each)


def finish() -> None:
    """Before the interpreter goes."""
    if os.getpid() != _process:
        return
    _tell()
    _C.explain_listen(None, False)
    if _each and _C.explain_count():
        stats = _C.compile_stats()
        found = explaining.explain()
        counts = f"{stats['executions']} launches, {stats['memory_hits']} programs found in memory"
        if stats["unfused"]:
            counts += f", {stats['unfused']} regions like none before launched call by call"
        _write(f"{found}\n{counts}")


def _tell() -> None:
    global _telling
    if _telling:
        return
    _telling = True
    try:
        if _each:
            _tell_each()
        _warn_of_storms()
    finally:
        _telling = False


def _tell_each() -> None:
    global _told
    for one in _C.explain_log(_told, 1 << 62):
        _told = one["number"] + 1
        if one["from"] == "compiled":
            _write(str(explaining.compiled(one)))


def _warn_of_storms() -> None:
    global _storms
    if (count := _C.explain_storm_count()) == _storms:
        return
    _storms = count
    for storm in explaining.storms():
        if storm.line in _warned:
            continue
        _warned.add(storm.line)
        file, _, number = storm.line.rpartition(":")
        try:
            warnings.warn_explicit(str(storm), explaining.CompileStormWarning, file or "<unknown>", int(number or 1))
        except explaining.CompileStormWarning as raised:  # warnings are errors, and here nobody could catch one
            _write(f"CompileStormWarning: {raised}")


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(
            "".join(f"torch_tpu: {line}\n" if i == 0 else f"  {line}\n" for i, line in enumerate(text.split("\n")))
        )
        sys.stderr.flush()
