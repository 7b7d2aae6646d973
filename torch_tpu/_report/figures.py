"""What a page shows, as plain data."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu._explain import Compiled, explain, listed
from torch_tpu.modes import current_mode

MOST_LAUNCHES = 20_000  # one by one; of more, how busy the device was in each of as many intervals as a screen has
INTERVALS = 4_000


@contextlib.contextmanager
def recorded(title: str) -> Iterator[dict[str, Any]]:
    """Records what the block does; the figures are filled in when it ends."""
    figures: dict[str, Any] = {}
    began, start = datetime.now().astimezone(), time.perf_counter()
    before = {**_C.compile_stats(), **torch.tpu.cache_stats()}
    _C.trace_launches(True)
    explanation = explain()
    try:
        with explanation:
            yield figures
    finally:
        _C.trace_launches(False)
        end = time.perf_counter()
        after = {**_C.compile_stats(), **torch.tpu.cache_stats()}
        state = ("programs", "program_bytes", "peak_bytes", "memory_programs", "memory_bytes")  # not counters
        stats = {name: n - (0 if name in state else before[name]) for name, n in after.items()}
        traced = _C.traced_launches()
        programs = explanation.programs
        figures |= {
            "torch_tpu_report": 1,
            "title": title,
            "began": began.isoformat(timespec="seconds"),
            "seconds": end - start,
            "mode": current_mode(),
            "device": _device(),
            "stats": stats,
            "memory_limit": _C.memory_figures()["limit"],
            "programs": _rows(programs, traced["totals"], start),
            "unlisted": max(0, stats_made(stats) - len(programs)),
            "launches": _launches(traced["launches"], programs, start, end),
            "memory": _memory(traced["launches"], start, end),
            "traced": [len(traced["launches"]), sum(times for times, _ in traced["totals"].values())],
            "storms": [
                {"line": s.line, "versions": s.versions, "seconds": s.seconds, "names": listed(s.names)}
                | {"reason": s.reason, "advice": s.advice}
                for s in explanation.storms
            ],
        }


def stats_made(stats: dict[str, int]) -> int:
    return sum(stats[name] for name in ("compiles", "shared_hits", "disk_hits", "remote_hits"))


def _device() -> dict[str, str]:
    if not _C.started():
        return {"kind": "not used", "platform": "", "version": ""}
    info = _C.device_info()
    return {"kind": info["kind"], "platform": info["platform"], "version": info["platform_version"]}


def _rows(programs: list[Compiled], totals: dict[int, tuple[int, float]], start: float) -> list[dict[str, Any]]:
    """Launches stand with the first time that a program was made: made again, it is the same program."""
    rows, left = [], dict(totals)
    for p in programs:
        row = dataclasses.asdict(p) | {"changes": [str(c) for c in p.changes], "started": p.started - start}
        times, seconds = left.pop(p.program, (0, 0.0)) if p.kind != "dropped" else (None, None)
        del row["program"]
        rows.append(row | {"launches": times, "launch_seconds": seconds})
    return rows


def _launches(
    launches: list[tuple[int, float, float, int]], programs: list[Compiled], start: float, end: float
) -> dict[str, Any]:
    if len(launches) <= MOST_LAUNCHES:
        rows: dict[int, int] = {}
        for i, p in enumerate(programs):
            rows.setdefault(p.program, i)
        return {"each": [[at - start, took, rows.get(program, -1)] for program, at, took, _ in launches]}
    width = (end - start) / INTERVALS
    busy = [0.0] * INTERVALS
    for _, at, took, _ in launches:
        left, right = at - start, at - start + took
        for i in range(max(0, int(left / width)), min(INTERVALS - 1, int(right / width)) + 1):
            busy[i] += max(0.0, min(right, (i + 1) * width) - max(left, i * width))
    return {"width": width, "busy": [round(min(1.0, b / width), 3) for b in busy]}


def _memory(launches: list[tuple[int, float, float, int]], start: float, end: float) -> list[tuple[float, int]]:
    """Bytes of live buffers after each launch: of each interval the highest."""
    width = (end - start) / INTERVALS
    highest: dict[int, tuple[float, int]] = {}
    for _, at, took, live in launches:
        i = int((at - start) / width)
        if i not in highest or live > highest[i][1]:
            highest[i] = (at - start + took, live)
    return [highest[i] for i in sorted(highest)]
