"""What can go wrong with a cache directory is a miss: the answer is right, and at most one warning tells."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger import NEEDS_MOUNTS, NEEDS_TWO_PLUGINS

from torch_tpu._plugin import cpu_plugins

PROGRAM = """
import torch, torch_tpu

def work(sizes):
    for n in sizes:
        assert torch.arange(float(n)).tpu().mul_(2).sum().item() == n * (n - 1), n

work(range(3, 6))
"""
REPORT = """
s = torch.tpu.compile_stats()
print(s["compiles"], s["shared_hits"] + s["disk_hits"])
"""
Run = Callable[..., tuple[int, int, str]]


@pytest.fixture
def run(python: Any, tmp_path: Path) -> Run:
    """(compiles, hits, what it said) of a new process with a cache directory."""

    def start(directory: str | Path = tmp_path / "cache", more: str = "", **env: str) -> tuple[int, int, str]:
        done = python(PROGRAM + more + REPORT, TORCH_TPU_CACHE_DIR=str(directory), **env)
        compiles, hits = map(int, done.out.split())
        assert done.err.count("torch_tpu:") <= 1, done.err
        return compiles, hits, done.err

    return start


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts file systems for the test: ``mounted(name, options)``."""
    made = []

    def mount(name: str, *options: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        command = ["mount", "-t", "tmpfs", "-o", ",".join(["mode=0700", *options]), "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip(NEEDS_MOUNTS)
        made.append(folder)
        return folder

    yield mount
    for folder in made:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(run: Run, mounted: Callable[..., Path]) -> None:
    disk = mounted("disk", "size=16k")
    compiles, hits, said = run(disk / "cache")
    assert hits == 0 and said.count("No space left on device") == 1
    again, hits, _ = run(disk / "cache")
    assert again + hits == compiles and hits > 0  # what did fit


def test_files_that_may_not_grow(run: Run, tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); work([7, 8])"
    _, _, said = run(more=limit, TORCH_TPU_SHARED_DIR="")
    assert said.count("File too large") == 1
    assert {p.suffix for p in (tmp_path / "cache").iterdir()} == {".entry"}


def test_a_read_only_directory(run: Run, mounted: Callable[..., Path]) -> None:
    disk = mounted("disk")
    first, _, _ = run(disk / "cache")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert run(disk / "cache") == (0, first, "")
    compiles, hits, said = run(disk / "cache", "work([7, 8])")
    assert compiles > 0 and hits == first and said.count("Read-only file system") == 1


def test_a_directory_that_is_removed_meanwhile(run: Run, tmp_path: Path) -> None:
    remove = f"import shutil; shutil.rmtree({str(tmp_path / 'cache')!r}); work([7, 8])"
    compiles, _, said = run(more=remove)
    assert compiles > 4 and said.count("compilation cache") == 1
    assert run(more=f"{remove}; import os; os.mkdir({str(tmp_path / 'cache')!r}); work([9, 10])")[0] > 4


def test_a_slow_directory(run: Run) -> None:
    first, _, _ = run()
    compiles, hits, said = run(TORCH_TPU_TEST_CACHE_DELAY="2100", TORCH_TPU_SHARED_DIR="")
    assert (compiles, hits) == (first - 1, 1) and said.count("takes seconds to answer") == 1


def test_entries_of_another_version(run: Run, tmp_path: Path) -> None:
    first, _, _ = run()
    for path in (tmp_path / "cache").iterdir():
        data = bytearray(path.read_bytes())
        data[8] += 1
        path.write_bytes(data)
    compiles, hits, said = run()
    assert (compiles, hits) == (first, 0) and said.count("of another version") == 1
    assert run() == (0, first, "")


def test_another_host(run: Run, tmp_path: Path) -> None:
    first, _, _ = run()
    info = tmp_path / "cpuinfo"
    info.write_text(Path("/proc/cpuinfo").read_text().replace("flags\t\t:", "flags\t\t: another"))
    hide = f"mount --bind {info} /proc/cpuinfo"
    if subprocess.run(["unshare", "-m", "sh", "-c", hide], capture_output=True).returncode != 0:
        pytest.skip(NEEDS_MOUNTS)
    code = f"{hide} && exec {sys.executable} -c '{PROGRAM + REPORT.replace(chr(39), chr(34))}'"
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(["unshare", "-m", "sh", "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [str(first), "0"], "")
    assert run() == (0, first, "")


@pytest.mark.skipif(len(cpu_plugins()) < 2, reason=NEEDS_TWO_PLUGINS)
def test_another_plugin(run: Run, tmp_path: Path) -> None:
    cache, plugins = tmp_path / "cache", cpu_plugins()
    first, _, _ = run(TORCH_TPU_PLUGIN=plugins[0])
    ours = set(cache.iterdir())
    assert run(TORCH_TPU_PLUGIN=plugins[1]) == (first, 0, "")
    theirs = set(cache.iterdir()) - ours
    assert len(theirs) == first
    for path in theirs:  # the same programs under the same names, by the other plugin
        (same,) = (p for p in ours if p.name[:32] == path.name[:32])
        shutil.copy(same, path)
    assert run(TORCH_TPU_PLUGIN=plugins[1]) == (first, 0, "")


def test_shared_memory_that_is_full_or_not_there(run: Run, mounted: Callable[..., Path], tmp_path: Path) -> None:
    first, _, said = run(TORCH_TPU_SHARED_DIR=str(tmp_path / "none"))
    assert said.count("not shared between the processes") == 1
    full = mounted("full", "size=8k")
    compiles, hits, said = run(tmp_path / "other", TORCH_TPU_SHARED_DIR=str(full), TORCH_TPU_SHARED_BYTES="1000000")
    assert (compiles, hits) == (first, 0) and said.count("No space left on device") == 1
    assert not list(full.iterdir())
