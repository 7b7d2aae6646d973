"""Processes of one machine that need the same programs: one compiles each, whatever happens to it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Children of one process that has not started the device, so that they need not import torch each.
TOGETHER = """
import json, os, random, signal, sys, time, torch, torch_tpu

COUNT, KILLED = {count}, {killed}

def work():
    for n in range(1, 26):
        x = torch.arange(float(n)).tpu()
        assert ((x * 2).tolist(), (x + n).tolist()) == ([2.0 * i for i in range(n)], [1.0 * i + n for i in range(n)])

start, go = os.pipe()
children = []
for i in range(COUNT):
    result, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(start, 1)
        begin = time.monotonic()
        work()
        os.write(out, json.dumps([torch.tpu.compile_stats(), time.monotonic() - begin]).encode())
        from torch_tpu import _register
        _register._finish()
        os._exit(0)
    os.close(out)
    children.append((pid, result))
os.close(go)
random.seed(1)
for pid, _ in children[:KILLED]:
    time.sleep(random.uniform(0.02, 0.1))
    os.kill(pid, signal.SIGKILL)
statuses = [os.waitpid(pid, 0)[1] for pid, _ in children]
assert statuses == [9] * KILLED + [0] * (COUNT - KILLED), statuses
print(json.dumps([json.loads(os.read(result, 65536)) for _, result in children[KILLED:]]))
"""
PROGRAMS = 50
Start = Callable[..., list[dict[str, int]]]


@pytest.fixture
def together(python: Any, tmp_path: Path) -> Start:
    """compile_stats() of processes that start together."""
    (tmp_path / "shm").mkdir()

    def start(count: int, killed: int = 0, **env: str) -> list[dict[str, int]]:
        told = {"TORCH_TPU_CACHE_DIR": str(tmp_path / "cache"), "TORCH_TPU_SHARED_DIR": str(tmp_path / "shm"), **env}
        done = python(TOGETHER.format(count=count, killed=killed), **told)
        assert done.err == ""
        return [stats for stats, _ in json.loads(done.out)]

    return start


def total(all_stats: list[dict[str, int]], name: str) -> int:
    return sum(stats[name] for stats in all_stats)


def test_eight_processes_compile_each_program_once(together: Start, tmp_path: Path) -> None:
    stats = together(8)
    assert total(stats, "compiles") == PROGRAMS
    assert total(stats, "shared_hits") + total(stats, "disk_hits") == 7 * PROGRAMS
    assert total(stats, "shared_hits") > 3 * PROGRAMS
    assert not list((tmp_path / "shm").iterdir()), "the last one removes it"


def test_when_those_that_compile_are_killed_others_do(together: Start, tmp_path: Path) -> None:
    stats = together(8, killed=6)
    assert total(stats, "compiles") <= PROGRAMS
    for s in stats:
        assert s["compiles"] + s["shared_hits"] + s["disk_hits"] == PROGRAMS
    assert not list((tmp_path / "shm").iterdir())


def test_off(together: Start, tmp_path: Path) -> None:
    stats = together(2, TORCH_TPU_CACHE_DIR="")
    assert total(stats, "compiles") == 2 * PROGRAMS
    stats = together(2, TORCH_TPU_SHARED_DIR="")
    assert total(stats, "shared_hits") == 0
    assert not list((tmp_path / "shm").iterdir())


def test_it_is_in_dev_shm_and_gone_afterwards(python: Any, tmp_path: Path) -> None:
    got = python(
        """
        import glob, os, stat, torch
        x = torch.arange(3.0).tpu() + 1
        held = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        (folder,) = [os.path.dirname(path) for path in held if path.endswith("/member")]
        assert folder.startswith(f"/dev/shm/torch_tpu-{os.geteuid()}-")
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700 and glob.glob(folder + "/*.entry")
        print(folder)
        """,
        TORCH_TPU_CACHE_DIR=str(tmp_path),
    )
    assert not os.path.exists(got.out.strip())


# One program that takes seconds to compile.
LONG = """
import signal, sys, torch, torch_tpu
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background has not
torch_tpu.eager_mode("defer")
x = torch.rand(8, 8).tpu()
for i in range(150):
    x = (x.sin() * 2).cumsum(i % 2).sort(1)[0]
print("begin", flush=True)
try:
    x.cpu()
    print("done", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def until(what: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("fate", ["killed", "interrupted waiter"])
def test_waiting_ends(tmp_path: Path, fate: str) -> None:
    shm = tmp_path / "shm"
    shm.mkdir()
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache"), "TORCH_TPU_SHARED_DIR": str(shm)}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", LONG], env=env, stdout=subprocess.PIPE, text=True)

    leader = start()
    try:
        assert leader.stdout and leader.stdout.readline() == "begin\n"
        until(lambda: list(shm.glob("*/*.lease")))
        leader.send_signal(signal.SIGSTOP)
        (lease,) = shm.glob("*/*.lease")
        waiter = start()
        assert waiter.stdout and waiter.stdout.readline() == "begin\n"
        time.sleep(1)
        assert waiter.poll() is None and lease.exists()
        if fate == "killed":
            leader.kill()
            assert waiter.communicate(timeout=60)[0] == "done\n"
        else:
            waiter.send_signal(signal.SIGINT)
            assert waiter.communicate(timeout=60)[0] == "interrupted\n"
            leader.send_signal(signal.SIGCONT)
            assert leader.communicate(timeout=60)[0] == "done\n"
    finally:
        leader.kill()
        leader.wait()
    assert not list(shm.iterdir())
