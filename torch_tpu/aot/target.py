"""Names of TPUs, and where their compiler is."""

import os
from dataclasses import dataclass

from torch_tpu import _plugin

# The smallest topology of each chip that the compiler knows: what a bare name such as "v5e" stands for.
SMALLEST = {
    "v3": "v3:2x2",
    "v4": "v4:1x1x1",
    "v5e": "v5e:1x1",
    "v5p": "v5p:1x1x1",
    "v6e": "v6e:1x1",
    "tpu7x": "tpu7x:1x1x1",
}

# Cycles a second of a core: the published peak of bfloat16 over what its matrix units do in a cycle (v5e: 197e12 over
# 4 x 128 x 128 x 2). docs/measurements.md compares with the compiler's own estimates.
CLOCK = {"v3": 0.94e9, "v4": 1.05e9, "v5e": 1.5e9, "v5p": 1.75e9, "v6e": 1.75e9, "tpu7x": 2.2e9}


def topology(target: str) -> str:
    """The compiler's name of a target: "v5e:2x2" as it is, "v5e" with the smallest topology."""
    chip, _, shape = target.partition(":")
    if chip not in SMALLEST:
        raise ValueError(
            f"unknown target {target!r}: a chip ({', '.join(SMALLEST)}), or a chip and a topology such as v5e:2x2"
        )
    return target if shape else SMALLEST[chip]


def libtpu() -> str:
    """Path of libtpu: TPU_LIBRARY_PATH, else that of the installed package."""
    path = os.environ.get("TPU_LIBRARY_PATH") or _plugin.in_package("libtpu", "libtpu.so")
    if not path:
        raise RuntimeError(
            "the TPU compiler is not installed: `pip install torchtpu[aot]` (libtpu, under Google's terms), or set "
            "TPU_LIBRARY_PATH to the path of libtpu.so"
        )
    return path


@dataclass(frozen=True)
class Chip:
    """A device of a topology, as the compiler describes it."""

    topology: str
    kind: str  # "TPU v5 lite"
    memory: int  # bytes of HBM that a program may use
    devices: int
    compiler: str  # its build
    attributes: dict[str, str]

    def seconds(self, cycles: int) -> float:
        return cycles / CLOCK[self.topology.partition(":")[0]]
