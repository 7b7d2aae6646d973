"""The TPU's compiler, on a machine without one: the worker, what it says of programs, and the command."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ledger import NEEDS_LIBTPU
from torch import nn

import torch_tpu
from torch_tpu import aot
from torch_tpu.aot import lock, target
from torch_tpu.aot.compiler import CompileError, Compiler
from torch_tpu.aot.optimized import Optimized

try:
    target.libtpu()
    INSTALLED = True
except RuntimeError:
    INSTALLED = False

needs_libtpu = pytest.mark.skipif(not INSTALLED, reason=NEEDS_LIBTPU)
pytestmark = pytest.mark.timeout(600)

ADD = """module @m {
  func.func public @main(%0: T, %1: T {tf.aliasing_output = 0 : i32}) -> T {
    %2 = stablehlo.add %0, %1 : T loc("aten::add"("model.py":7:0))
    return %2 : T
  }
}
""".replace("T", "tensor<8x128xf32>")
UNKNOWN = """module @m {
  func.func public @main(%0: T) -> T {
    %1 = stablehlo.custom_call @nothing(%0) : (T) -> T
    return %1 : T
  }
}
""".replace("T", "tensor<8x128xf32>")
TOO_LARGE = """module @m {
  func.func public @main(%0: tensor<65536x65536xf32>) -> tensor<65536x65536xf32> {
    %1 = stablehlo.tanh %0 : tensor<65536x65536xf32> loc("aten::tanh"("model.py":9:0))
    return %1 : tensor<65536x65536xf32>
  }
}
"""


@pytest.fixture
def v5e() -> Iterator[Compiler]:
    with Compiler("v5e:2x2") as compiler:
        yield compiler


# --- the worker ---


@needs_libtpu
def test_a_program_is_compiled_for_a_tpu(v5e: Compiler) -> None:
    assert v5e.chip.kind == "TPU v5 lite" and 15e9 < v5e.chip.memory < 17e9
    done = v5e.compile(ADD, serialize=True)
    size = 8 * 128 * 4
    assert done.memory["arguments"] == 2 * size and done.memory["outputs"] == size
    assert done.memory["aliased"] == size and size < done.hbm < 4e6
    assert done.flops == 8 * 128 and done.bytes_accessed == 3 * size
    assert 0 < done.estimated_seconds < 1e-3 and 0 < done.seconds < 120
    assert done.hlo.startswith("HloModule m") and "add(" in done.hlo
    assert len(done.executable) > 1000
    assert any(i.op == "aten::add" and i.line == "model.py:7" for i in done.optimized.everything.values())
    assert {b.bytes for b in done.optimized.peak} == {size}


@needs_libtpu
def test_a_program_over_many_chips(v5e: Compiler) -> None:
    program = """module @m {
  func.func public @main(%0: tensor<128xf32>) -> tensor<128xf32> {
    %1 = "stablehlo.all_reduce"(%0) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<128xf32>) -> tensor<128xf32>
    return %1 : tensor<128xf32>
  }
}
"""
    assert v5e.chip.devices == 4
    assert "all-reduce" in v5e.compile(program, replicas=4).hlo


@needs_libtpu
def test_a_refusal_costs_only_its_program(v5e: Compiler) -> None:
    with pytest.raises(CompileError, match="nothing") as refused:
        v5e.compile(UNKNOWN)
    assert not refused.value.crashed
    with pytest.raises(CompileError):
        v5e.compile("no program")
    with pytest.raises(CompileError) as large:
        v5e.compile(TOO_LARGE)
    assert large.value.out_of_memory and not large.value.crashed
    first = large.value.optimized.peak[0]
    assert first.bytes == 2**34 and first.type == "f32[65536,65536]"
    assert v5e.compile(ADD).flops == 1024


@needs_libtpu
def test_a_crash_costs_only_its_program(v5e: Compiler) -> None:
    assert v5e._worker is not None
    v5e._worker._process.kill()
    with pytest.raises(CompileError, match="signal 9") as died:
        v5e.compile(ADD)
    assert died.value.crashed
    assert v5e.compile(ADD).flops == 1024
    v5e.timeout = 0.0
    with pytest.raises(CompileError, match="gave no answer in 0 s"):
        v5e.compile(TOO_LARGE)
    v5e.timeout = 600
    assert v5e.compile(ADD).flops == 1024


@needs_libtpu
def test_an_unknown_topology_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown target 'v9'.*tpu7x"):
        Compiler("v9")
    with pytest.raises(RuntimeError, match="topology v5e:9x9"), Compiler("v5e:9x9"):
        pass


@needs_libtpu
def test_a_thread_has_one_compiler(v5e: Compiler) -> None:
    with pytest.raises(aot.Held, match="this thread has libtpu already"), Compiler("v6e"):
        pass


def test_a_missing_compiler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(target._plugin, "in_package", lambda *_: None)
    with pytest.raises(RuntimeError, match=r"torchtpu\[aot\].*TPU_LIBRARY_PATH"):
        Compiler("v5e")


def test_a_library_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/nonexistent/libtpu.so")
    monkeypatch.setattr(lock, "ours", lambda: Path("/tmp") / f"torch_tpu_test.{os.getpid()}.lock")
    monkeypatch.setattr(lock, "THEIRS", Path("/nonexistent"))
    try:
        with pytest.raises(RuntimeError, match=r"/nonexistent/libtpu\.so: cannot be loaded"), Compiler("v5e"):
            pass
    finally:
        lock.ours().unlink(missing_ok=True)


def test_the_lock_waits_and_tells_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "ours", lambda: tmp_path / "lock")
    monkeypatch.setattr(lock, "THEIRS", tmp_path / "theirs")
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.libtpu_lock(0):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(30)
    with pytest.raises(lock.Held, match=f"process {os.getpid()}"), lock.libtpu_lock(0.3):
        pass
    assert capfd.readouterr().err.count("waiting for libtpu") == 1
    leave.set()
    thread.join()
    # libtpu's own lock, as another program that is not ours holds it.
    (tmp_path / "theirs").touch()
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "theirs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(lock.Held, match=f"process {other.pid} "), lock.libtpu_lock(0.3):
        pass
    other.communicate(b"\n")
    with lock.libtpu_lock(0) as fd:
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


# --- what is collected ---


def test_programs_are_collected_with_their_lines() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu().sum()

    for _ in range(2):  # known programs are collected too
        (program,) = aot.capture_call(step, torch.ones(4, 4))
        assert program.name == "a program of 3 ops (aten::mul.Tensor to aten::sum)" and program.times == 1
        assert [op for op, _ in program.ops] == ["mul.Tensor", "relu", "sum"]
        assert program.lines.startswith(__file__) and program.lines.count(":") == 1
        assert [t.type for t in program.inputs] == ["tensor<4x4xf32>"] and program.outputs[0].bytes == 4
        assert f'loc("aten::relu"("{__file__}":' in program.located and "loc(" not in program.text
    assert torch_tpu.modes.current_mode() == "strict"


def test_a_loop_is_one_program_launched_often() -> None:
    with aot.capture() as programs:
        x = torch.ones(8, 8, device="tpu")
        for _ in range(5):
            x = x @ x
            x.sum().item()
    loop = [p for p in programs if any(op == "mm" for op, _ in p.ops)]
    assert sum(p.times for p in loop) == 5 and len(loop) <= 2


def test_a_module_stays_where_it_is() -> None:
    model = nn.Linear(4, 2)
    (program,) = aot.capture_call(model, torch.randn(3, 4))
    assert model.weight.device.type == "cpu" and [t.type for t in program.outputs] == ["tensor<3x2xf32>"]
    (text,) = aot.hlo(model, torch.randn(3, 4))
    assert "stablehlo.dot_general" in text.stablehlo and text.optimized == ""


def test_float64_is_written_for_a_tpu() -> None:
    """Barriers keep the CPU's compiler from contracting; a TPU's does not, and would lose its fusions."""
    (program,) = aot.capture_call(lambda x: x * 3 - 1, torch.ones(4, dtype=torch.float64))
    assert "optimization_barrier" not in program.text


def test_programs_are_dumped(python: Any, tmp_path: Path) -> None:
    code = """
        import torch, torch_tpu
        with torch_tpu.eager_mode("defer"):
            x = torch.ones(4, 4, device="tpu")
            assert (x + 2).exp().sum().item() > 0
    """
    folder = tmp_path / "a" / "dump"
    env = {"TORCH_TPU_DUMP": str(folder), "TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    python(code, **env)
    text = next(folder.glob("0000-*_aten_sum.mlir")).read_text()
    assert text.startswith("// a program of 4 ops (aten::ones to aten::sum)\nmodule") and 'loc("aten::exp"("' in text
    assert "exponential" in next(folder.glob("0000-*/*after_optimizations.txt")).read_text()
    assert not list((tmp_path / "cache").iterdir())  # it names the folder
    again = python(code, code_expected=1, **(env | {"TORCH_TPU_DUMP": "/proc/none"}))
    assert "TORCH_TPU_DUMP: cannot write /proc/none/0000-" in again.err


def test_a_dry_run_computes_nothing() -> None:
    torch.tpu.synchronize()
    before, figures = torch.tpu.compile_stats(), torch_tpu._C.memory_figures()
    with aot.capture(dry=True) as programs:
        model = nn.Linear(1 << 17, 1 << 17, device="tpu")  # 64 GiB
        loss = model(torch.ones(8, 1 << 17, device="tpu")).square().mean()
        loss.backward()
        with pytest.raises(RuntimeError, match="nothing is computed in a dry run"):
            loss.item()
        kept = loss * 2
    after = torch.tpu.compile_stats()
    assert all(after[name] == before[name] for name in ("compiles", "executions"))
    assert torch_tpu._C.memory_figures()["live"] == figures["live"]
    assert sum(t.bytes for p in programs for t in p.outputs if not t.donated) > 2**36
    assert any("aten::mean" in p.located for p in programs) and [p.times for p in programs] == [1] * len(programs)
    with pytest.raises(RuntimeError, match="dry run"):
        kept.cpu()
    assert (torch.ones(3, device="tpu") + 1).sum().item() == 6


# --- what is said of it ---


@needs_libtpu
def test_compile_a_module_for_a_tpu() -> None:
    report = aot.compile(nn.Sequential(nn.Linear(256, 256), nn.ReLU()), torch.randn(128, 256), target="v6e")
    assert report.ok and report.chip.kind == "TPU v6 lite" and len(report.rows) == 1
    totals = report.totals()
    assert totals["launches"] == 1 and totals["flops"] > 2 * 128 * 256 * 256 and totals["estimated_seconds"] > 0
    assert "aten::addmm" in str(report) and "all launches" in str(report)
    (text,) = aot.hlo(torch.tanh, torch.ones(8, 128), target="v5e")
    assert "stablehlo.tanh" in text.stablehlo and text.optimized.startswith("HloModule")


SCRIPT = """
import sys
import torch

