"""The persistent cache: what one process compiled, the next one loads; what is wrong with it is a miss."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import torch, torch_tpu
for n in range(3, 9):
    assert torch.arange(float(n)).tpu().mul_(2).sum().item() == n * (n - 1), n
x = torch.randn(8, 8).tpu()
q, r = torch.linalg.qr(x)
assert torch.allclose((q @ r).cpu(), x.cpu(), atol=1e-4)
s = torch.tpu.compile_stats()
print(s["compiles"], s["disk_hits"])
"""


@pytest.fixture
def run(python: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """(compiles, hits, what it said) of a new process with a cache directory."""

    def start(directory: str | Path = tmp_path / "cache", **env: str) -> tuple[int, int, str]:
        done = python(PROGRAM, TORCH_TPU_CACHE_DIR=str(directory), **env)
        compiles, hits = map(int, done.out.split())
        return compiles, hits, done.err

    return start


def test_the_second_process_compiles_nothing(run: Any, tmp_path: Path) -> None:
    first, none, _ = run()
    assert first > 5 and none == 0
    assert run() == (0, first, "")
    assert run(f"file://{tmp_path}/cache")[:2] == (0, first)
    assert {p.suffix for p in (tmp_path / "cache").iterdir()} == {".entry"}
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_other_options_are_other_programs(run: Any) -> None:
    first, _, _ = run()
    assert run(TORCH_TPU_OPT_LEVEL="0")[:2] == (first, 0)
    assert run(XLA_FLAGS="--xla_dump_hlo_as_text=false")[:2] == (first, 0)
    assert run()[:2] == (0, first)


def test_off(run: Any, tmp_path: Path) -> None:
    assert run("")[1] == 0 and run("")[1:] == (0, "")


def test_by_default_it_is_in_the_users_cache(python: Any, tmp_path: Path) -> None:
    code = "import os; del os.environ['TORCH_TPU_CACHE_DIR']\n" + PROGRAM
    python(code, XDG_CACHE_HOME=str(tmp_path))
    assert python(code, XDG_CACHE_HOME=str(tmp_path)).out.split()[0] == "0"
    assert list((tmp_path / "torch_tpu").iterdir())


def test_a_directory_that_others_may_write_is_refused(run: Any, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    _, hits, said = run(shared)
    assert hits == 0 and said.count("executables are code") == 1 and not list(shared.iterdir())


def test_what_cannot_be_written_is_told_once(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    compiles, hits, said = run(tmp_path / "file")
    assert compiles > 5 and hits == 0 and said.count("compilation cache") == 1
    said = run("gs://bucket/cache")[2]
    assert said.count("compilation cache") == 1 and "gs://bucket/cache" in said


def test_damage_is_a_miss(run: Any, tmp_path: Path) -> None:
    first, _, _ = run()
    chance = random.Random(0)
    entries = sorted((tmp_path / "cache").iterdir())
    for path in entries:
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    compiles, hits, said = run()
    assert (compiles, hits) == (first, 0) and said.count("is dropped") == 1
    assert run() == (0, first, "")


def test_the_entry_of_another_program_is_a_miss(run: Any, tmp_path: Path) -> None:
    first, _, _ = run()
    entries = sorted((tmp_path / "cache").iterdir())
    contents = [path.read_bytes() for path in entries]
    for path, other in zip(entries, contents[1:] + contents[:1], strict=True):
        path.write_bytes(other)
    assert run()[:2] == (first, 0)
    assert run()[:2] == (0, first)


def test_killed_writers_leave_nothing_wrong(run: Any, tmp_path: Path) -> None:
    chance = random.Random(0)
    for _ in range(6):
        env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
        writer = subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while writer.poll() is None and not list(tmp_path.glob("cache/*")) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    compiles, hits, said = run()
    assert said == "" and compiles + hits > 5
    assert run()[0] == 0


def test_the_budget_holds(run: Any, tmp_path: Path) -> None:
    first, _, _ = run(TORCH_TPU_CACHE_BYTES="20000")
    size = sum(p.stat().st_size for p in (tmp_path / "cache").iterdir())
    assert 0 < size <= 20000
    compiles, hits, said = run()
    assert 0 < hits < first and compiles + hits == first and said == ""
