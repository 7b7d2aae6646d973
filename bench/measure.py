"""How a case is timed: the same in every contestant that is a Python process."""

import os
import time
from collections.abc import Callable
from typing import Any

Figures = dict[str, float]  # seconds, or bytes where the name says so
Measurement = Callable[[], Figures]

STEPS = {"mlp": 20, "gpt": 4}  # of training, after which the loss is read
FIRST = 64  # tokens of a cold decode
GROWN = 200  # lengths


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def steady(run: Callable[[], object], count: int, warm: int = 3) -> Measurement:
    """Seconds of one of the `count` units of `run`, compiled before: the least disturbed of three."""
    for _ in range(warm):
        run()
    return lambda: {"seconds": min(timed(run) for _ in range(3)) / count}


def decoding(token_at: Callable[[int], object]) -> Measurement:
    """A token at positions that a process has not seen before, and at the same again."""

    def positions(first: int, last: int) -> Callable[[], None]:
        def run() -> None:
            for position in range(first, last):
                token_at(position)

        return run

    def measured() -> Figures:
        positions(0, 8)()
        found = {"new": timed(positions(8, 24)) / 16}
        return found | {"seen": min(timed(positions(8, 24)) for _ in range(3)) / 16}

    return measured


def decoding_cold(token_at: Callable[[int], object]) -> Measurement:
    return lambda: {"seconds": timed(lambda: [token_at(position) for position in range(FIRST)])}


def growing(one: Any, grow: Callable[[Any], Any], read: Callable[[Any], object], each: bool) -> Measurement:
    def run() -> None:
        x = one
        for _ in range(GROWN):
            x = grow(x)
            if each:
                read(x)
        read(x)

    return lambda: {"seconds": timed(run)}


def arrival(make: Callable[[], object]) -> Measurement:
    """From the start of this process (BENCH_START, by this clock) to the first tensor, and peak memory until then."""

    def measured() -> Figures:
        make()
        seconds = time.perf_counter() - float(os.environ["BENCH_START"])
        with open("/proc/self/status") as status:
            peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
        return {"seconds": seconds, "bytes": int(peak) * 1024}

    return measured
