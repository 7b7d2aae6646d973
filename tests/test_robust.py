"""Long chains, and errors in the middle of things: the device stays usable and the error says where."""

import gc
import re

import pytest
import torch
from oracle import launches

import torch_tpu


def test_long_chain(mode):
    n = 100_000
    x = torch.zeros(2).tpu()
    one = torch.ones(2).tpu()
    with launches() as count:
        for _ in range(n):
            x = x + one
        assert x.tolist() == [n, n]
        assert count() <= (n + 1 if mode != "defer" else n // 200)


def test_long_chain_that_nobody_reads():
    torch_tpu.eager_mode("defer")
    x = torch.zeros(2).tpu()
    for _ in range(100_000):
        x = x + x
    del x
    gc.collect()
    assert torch.ones(2).tpu().tolist() == [1, 1]


def test_long_chain_of_views():
    x = torch.arange(6.0).tpu()
    y = x
    for _ in range(100_000):
        y = y.view(2, 3).view(6)
    y.add_(1)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


def test_long_backward():
    torch_tpu.eager_mode("defer")
    x = torch.ones(2).tpu().requires_grad_()
    y = x
    for _ in range(10_000):
        y = y + x
    y.backward(torch.ones(2).tpu())
    assert x.grad.tolist() == [10_001, 10_001]


def test_an_exception_inside_a_deferred_region(mode):
    x = torch.arange(4.0).tpu()
    y = x + 1
    with pytest.raises(RuntimeError, match=r"must match the size|Attempting to broadcast"):
        y + torch.ones(3).tpu()
    with pytest.raises(ZeroDivisionError):
        y.mul_(2)
        1 / 0  # noqa: B018
    assert y.tolist() == [2, 4, 6, 8]
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(2, 4).tpu())
    assert x.tolist() == [0, 1, 2, 3]


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("in backward")


def test_an_exception_in_backward(mode):
    x = torch.ones(3).tpu().requires_grad_()
    for _ in range(3):
        with pytest.raises(ValueError, match="in backward"):
            (Fails.apply(x * 2) * 3).backward(torch.ones(3).tpu())
    (x * 2).backward(torch.ones(3).tpu())
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("eager", ["strict", "debug", "defer"])
def test_failing_compile_names_op_and_line(monkeypatch, eager):
    torch_tpu.eager_mode(eager)
    size = {"strict": 1213, "debug": 1217, "defer": 1223}[eager]  # sizes that no other test compiles for
    x = torch.arange(float(size)).tpu()
    monkeypatch.setenv("TORCH_TPU_FAIL_COMPILE", "sub")
    with pytest.raises(RuntimeError) as caught:
        y = x + 1
        z = y - x  # the line that fails
        (z * 2).cpu()
    monkeypatch.delenv("TORCH_TPU_FAIL_COMPILE")
    text = str(caught.value)
    line = next(i for i, t in enumerate(open(__file__), 1) if t.rstrip().endswith("# the line that fails"))
    assert re.search(
        rf"aten::sub\S* recorded at \S*test_robust\.py:{line} does not compile: TORCH_TPU_FAIL_COMPILE", text
    ), text
    assert (x * 2).tolist() == [2.0 * i for i in range(size)], "going on works"
    assert (((x + 1) - x) * 2).tolist() == [2.0] * size, "the program that failed is tried again"


@pytest.mark.parametrize(("file", "named"), [("\u00e9.py", "\u00e9.py:1"), ("odd\udc80.py", "test_robust.py:")])
def test_files_with_odd_names(monkeypatch, file, named):
    torch_tpu.eager_mode("strict")
    x = torch.arange(1229.0 + len(named)).tpu()  # a size that no other test compiles for
    monkeypatch.setenv("TORCH_TPU_FAIL_COMPILE", "sub")
    with pytest.raises(RuntimeError, match=rf"aten::sub\S* recorded at \S*{named}"):
        exec(compile("x - 1", file, "exec"), {"x": x})


def test_failed_values_tell_why_each_time(monkeypatch):
    torch_tpu.eager_mode("defer")
    x = torch.arange(1237.0).tpu()  # a size that no other test compiles for
    monkeypatch.setenv("TORCH_TPU_FAIL_COMPILE", "mul")
    y = x * 3
    z = y
    with pytest.raises(RuntimeError, match=r"aten::mul\S* recorded at"):
        torch.tpu.synchronize()
    monkeypatch.delenv("TORCH_TPU_FAIL_COMPILE")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"aten::mul\S* recorded at"):
            (z + 1).cpu()
    y.copy_(torch.zeros(1237))  # a whole overwrite needs no old value
    assert y.tolist() == [0] * 1237 and x.tolist() == list(range(1237))


def test_fallbacks_are_counted_and_told_once(capfd):
    library = torch.library.Library("torch_tpu_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", torch.empty_like, "Meta")
    x, before = torch.rand(3).tpu(), torch.tpu.compile_stats()["cpu_fallbacks"]
    for _ in range(3):
        y = torch.ops.torch_tpu_test.twice(x)
    assert y.is_tpu and y.tolist() == (x * 2).tolist()
    assert torch.tpu.compile_stats()["cpu_fallbacks"] - before == 3
    counts = torch.tpu.fallback_counts()
    assert counts[next(k for k in counts if k.startswith("torch_tpu_test::twice"))] == 3
    assert capfd.readouterr().err.count("has no torch_tpu_test::twice: it runs on the CPU") == 1
    library._destroy()
