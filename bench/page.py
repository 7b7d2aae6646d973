"""The table: a row is a ratio, with what it is to be at most."""

import os
import platform
import statistics
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from bench.contestants import Contestant
from bench.rows import CASES, Guide, Row

HEADER = ["what", "ours", "takes", "peer", "takes", "ours / peer", "at most", "met"]


@dataclass
class Results:
    """Of one case. A list has the figure of each round."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # by contestant
    errors: dict[str, str] = field(default_factory=dict)  # by contestant: why it has no figures

    def of(self, contestant: str, figure: str) -> list[float]:
        return self.figures.get(contestant, {}).get(figure, [])


def quantity(value: float, figure: str) -> str:
    steps = [(1, "B"), (2**10, "KiB"), (2**20, "MiB")] if figure == "bytes" else []
    steps = steps or [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")]
    scale, unit = next((step for step in reversed(steps) if value >= step[0]), steps[0])
    return f"{value / scale:.3g} {unit}" if value / scale < 100 else f"{value / scale:.0f} {unit}"


def peer_series(row: Row, results: Results, rounds: int) -> list[float]:
    """The peer's figure of each round; of several peers, the least."""
    if isinstance(row.peer, Guide):
        return [row.peer.value] * rounds
    series = [results.of(peer, row.peer_figure or row.figure) for peer in row.peers]
    return [min(values) for values in zip(*[one for one in series if one], strict=True)] if any(series) else []


def beyond(times: float) -> str:
    return f"{times:.1f} times that" if times >= 1.5 else f"{100 * (times - 1):.1f} % above"


@dataclass
class Line:
    cells: list[str]
    ratio: float | None = None
    met: bool | None = None  # None: there is no target, or no figure
    reason: str = ""  # where the target is missed


def line(row: Row, results: Results, named: dict[str, Contestant]) -> Line:
    mine = results.of(row.ours, row.figure)
    theirs = peer_series(row, results, len(mine))
    guide = isinstance(row.peer, Guide)
    peer = "guide" if guide else " or ".join(named[peer].name for peer in row.peers)
    if row.peers == (row.ours,):
        peer = "itself"
    what = CASES[row.case].what + (f": {row.about}" if row.about else "")
    at_most = f"{row.at_most:g}" if row.at_most is not None else ""
    takes = [
        quantity(statistics.median(series), row.figure) if series else results.errors.get(key, "no figure")
        for series, key in ((mine, row.ours), (theirs, row.peers[0] if row.peers else ""))
    ]
    cells = [what, named[row.ours].name, takes[0], peer, takes[1]]
    if not mine or not theirs:
        return Line([*cells, "", at_most, ""])
    ratios = sorted(a / b for a, b in zip(mine, theirs, strict=True))
    middle = statistics.median(ratios)
    digits = 2 if middle >= 0.1 else 4
    spread = f" ({ratios[0]:.{digits}f} to {ratios[-1]:.{digits}f})" if len(ratios) > 1 else ""
    met = None if row.at_most is None else middle <= row.at_most
    verdict = "" if row.at_most is None else "yes" if met else f"no, {beyond(middle / row.at_most)}"
    reason = row.missed_since if met is False else ""
    return Line([*cells, f"{middle:.{digits}f}{spread}", at_most, verdict], middle, met, reason)


def table(lines: list[Line]) -> str:
    body = [[cell.replace("|", "/") for cell in one.cells] for one in lines]
    widths = [max(len(row[i]) for row in [HEADER, *body]) for i in range(len(HEADER))]
    rendered = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in [HEADER, *body]
    ]
    rendered.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(rendered)


def summary(lines: list[Line]) -> str:
    judged = [one for one in lines if one.met is not None]
    missing = sum(1 for one in lines if one.ratio is None)
    text = f"{sum(1 for one in judged if one.met)} of {len(judged)} targets met"
    return text + (f"; {missing} rows without a figure" if missing else "")


def reasons(lines: list[Line]) -> str:
    """A paragraph for each reason, with the rows that miss their targets for it."""
    rows: dict[str, list[str]] = {}
    for one in lines:
        if one.reason:
            rows.setdefault(one.reason, []).append(f"{one.cells[0]} ({one.cells[1]} / {one.cells[3]})")
    told = [textwrap.fill(f"- *{'; '.join(what)}*: {why}", 120, subsequent_indent="  ") for why, what in rows.items()]
    return "\n".join(["\n\n## Why the others are not\n", *told]) if told else ""


def machine(core: int | None) -> str:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((entry.split(":")[1].strip() for entry in info if entry.startswith("model name")), platform.machine())
    where = f"on core {core} of {os.cpu_count()}" if core is not None else f"on any of {os.cpu_count()} cores"
    release = platform.release().split("-")[0]
    load = f"load {os.getloadavg()[2]:.1f}"  # what else ran tells how far to trust the figures
    return f"{cpu}, {where}, {load}, {platform.system()} {release}, Python {platform.python_version()}"


def page(lines: list[Line], rounds: int, about: str) -> str:
    return f"""# Benchmarks

`make bench` measures the device beside its peers, all on one core, in turn, and writes this page. A ratio is taken
within a round, and below 1 the device takes less: shown are the median of the rounds ({rounds} here) and their range,
then what it is to be at most. [bench/README.md](../bench/README.md) tells how each is measured.

{table(lines)}

{summary(lines)}.{reasons(lines)}

{about}
"""
