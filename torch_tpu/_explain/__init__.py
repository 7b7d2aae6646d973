"""Why programs were compiled: ``torch_tpu.explain()``, ``TORCH_TPU_EXPLAIN=1``, and a warning of storms."""

from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from torch_tpu import _C
from torch_tpu._explain import others, reasons
from torch_tpu._explain.reasons import Change, short

MOST_LINES = 20  # of a printed explanation

__all__ = ["Change", "CompileStormWarning", "Compiled", "Storm", "explain"]


class CompileStormWarning(UserWarning):
    """One line of Python compiles again and again."""


@dataclass(frozen=True)
class Compiled:
    """A program that was made: compiled here, or found in a tier of the cache."""

    number: int  # counts from the start of the process
    name: str  # its operator, or its first and last
    line: str  # "train.py:12", what the reason is about; else its first line; "" where it is not known
    source: str  # "compiled", or the tier it was found in: "shared", "disk", "remote"
    seconds: float  # that it took
    kind: str  # of reason: "first", "dimensions", "dtype", "attribute", "structure", "precision", "results", ...
    reason: str
    advice: str  # what would avoid it, or ""
    changes: tuple[Change, ...]  # from the program that is most like it
    argument_bytes: int
    output_bytes: int
    temporary_bytes: int
    started: float  # as time.perf_counter() counts
    thread: int  # native id
    key: str = field(repr=False)  # in the cache: structure, dimensions, options
    program: int = field(repr=False)  # which one it is: made again, it has the same

    def __str__(self) -> str:
        at = f" at {short(self.line)}" if self.line else ""
        how = "compiled" if self.source == "compiled" else f"found ({self.source})"
        text = f"{how} {self.name}{at} in {self.seconds * 1e3:.1f} ms\n  why: {self.reason}"
        return text + (f"\n  to avoid it: {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Storm:
    """Compiles of one line, each a version of the same operators that differs in the same place."""

    line: str
    names: tuple[str, ...]  # of the programs
    versions: int
    seconds: float  # all of them
    reason: str  # of the last
    advice: str
    last: Compiled

    def __str__(self) -> str:
        text = (
            f"{short(self.line) or 'a line'} compiled {self.versions} versions of {listed(self.names)} in "
            f"{self.seconds:.1f} s. The last: {self.reason}"
        )
        return text + (f". To avoid it: {self.advice}" if self.advice else "")


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def compiled(found: dict[str, Any]) -> Compiled:
    reason, advice = reasons.reason(found), reasons.advice(found)
    kind = found["why"]
    if kind == "first" and found["from"] == "compiled" and (other := others.other_options(found["key"])):
        kind, reason, advice = "options", f"{reason}; {other}", reasons.SAME_OPTIONS
    return Compiled(
        number=found["number"],
        name=found["name"],
        line=reasons.line_of(found),
        source=found["from"],
        seconds=found["seconds"],
        kind=kind,
        reason=reason,
        advice=advice,
        changes=reasons.changes_of(found),
        argument_bytes=found["argument_bytes"],
        output_bytes=found["output_bytes"],
        temporary_bytes=found["temporary_bytes"],
        started=found["start"],
        thread=found["thread"],
        key=found["key"],
        program=found["program"],
    )


def storms() -> list[Storm]:
    """Of this process, one a line, in the order in which they began."""
    of_line: dict[str, list[tuple[dict[str, Any], Compiled]]] = {}
    for storm in _C.explain_storms():
        last = compiled(storm["last"])
        of_line.setdefault(last.line, []).append((storm, last))
    made = []
    for line, parts in of_line.items():
        storm, last = max(parts, key=lambda part: part[1].number)
        made.append(
            Storm(
                line,
                tuple(dict.fromkeys(p.name for _, p in parts)),
                sum(s["versions"] for s, _ in parts),
                sum(s["seconds"] for s, _ in parts),
                last.reason,
                reasons.advice(storm["last"], storm=True),
                last,
            )
        )
    return made


class explain:
    """Tells which programs were made, and why each was new: what it is, its line, what differs from the one before.

    As a call, what happened in this process so far; as a context manager, what happens in the block. Nothing is
    compiled or launched by it: in DeferAndFuse, what the block records and nothing reads is not compiled in it.
    ``print(explain())`` shows the most expensive lines. ``programs`` has a :class:`Compiled` for each program, oldest
    first, and ``storms`` the lines that compile again and again. Of long runs the newest 16384 are known.
    """

    def __init__(self) -> None:
        self._from, self._to = 0, _C.explain_count()

    def __enter__(self) -> "explain":
        self._from, self._to = _C.explain_count(), 1 << 62
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._to = _C.explain_count()

    @property
    def programs(self) -> list[Compiled]:
        return [compiled(found) for found in _C.explain_log(self._from, self._to)]

    @property
    def storms(self) -> list[Storm]:
        return [s for s in storms() if self._from <= s.last.number < self._to]

    def __str__(self) -> str:
        return table(self.programs, self.storms)

    def __repr__(self) -> str:
        return f"<torch_tpu.explain: {len(_C.explain_log(self._from, self._to))} programs>"


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def table(programs: list[Compiled], storms: list[Storm]) -> str:
    """Totals, then what took longest: all compiles of a line for one kind of reason together."""
    sources = Counter(p.source for p in programs)
    seconds = sum(p.seconds for p in programs if p.source == "compiled")
    parts = [f"{counted(sources.pop('compiled', 0), 'program')} compiled in {seconds:.2f} s"]
    parts += [f"{n} found ({source})" for source, n in sources.items()]
    lines = [", ".join(parts)]
    given: set[str] = set()  # advice, which is not repeated
    raging = {storm.line: storm for storm in storms}
    groups: dict[tuple[str, str, str], list[Compiled]] = {}
    for p in programs:
        if p.source == "compiled":
            groups.setdefault((p.line, p.kind, "" if p.kind == "first" else p.name), []).append(p)
    ordered = sorted(groups.values(), key=lambda group: -sum(p.seconds for p in group))
    for group in ordered[:MOST_LINES]:
        last = group[-1]
        name = last.name if len({p.name for p in group}) == 1 else counted(len(group), "program")
        times = f"{len(group)} times, " if len(group) > 1 and name == last.name else ""
        total = f"{sum(p.seconds for p in group) * 1e3:7.0f} ms"
        lines.append(f"{total}  {short(last.line) or '(no line known)'}  {name}")
        lines.append(f"            {times}{'the last: ' if times else ''}{last.reason}")
        advice = raging[last.line].advice if times and last.line in raging else last.advice
        if advice and advice not in given:
            given.add(advice)
            lines.append(f"            to avoid it: {advice}")
    if len(ordered) > MOST_LINES:
        rest = ordered[MOST_LINES:]
        took = sum(p.seconds for group in rest for p in group) * 1e3
        lines.append(f"{took:7.0f} ms  in {counted(len(rest), 'more line')}")
    return "\n".join(lines)
