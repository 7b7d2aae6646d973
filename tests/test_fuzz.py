"""Random programs with fixed seeds; and each failure that the fuzzer found, by name, is a test beside its mechanism."""

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.program import Program, generate, shrink

ROOT = Path(__file__).parent.parent


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("first", "mode"), [(0, "strict"), (75, "debug"), (150, "defer"), (225, "defer")])
def test_random_programs(first: int, mode: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "75", "--first", str(first), "--modes", mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"


def test_programs_are_a_function_of_their_seed() -> None:
    assert generate(5).lines == generate(5).lines != generate(6).lines


def test_shrinking_keeps_what_matters() -> None:
    lines = [f"v{i} = {i}" for i in range(40)]
    small = shrink(Program(lines, True), lambda left: "v7 = 7" in left and "v31 = 31" in left)
    assert small.lines == ["v7 = 7", "v31 = 31"]