model = torch.nn.Linear(64, 64).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    loss = model(torch.ones(8, 64, device="tpu")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item() > 0)
sys.exit(3)
"""


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*args: str, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(script)
        return subprocess.run(
            [sys.executable, "-m", "torch_tpu", "aot", *args], cwd=tmp_path, capture_output=True, text=True, timeout=400
        )

    return run


@needs_libtpu
def test_the_command(command: Any, tmp_path: Path) -> None:
    done = command("--target", "v5e", "--target", "v6e:2x2", "--json", "r.json", "--html", "r.html", "train.py", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss True") == 2 and "ended with exit status 3" in done.stderr
    assert "TPU v5 lite" in done.stdout and "TPU v6 lite" in done.stdout and "compiling for v6e:2x2: " in done.stderr
    reports = json.loads((tmp_path / "r.json").read_text())
    assert [r["target"] for r in reports] == ["v5e:1x1", "v6e:2x2"]
    assert all(p["memory"]["hbm"] > 0 and "train.py" in p["lines"] for r in reports for p in r["programs"])
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>") and "http" not in page and "HloModule" in page and "TPU v6 lite" in page


LARGE = """
import torch

model = torch.nn.Linear(1 << 16, 1 << 16, bias=False, device="tpu")
with torch.no_grad():
    y = model(torch.ones(8, 1 << 16, device="tpu")).tanh()
