"""The TPU's compiler as an instrument: what a TPU would make of a program, on a machine that has none.

Programs are recorded on the CPU device in DeferAndFuse and compiled by libtpu (``pip install torchtpu[aot]``) in a
process of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch_tpu.aot.capture import Program, capture, capture_call
from torch_tpu.aot.compiler import Compiled, CompileError, Compiler
from torch_tpu.aot.lock import Held
from torch_tpu.aot.report import Report, Row

__all__ = ["CompileError", "Compiled", "Compiler", "Held", "Hlo", "Program", "Report", "capture", "compile", "hlo"]


@dataclass(frozen=True)
class Hlo:
    """A program as text."""

    name: str
    stablehlo: str = field(repr=False)
    optimized: str = field(repr=False)  # the compiler's; "" without a target


def compile_programs(
    programs: list[Program],
    target: str,
    *,
    progress: Callable[[Iterable[Program]], Iterable[Program]] = iter,
    **how: Any,
) -> Report:
    """Compiles collected programs for one target; ``how`` is for Compiler. A refusal is a row of the report."""
    rows: list[tuple[Program, Compiled | CompileError]] = []
    with Compiler(target, **how) as compiler:
        for program in progress(programs):
            try:
                rows.append((program, compiler.compile(program.located)))
            except CompileError as error:
                rows.append((program, error))
        chip = compiler.chip
    return Report(chip, tuple(Row(chip, program, result) for program, result in rows))


def compile(
    fn: Callable[..., Any], example_inputs: Any, *, target: str = "v5e", dry: bool = False, **how: Any
) -> Report:
    """Runs ``fn(*example_inputs)`` on the CPU device and compiles its programs for ``target`` ("v5e", "v6e:2x4").

    A module is copied to the device, inputs too. ``dry`` computes nothing, see ``capture``. ``how``: ``timeout`` for
    one program and ``wait`` for other users of libtpu, in seconds.
    """
    return compile_programs(capture_call(fn, example_inputs, dry=dry), target, **how)


def hlo(fn: Callable[..., Any], example_inputs: Any, *, target: str | None = None, **how: Any) -> list[Hlo]:
    """The programs of ``fn(*example_inputs)`` as StableHLO, and with a target as its compiler optimizes them."""
    programs = capture_call(fn, example_inputs)
    if target is None:
        return [Hlo(p.name, p.text, "") for p in programs]
    report = compile_programs(programs, target, **how)
    return [Hlo(row.program.name, row.program.text, row.optimized.text) for row in report.rows]
