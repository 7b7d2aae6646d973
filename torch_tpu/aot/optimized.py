"""What the compiler's text of an optimized program says of time and memory."""

import math
import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Buffer:
    """A buffer that is alive where the program needs most memory."""

    name: str
    bytes: int
    type: str = ""
    op: str = ""
    line: str = ""  # of Python

    def __str__(self) -> str:
        about = " ".join(part for part in (self.op, self.line and f"at {self.line}") if part)
        return f"{self.type or self.name}" + (f" of {about}" if about else "")


@dataclass(frozen=True)
class Instruction:
    """One of those that run one after the other: a fusion, a copy, a loop."""

    name: str
    opcode: str
    type: str
    op: str
    line: str
    cycles: int  # 0 where the compiler has no estimate
    iterations: int


_INSTRUCTION = re.compile(r"^  (?:ROOT )?%?([\w.-]+) = (\([^=]*?\)|\S+) ([\w-]+)\(", re.MULTILINE)
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$", re.MULTILINE)
_LIVE = re.compile(r"^    (\S+?)\{([\d,]*)\}: (\d+) bytes", re.MULTILINE)
_VMEM = re.compile(r"S\(\d+\)")  # a space beside HBM


class Optimized:
    """The optimized program as text, and the list of what is alive at its peak."""

    def __init__(self, text: str, live: str = "") -> None:
        self.text, self._live = text, live

    @cached_property
    def _places(self) -> dict[int, str]:
        """Python lines by number of stack frame."""

        def table(name: str) -> dict[int, str]:
            found = re.search(rf"^{name}\n((?:\d+ .*\n)+)", self.text, re.MULTILINE)
            rows = (row.split(" ", 1) for row in found[1].splitlines()) if found else ()
            return {int(number): rest for number, rest in rows}

        def field(row: str, name: str) -> int:
            found = re.search(rf"\b{name}=(\d+)", row)
            return int(found[1]) if found else 0

        files = {number: row.strip('"') for number, row in table("FileNames").items()}
        locations = {
            number: f"{files.get(field(row, 'file_name_id'), '?')}:{field(row, 'line')}"
            for number, row in table("FileLocations").items()
        }
        return {
            number: locations[at]
            for number, row in table("StackFrames").items()
            if (at := field(row, "file_location_id")) in locations
        }

    def _instruction(self, found: re.Match[str]) -> Instruction:
        end = self.text.find("\n", found.end())
        rest = self.text[found.end() : end if end >= 0 else None]
        op = re.search(r'op_name="([^"]*)"', rest)
        frame = re.search(r"stack_frame_id=(\d+)", rest)
        cycles = re.search(r'"estimated_cycles":"(\d+)"', rest)
        bounds = re.search(r'"iteration_bounds":\[([^\]]*)\]', rest)
        return Instruction(
            name=found[1],
            opcode=found[3],
            type=re.sub(r"\{[^}]*\}", "", found[2]),
            op=op[1] if op else "",
            line=self._places.get(int(frame[1]), "") if frame else "",
            cycles=int(cycles[1]) if cycles else 0,
            iterations=math.prod(int(n) for n in re.findall(r"\d+", bounds[1])) if bounds else 1,
        )

    @cached_property
    def everything(self) -> dict[str, Instruction]:
        """All instructions by name, those inside fusions too."""
        return {found[1]: self._instruction(found) for found in _INSTRUCTION.finditer(self.text)}

    @cached_property
    def schedule(self) -> list[Instruction]:
        """The instructions of the entry computation, in order."""
        start = self.text.find("\nENTRY ")
        end = self.text.find("\n}", start)
        if start < 0:
            return []
        return [self._instruction(found) for found in _INSTRUCTION.finditer(self.text, start, end)]

    @cached_property
    def _computations(self) -> dict[str, str]:
        """The text of each, by name; the entry's is ""."""
        found = {}
        for head in _COMPUTATION.finditer(self.text):
            end = self.text.find("\n}", head.end())
            found["" if head[1] else head[2]] = self.text[head.end() : end]
        return found

    @cached_property
    def cycles(self) -> int:
        """The compiler's estimate of all that it has one for. Loops count as often as they run, where that is known."""
        return self._cycles_of("")

    def _cycles_of(self, computation: str) -> int:
        total = 0
        for line in self._computations.get(computation, "").splitlines():
            if own := re.search(r'"estimated_cycles":"(\d+)"', line):
                total += int(own[1])
            elif loop := re.search(r" while\(.*\bbody=%?([\w.-]+)", line):
                trips = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
                total += int(trips[1] if trips else 1) * self._cycles_of(loop[1])
            elif branches := re.search(r"branch_computations=\{([^}]*)\}", line):
                total += max(self._cycles_of(name.strip(" %")) for name in branches[1].split(","))
            elif call := re.search(r" call\(.*\bto_apply=%?([\w.-]+)", line):
                total += self._cycles_of(call[1])
        return total

    @cached_property
    def peak(self) -> list[Buffer]:
        """What is alive in HBM where most is, largest first."""
        at = self._live.find("Live ranges at ")
        buffers = []
        for found in _LIVE.finditer(self._live, max(at, 0), self._live.find("Stack trace breakdown") if at >= 0 else 0):
            name, index, size = found[1], found[2], int(found[3])
            defined = re.search(rf"^  (?:ROOT )?%?{re.escape(name)} = (\([^=]*?\)|\S+) ", self.text, re.MULTILINE)
            whole = defined[1] if defined else ""
            if not index and not whole.startswith("(") and _VMEM.search(whole):
                continue
            one = self.everything.get(name)
            buffers.append(Buffer(name, size, one.type if one else "", one.op if one else "", one.line if one else ""))
        return sorted(buffers, key=lambda b: -b.bytes)
