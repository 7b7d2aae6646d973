"""The C++ benchmarks (engine_bench.cc) as a contestant."""

import json
import subprocess
from collections.abc import Callable

from measure import Figures, Measurement

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def setup(_: str, program: str) -> Callable[[str], Measurement]:
    def measured() -> Figures:
        done = subprocess.run([program, "--benchmark_format=json"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
        found = json.loads(done.stdout)["benchmarks"]
        return {one["name"]: one["real_time"] * UNITS[one["time_unit"]] for one in found}

    return lambda case: measured


def versions(_: str) -> dict[str, str]:
    return {}