print("not", y.sum().item())
"""


@needs_libtpu
def test_what_exceeds_the_chip_is_named(command: Any) -> None:
    done = command("--dry-run", "--target", "v5e", "--target", "v5p", "train.py", script=LARGE)
    assert done.returncode == 1 and "train.py ended where it reads a number" in done.stderr, done.stderr
    v5e_part, v5p_part = done.stdout.split("v5p:1x1x1: ")
    assert "exceeds the memory of TPU v5 lite" in v5e_part and "exceeds" not in v5p_part
    complaint = v5e_part[v5e_part.index("exceeds the memory") :]
    assert "16.0 GiB  f32[65536,65536]" in complaint and "train.py:" in v5e_part and "not" not in v5e_part.split()


def test_the_command_refuses_before_it_runs(command: Any) -> None:
    assert "no script absent.py" in command("absent.py").stderr
    assert "unknown target 'v9'" in command("--target", "v9", "train.py").stderr
    done = command("--help")
    assert done.returncode == 0 and "--html FILE" in done.stdout and "python -m torch_tpu aot train.py" in done.stdout


def test_optimized_text_is_read() -> None:
    text = """HloModule m

FileNames
1 "a.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%inner (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %e = f32[8]{0} exponential(%p)
}

%body (s: f32[8]) -> f32[8] {
  %s = f32[8]{0} parameter(0)
  ROOT %g = f32[8]{0} fusion(%s), kind=kLoop, calls=%inner, backend_config={"window_config":{"estimated_cycles":"7"}}
}

%test (s.1: f32[8]) -> pred[] {
  %s.1 = f32[8]{0} parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0:T(128)} parameter(0)
  %fast = f32[8]{0:T(128)S(1)} copy(%a)
  %f = f32[8]{0:T(128)} fusion(%fast), kind=kLoop, calls=%inner, metadata={op_name="aten::exp" stack_frame_id=1}, \
backend_config={"window_config":{"estimated_cycles":"120","iteration_bounds":["2","3"]}}
  %w = f32[8]{0} while(%f), condition=%test, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%w, %a)
}
"""
    live = """  Live ranges at 4 (peak):
    a{}: 32 bytes (cumulative: 32 bytes)
    f{}: 64 bytes (cumulative: 96 bytes)
    fast{}: 32 bytes (cumulative: 128 bytes)
  Stack trace breakdown for peak usage: 128 bytes
"""
    read = Optimized(text, live)
    assert [i.name for i in read.schedule] == ["a", "fast", "f", "w", "t"]
    one = read.everything["f"]
    assert (one.op, one.line, one.cycles, one.iterations) == ("aten::exp", "a.py:12", 120, 6) and read.cycles == 155
    assert [(b.name, b.bytes) for b in read.peak] == [("f", 64), ("a", 32)]
    assert str(read.peak[0]) == "f32[8] of aten::exp at a.py:12"
