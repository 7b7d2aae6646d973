"""The memory tier: executables are dropped, the least recently used first, and made again when they are wanted."""

import pytest
import torch

PROGRAM = """
import threading, torch, torch_tpu
torch_tpu.eager_mode({mode!r})
x = torch.arange(64.0).tpu()

def f(n):
    return (x[:n] * 2).sum().item()

def stats():
    return torch.tpu.compile_stats()
"""


@pytest.mark.parametrize("mode", ["strict", "defer"])
@pytest.mark.parametrize("cached", [False, True])
def test_what_is_dropped_is_made_again(python, tmp_path, mode, cached):
    got = python(
        PROGRAM.format(mode=mode)
        + """
for again in range(3):
    for n in range(1, 31):
        assert f(n) == n * (n - 1), n
        assert stats()["program_bytes"] <= 1_000_000
    if again == 0:
        first = stats()["compiles"]
s = stats()
assert s["evictions"] > 60 and 3 <= s["programs"] < 20, s
print(first, s["compiles"], s["shared_hits"] + s["disk_hits"])
""",
        TORCH_TPU_PROGRAM_BYTES="1000000",
        TORCH_TPU_CACHE_DIR=str(tmp_path) if cached else "",
    )
    first, compiles, loads = map(int, got.out.split())
    if cached:
        assert compiles == first and loads >= 2 * 25
    else:
        assert compiles >= 2.5 * first and loads == 0


def test_what_is_used_stays(python):
    python(
        PROGRAM.format(mode="strict")
        + """
for n in range(1, 31):
    assert f(n) == n * (n - 1), n
    before = stats()["compiles"]
    assert f(1) == 0 and stats()["compiles"] == before, n  # though the plan that holds it looks nothing up
assert stats()["evictions"] > 20
""",
        TORCH_TPU_PROGRAM_BYTES="1000000",
    )


def test_mappings_of_the_process_are_bounded(python):
    """A process that has no memory mappings left dies in malloc; Linux gives it 65,530."""
    python(
        """
import os, torch
def mappings():
    return open("/proc/self/maps").read().count("\\n")
room = mappings() + 300  # the plugin and its threads take some too
os.environ["TORCH_TPU_PROGRAM_MAPPINGS"] = str(room)
"""
        + PROGRAM.format(mode="strict")
        + """
for again in range(2):
    for n in range(1, 61):
        assert f(n) == n * (n - 1), n
        assert mappings() < room + 2 * 128, (n, mappings(), room)
assert stats()["evictions"] > 20, (stats(), mappings(), room)
"""
    )


def test_threads_drop_what_others_use(python):
    python(
        PROGRAM.format(mode="strict")
        + """
wrong = []
def work(seed):
    try:
        for i in range(60):
            n = (i * seed) % 12 + 1
            assert f(n) == n * (n - 1), n
    except Exception as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 5, 7, 11)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong and stats()["evictions"] > 20, (wrong, stats())
""",
        TORCH_TPU_PROGRAM_BYTES="400000",
    )


def test_figures():
    before = torch.tpu.compile_stats()
    x = torch.arange(1283.0).tpu() * 3
    after = torch.tpu.compile_stats()
    assert x[1].item() == 3
    assert after["programs"] > before["programs"] and after["program_bytes"] >= before["program_bytes"] + 64 * 1024
