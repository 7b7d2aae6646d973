"""What the compiler says of a run's programs, as a table, as JSON and as a page."""

import json
from dataclasses import dataclass
from typing import Any

from torch_tpu.aot.capture import Program
from torch_tpu.aot.compiler import Compiled, CompileError
from torch_tpu.aot.optimized import Buffer, Optimized
from torch_tpu.aot.target import Chip

COLUMNS = (
    "program", "times", "arguments", "outputs", "temporaries", "peak", "of HBM", "flops", "bytes", "estimated",
    "compile",
)  # fmt: skip


def size(n: float) -> str:
    """Bytes, for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def count(n: float) -> str:
    for unit in ("", "K", "M", "G", "T"):
        if n < 1000 or unit == "T":
            return f"{n:.0f}{unit}" if n >= 100 or not unit else f"{n:.1f}{unit}"
        n /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


@dataclass(frozen=True)
class Row:
    """One program on one target."""

    chip: Chip
    program: Program
    result: Compiled | CompileError

    @property
    def optimized(self) -> Optimized:
        return self.result.optimized

    @property
    def refused(self) -> bool:
        return isinstance(self.result, CompileError)

    @property
    def too_large(self) -> bool:
        """It needs more than the chip's memory."""
        if isinstance(self.result, CompileError):
            return self.result.out_of_memory
        return 0 < self.chip.memory < self.result.hbm

    def largest(self, most: int = 5) -> list[Buffer]:
        """The tensors that take most where most is needed."""
        if peak := self.optimized.peak:
            return peak[:most]
        tensors = [*self.program.inputs, *self.program.outputs]
        buffers = [Buffer("", t.bytes, t.type, t.op, t.line) for t in tensors]
        return sorted(buffers, key=lambda b: -b.bytes)[:most]

    def cells(self) -> list[str]:
        name, r = self.program.name, self.result
        if isinstance(r, CompileError):
            why = "exceeds HBM" if self.too_large else "crashed" if r.crashed else "refused"
            return [name, str(self.program.times), *[""] * 3, why, *[""] * 5]
        m = r.memory
        share = f"{100 * r.hbm / self.chip.memory:.1f} %" if self.chip.memory else ""
        return [
            name, str(self.program.times), size(m["arguments"]), size(m["outputs"]), size(m["temporaries"]),
            size(r.hbm), share, count(r.flops), size(r.bytes_accessed), duration(r.estimated_seconds),
            duration(r.seconds),
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        r, p = self.result, self.program
        about: dict[str, Any] = {
            "name": p.name,
            "times": p.times,
            "lines": p.lines,
            "ops": len(p.ops),
            "too_large": self.too_large,
            "largest": [{"bytes": b.bytes, "type": b.type, "op": b.op, "line": b.line} for b in self.largest()],
        }
        if isinstance(r, CompileError):
            return about | {"error": str(r), "crashed": r.crashed}
        return about | {
            "memory": r.memory | {"hbm": r.hbm},
            "flops": r.flops,
            "bytes_accessed": r.bytes_accessed,
            "estimated_seconds": r.estimated_seconds,
            "estimated_cycles": r.optimized.cycles,
            "compile_seconds": r.seconds,
        }


@dataclass(frozen=True)
class Report:
    """All programs of a run on one target."""

    chip: Chip
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every program compiled and fits."""
        return not any(row.refused or row.too_large for row in self.rows)

    @property
    def too_large(self) -> list[Row]:
        return [row for row in self.rows if row.too_large]

    @property
    def programs(self) -> list[Program]:
        return [row.program for row in self.rows]

    def totals(self) -> dict[str, float]:
        """Over all launches; memory is that of the program that needs most."""
        done = [(row.program.times, row.result) for row in self.rows if isinstance(row.result, Compiled)]
        return {
            "programs": len(self.rows),
            "launches": sum(row.program.times for row in self.rows),
            "hbm": max((r.hbm for _, r in done), default=0),
            "flops": sum(n * r.flops for n, r in done),
            "bytes_accessed": sum(n * r.bytes_accessed for n, r in done),
            "estimated_seconds": sum(n * r.estimated_seconds for n, r in done),
            "compile_seconds": sum(r.seconds for _, r in done),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.chip.topology,
            "kind": self.chip.kind,
            "memory": self.chip.memory,
            "compiler": self.chip.compiler,
            "totals": self.totals(),
            "programs": [row.to_json() for row in self.rows],
        }

    def total_cells(self) -> list[str]:
        t = self.totals()
        share = f"{100 * t['hbm'] / self.chip.memory:.1f} %" if self.chip.memory else ""
        return [
            "all launches", count(t["launches"]), "", "", "", size(t["hbm"]), share, count(t["flops"]),
            size(t["bytes_accessed"]), duration(t["estimated_seconds"]), duration(t["compile_seconds"]),
        ]  # fmt: skip

    def complaints(self) -> list[str]:
        """What is wrong, program by program."""
        lines = []
        for row in self.rows:
            where = f" ({row.program.lines})" if row.program.lines else ""
            if row.too_large:
                need = ""
                if isinstance(row.result, Compiled):
                    need = f": {size(row.result.hbm)} of {size(self.chip.memory)}"
                lines.append(f"{row.program.name}{where} exceeds the memory of {self.chip.kind}{need}")
                if isinstance(row.result, CompileError):
                    lines.append(f"  {str(row.result).splitlines()[0]}")
                lines += [f"  {size(b.bytes):>10}  {b}" for b in row.largest()]
            elif isinstance(row.result, CompileError):
                lines.append(f"{row.program.name}{where} is refused: {str(row.result).splitlines()[0]}")
        return lines

    def __str__(self) -> str:
        head = f"{self.chip.topology}: {self.chip.kind}, {size(self.chip.memory)} of HBM, {self.chip.devices} devices"
        rows = [list(COLUMNS), *(row.cells() for row in self.rows), self.total_cells()]
        for row in rows:
            row[0] = row[0] if len(row[0]) <= 64 else row[0][:61] + "..."
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        table = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        table.insert(1, "-" * len(table[0]))
        table.insert(-1, "-" * len(table[0]))
        return "\n".join([head, "", *table, *([""] if not self.ok else []), *self.complaints()])


def dumps(reports: list[Report]) -> str:
    return json.dumps([report.to_json() for report in reports], indent=1)
