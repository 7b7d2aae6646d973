"""What a program is found by: the same in every process, different for different programs; and where it is not, the
answers are right all the same."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tpu
from torch_tpu import _C

Key = tuple[int, int]  # structure, dimensions


def made(work: Callable[[], object]) -> list[Key]:
    """Keys of the programs that are new in this process."""

    def count() -> int:  # the log keeps the newest only
        stats = torch.tpu.compile_stats()
        return sum(stats[name] for name in ("compiles", "shared_hits", "disk_hits", "remote_hits"))

    before = count()
    with torch_tpu.eager_mode("defer"):
        kept = work()
        torch.tpu.synchronize()
    del kept
    if count() == before:
        return []
    return [(event["structure"], event["dimensions"]) for event in _C.cache_log()[-(count() - before) :]]


def key(work: Callable[[], object]) -> Key:
    (only,) = made(work)
    return only


@pytest.fixture(scope="module")
def sizes() -> Callable[[], int]:
    """Sizes that no other test has, so that every program is new."""
    numbers = iter(range(3001, 4000, 7))
    return lambda: next(numbers)


def new(size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype).tpu()


def test_which_input_feeds_which_operand(sizes: Any) -> None:
    n = sizes()
    a, b, c = new(n), new(n), new(n)
    keys = [
        key(lambda: a * a),
        key(lambda: a * b),
        key(lambda: a * b * c),
        key(lambda: (a * b) * a),
        key(lambda: (a * b) * b),
        key(lambda: a - b * a),
        key(lambda: b * a - a),
    ]
    assert len(set(keys)) == len(keys)
    assert made(lambda: b * c) == [], "which values they are does not matter"


def test_dtype_attribute_output_and_donation(sizes: Any) -> None:
    n = sizes()
    a, b = new(n), new(n, torch.float64)
    keys = [key(lambda: a * a), key(lambda: b * b)]
    m = new(n * 2).view(2, n)
    keys += [key(lambda: m.sum(0)), key(lambda: m.sum(1)), key(lambda: m.sum(1, keepdim=True))]
    keys += [key(lambda: (a * 3).exp()), key(lambda: (y := a * 3, y.exp()))]  # the middle is an output, or not
    keys += [key(lambda: a.mul_(a))]  # takes the memory of its operand
    assert len(set(keys)) == len(keys)


def test_layout_and_precision_of_products(sizes: Any) -> None:
    n = sizes()
    wide = new(n * 3).view(3, n)
    keys = [key(lambda: wide + 1), key(lambda: wide.t() + 1), key(lambda: wide[::2] + 1)]
    precision = torch.get_float32_matmul_precision()
    try:
        for how in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(how)
            keys.append(key(lambda: wide @ wide.t()))
    finally:
        torch.set_float32_matmul_precision(precision)
    assert len(set(keys)) == len(keys)


def test_a_new_size_changes_the_dimensions_only(sizes: Any) -> None:
    def work(n: int) -> list[Key]:
        a, b = new(n), new(n)
        return [key(lambda: (a * b).exp().sum()), key(lambda: torch.stack([a, b]).t())]

    for one, other in zip(work(sizes()), work(sizes()), strict=True):
        assert one[0] == other[0] and one[1] != other[1]


def test_random_programs_have_keys_of_their_own(sizes: Any) -> None:
    chance = random.Random(0)
    n = sizes()
    a, b = new(n), new(n)
    operators = [torch.add, torch.sub, torch.mul, torch.maximum]
    keys = {}
    for _ in range(40):
        picks = [(chance.randrange(4), chance.randrange(3), chance.randrange(3)) for _ in range(3)]

        def work(picks: list[tuple[int, int, int]] = picks) -> torch.Tensor:
            values = [a, b, a]
            for op, x, y in picks:
                values = [values[1], values[2], operators[op](values[x], values[y])]
            return values[2]

        for k in made(work):
            assert k not in keys, (picks, keys[k])
            keys[k] = picks
    assert len(keys) > 20


SAME = """
import torch
def work():
    x = torch.arange(12.0).view(3, 4).tpu()
    y = (x @ x.t()).softmax(0)
    y.mul_(2)
    z = torch.nn.functional.layer_norm(x, (4,)).sum((0, 1), keepdim=True)
    return y.cpu(), z.cpu()
"""
KEYS = """
from torch_tpu import _C
work()
print(sorted((e["structure"], e["dimensions"], e["options"]) for e in _C.cache_log()))
"""


@pytest.mark.parametrize("mode", ["LAUNCH_BLOCKING", "DEFER_AND_FUSE"])
def test_equal_programs_of_other_processes_have_equal_keys(python: Any, tmp_path: Any, mode: str) -> None:
    def keys(before: str = "", **env: str) -> str:
        told = {"TORCH_TPU_CACHE_DIR": str(tmp_path), "TORCH_TPU_" + mode: "1", **env}
        return python(before + SAME + KEYS, **told).out

    first = keys(PYTHONHASHSEED="1")
    assert first.count("(") >= 1
    others = "import numpy, random, torch_tpu, torch.nn, torch.fft\nnumpy.zeros(3); [object() for _ in range(9999)]\n"
    assert keys(others, PYTHONHASHSEED="2", TORCH_TPU_CACHE_DIR=str(tmp_path / "other")) == first
    assert keys(TORCH_TPU_OPT_LEVEL="0") != first


COLLIDING = """
import threading, torch, torch_tpu
names = ["exp", "sin", "cos", "tanh", "relu", "neg", "abs", "sqrt"]
expected = {}
def work(mode):
    try:
        with torch_tpu.eager_mode(mode):
            for n in range(1, 6):
                x = torch.rand(n, 3)
                y = x.tpu()
                for name in names:
                    got, want = getattr(y, name)().sum(0), getattr(x, name)().sum(0)
                    assert torch.allclose(got.cpu(), want, atol=1e-5), (mode, n, name, got, want)
                assert torch.equal((y * y).cpu(), x * x) and torch.equal((y * y.flip(0)).cpu(), x * x.flip(0))
                y.add_(1).mul_(y)
                assert torch.allclose(y.cpu(), (x + 1) * (x + 1))
    except BaseException as error:
        wrong.append(error)
wrong = []
threads = [threading.Thread(target=work, args=(mode,)) for mode in ("strict", "defer", "debug")]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong
s = torch.tpu.compile_stats()
print(s["compiles"], s["disk_hits"] + s["shared_hits"])
"""


def test_colliding_keys_give_right_answers(python: Any, tmp_path: Any) -> None:
    env = {"TORCH_TPU_TEST_KEY_BITS": "4", "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    first = python(COLLIDING, **env)
    second = python(COLLIDING, TORCH_TPU_PROGRAM_BYTES="500000", **env)
    assert first.err == second.err == ""
    assert 0 < len(list(tmp_path.iterdir())) <= 16 < int(first.out.split()[0])
