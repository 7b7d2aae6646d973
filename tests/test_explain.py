"""Why programs were compiled: each reason, storms, and what is told while a program runs."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tpu
from torch_tpu import _C
from torch_tpu._explain import Compiled, live, reasons


@pytest.fixture
def sizes(request: pytest.FixtureRequest) -> Callable[[], int]:
    """Sizes that no other test has, so that every program is new."""
    first = 5001 + 400 * (sum(map(ord, request.node.nodeid)) % 997)
    numbers = iter(range(first, first + 400))
    return lambda: next(numbers)


def anew(function: Any) -> Any:
    """The function as code that has not run yet, in whatever test before."""
    function.__code__ = function.__code__.replace()
    return function


def line(function: Any, after: int = 1) -> str:
    """So many lines after the decorator `anew`."""
    return f"{__file__}:{function.__code__.co_firstlineno + after}"


def run(work: Callable[[], object]) -> list[Compiled]:
    """What is compiled where `work` ends with a sink."""
    with torch_tpu.explain() as e:
        kept = work()
        torch.tpu.synchronize()
    del kept
    return [p for p in e.programs if p.source == "compiled"]


def test_a_size(mode: str, sizes: Any) -> None:
    a, b, c = (torch.zeros(4, sizes()).tpu() for _ in range(3))
    n, m = a.shape[1], b.shape[1]

    @anew
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, x)

    (first,) = run(lambda: twice(a))
    assert (first.kind, first.reason, first.advice, first.changes) == ("first", "first time at this line", "", ())
    assert first.name == "aten::maximum" and first.seconds > 0 and first.source == "compiled"
    assert (first.argument_bytes, first.output_bytes) == (16 * n, 16 * n)
    assert run(lambda: twice(a)) == []
    (second,) = run(lambda: twice(b))
    assert second.line == first.line == line(twice, 2)
    assert second.kind == "dimensions" and second.advice == ""  # it may be another layer
    assert second.reason == f"`self`.shape[1] of aten::maximum went from {n} to {m}"
    (change,) = second.changes
    assert (change.argument, change.dim, change.before, change.now, change.line) == ("self", 1, n, m, second.line)
    assert second.number > first.number and second.started > first.started
    assert run(lambda: twice(c))[0].advice == reasons.PAD


def test_the_operand_is_named(sizes: Any) -> None:
    n, k, m = sizes(), sizes(), sizes()
    x, bias = torch.zeros(2, 3).tpu(), torch.zeros(()).tpu()

    @anew
    def product(w: torch.Tensor) -> torch.Tensor:
        return torch.addmm(bias, x, w)

    @anew
    def joined(*parts: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts)

    weights = [torch.zeros(3, s).tpu() for s in (n, k)]
    assert run(lambda: product(weights[0]))[0].kind == "first"
    assert f"`mat2`.shape[1] of aten::addmm went from {n} to {k}" in run(lambda: product(weights[1]))[0].reason
    parts = [torch.zeros(s).tpu() for s in (n, k, m)]
    run(lambda: joined(parts[0], parts[1]))
    assert run(lambda: joined(parts[0], parts[2]))[0].reason == (
        f"`tensors[1]`.shape[0] of aten::cat went from {k} to {m}"
    )


def test_a_slice_that_grows_is_its_operators_argument(mode: str, sizes: Any) -> None:
    x = torch.zeros(sizes(), 3).tpu()

    @anew
    def part(n: int) -> torch.Tensor:
        return x[:n].exp()

    run(lambda: part(7))
    (again,) = run(lambda: part(9))
    assert again.reason == "`self`.shape[0] of aten::exp went from 7 to 9"


def test_a_size_of_a_factory_and_an_attribute(sizes: Any) -> None:
    n, m = sizes(), sizes()

    @anew
    def fresh(n: int) -> torch.Tensor:
        return torch.ones(n, device="tpu")

    run(lambda: fresh(n))
    (size,) = run(lambda: fresh(m))
    assert (size.kind == "dimensions" and f"went from {n} to {m}" in size.reason) or f"[{n}] to [{m}]" in size.reason
    x = torch.zeros(n).tpu()

    @anew
    def turned(shift: int) -> torch.Tensor:
        return torch.roll(x, shift)

    run(lambda: turned(2))
    (shift,) = run(lambda: turned(3))
    assert shift.kind == "attribute" and shift.reason == "`shifts` of aten::roll went from [2] to [3]"
    assert run(lambda: turned(4))[0].advice == reasons.STATIC


def test_a_dtype(sizes: Any) -> None:
    n = sizes()
    x, y = torch.zeros(n).tpu(), torch.zeros(n, dtype=torch.float64).tpu()

    @anew
    def work(x: torch.Tensor) -> torch.Tensor:
        return x.cos()

    run(lambda: work(x))
    (p,) = run(lambda: work(y))
    assert p.kind == "dtype" and p.reason == f"`self` of aten::cos went from f32[{n}] to f64[{n}]"
    assert p.advice == reasons.CONVERT


def test_the_first_operator_that_differs(sizes: Any) -> None:
    torch_tpu.eager_mode("defer")
    x = torch.zeros(sizes()).tpu()

    @anew
    def work(which: int) -> torch.Tensor:
        y = x.sin()
        y = y.exp() if which == 0 else y.tanh()
        if which == 2:
            y = y.cos()
        return y

    (first,) = run(lambda: work(0))
    assert first.line == f"{line(work, 2)}-{line(work, 3).rpartition(':')[2]}"
    (other,) = run(lambda: work(1))
    assert other.kind == "structure" and other.line == line(work, 3)
    assert other.reason == "other operators: aten::tanh (number 2) where aten::exp was"
    assert other.advice == reasons.READ_AT_THE_SAME_PLACES
    (more,) = run(lambda: work(2))
    assert more.reason == "other operators: aten::cos (number 3) comes in addition"


def test_only_the_cause_is_told(sizes: Any) -> None:
    """In a fused program a size goes everywhere; what changed outside is what is said."""
    torch_tpu.eager_mode("defer")
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 1)).to("tpu")

    @anew
    def step(x: torch.Tensor) -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    batches = [torch.zeros(sizes(), 5).tpu() for _ in range(2)]
    torch.tpu.synchronize()
    run(lambda: step(batches[0]))
    (program,) = run(lambda: step(batches[1]))
    a, b = (x.shape[0] for x in batches)
    assert [(c.dim, c.before, c.now) for c in program.changes] == [(0, a, b)], program.reason
    assert "aten::addmm" in program.reason and program.line == line(step, 3)


def test_other_results_and_donation(sizes: Any) -> None:
    torch_tpu.eager_mode("defer")
    x = torch.zeros(sizes()).tpu()

    @anew
    def work(both: bool) -> object:
        y = x.sin()
        z = y.cos()
        return (y, z) if both else z

    run(lambda: work(False))
    (p,) = run(lambda: work(True))
    assert p.kind == "results" and "other results" in p.reason

    @anew
    def replaced(keep: bool) -> object:
        v = torch.zeros(n).tpu()
        held = v.detach() if keep else None
        w = v * v
        del v
        return w, held

    n = sizes()
    run(lambda: replaced(True))
    (p,) = run(lambda: replaced(False))
    assert p.kind == "donation" and "memory of other arguments" in p.reason and p.advice == ""


def test_precision(sizes: Any) -> None:
    x = torch.zeros(3, sizes()).tpu()

    @anew
    def product() -> torch.Tensor:
        return x @ x.mT

    run(product)
    torch.set_float32_matmul_precision("high")
    try:
        (p,) = run(product)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert p.kind == "precision" and "from highest to high" in p.reason and p.advice == reasons.PRECISION


def test_nothing_is_compiled_or_launched_by_it(mode: str, sizes: Any) -> None:
    x = torch.zeros(sizes()).tpu() + 1
    before = torch.tpu.compile_stats()
    with torch_tpu.explain() as e:
        assert e.programs == [] and repr(e) == "<torch_tpu.explain: 0 programs>"
    str(torch_tpu.explain())
    _ = torch_tpu.explain().programs, torch_tpu.explain().storms
    after = torch.tpu.compile_stats()
    assert all(after[name] == before[name] for name in ("compiles", "executions", "ops_recorded", "materializations"))
    assert x[0].item() == 1


def test_a_call_tells_what_was_and_a_block_what_is_in_it(sizes: Any) -> None:
    x = torch.zeros(sizes()).tpu()
    before = torch_tpu.explain()
    with torch_tpu.explain() as e:
        x.sin()
        assert len(e.programs) == 1
    x.cos()
    (inside,) = e.programs
    assert inside.name == "aten::sin" and inside in torch_tpu.explain().programs
    assert inside not in before.programs
    assert "aten::sin" in str(e) and str(e).startswith("1 program compiled in ")


def test_threads_have_their_own_lines(sizes: Any) -> None:
    xs = [torch.zeros(sizes()).tpu() for _ in range(4)]

    @anew
    def work(x: torch.Tensor) -> None:
        x.erf()

    with torch_tpu.explain() as e:
        threads = [threading.Thread(target=work, args=(x,)) for x in xs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    erfs = [p for p in e.programs if p.name == "aten::erf"]
    assert len(erfs) == 4 and len({p.thread for p in erfs}) == 4 and {p.line for p in erfs} == {line(work, 2)}
    assert sorted(p.kind for p in erfs) == ["dimensions"] * 3 + ["first"]


# --- storms ---


def caught_storms(work: Callable[[], object]) -> tuple[list[str], torch_tpu.explain]:
    with warnings.catch_warnings(record=True) as caught, torch_tpu.explain() as e:
        warnings.simplefilter("always")
        work()
    return [f"{w.filename}:{w.lineno}" for w in caught if w.category is torch_tpu.CompileStormWarning], e


def test_a_storm_warns_once_at_its_line(sizes: Any) -> None:
    x = torch.zeros(50, sizes()).tpu()

    @anew
    def work() -> None:
        for n in range(1, 36):
            x[:n].exp()

    told, e = caught_storms(work)
    (storm,) = e.storms
    assert told == [line(work, 3)] == [storm.line]
    assert storm.versions == 35 and storm.seconds > 0 and storm.reason.endswith("went from 34 to 35")
    assert "a new i compiles nothing" in storm.advice and str(storm.versions) in str(storm)
    assert f"to avoid it: {storm.advice}" in str(e)


def test_storms_are_looked_at_only_when_one_begins(sizes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Describing all of them takes longer the more there are, and with TORCH_TPU_EXPLAIN=1 each compile is told."""
    x = torch.zeros(50, sizes()).tpu()
    looked, told, storms = [], [], live.explaining.storms
    monkeypatch.setattr(live.explaining, "storms", lambda: looked.append(1) or storms())
    monkeypatch.setattr(live, "_write", told.append)
    monkeypatch.setattr(live, "_told", _C.explain_count())
    monkeypatch.setattr(live, "_each", True)

    @anew
    def work() -> None:
        for n in range(1, 45):
            x[:n].exp()

    _C.explain_listen(live._tell, True)
    try:
        lines, _ = caught_storms(work)
    finally:
        _C.explain_listen(live._tell, False)
    assert lines == [line(work, 3)] and len(looked) == 1
    assert sum("aten::exp" in text for text in told) == 44


def test_a_fused_program_is_a_storm_sooner(sizes: Any) -> None:
    torch_tpu.eager_mode("defer")
    weight = torch.zeros(sizes(), 3).tpu()
    inputs = [torch.zeros(n, 3).tpu() for n in range(2, 13)]
    torch.tpu.synchronize()

    @anew
    def work() -> None:
        for x in inputs:
            y = x @ weight.mT
            for _ in range(16):
                y = y.sin()
            y.sum().item()

    told, e = caught_storms(work)
    (storm,) = e.storms
    assert told == [line(work, 3)] == [storm.line]
    assert storm.versions == 11 and "`self`.shape[0] of aten::mm went from 11 to 12" in storm.reason


def test_what_the_advice_says_is_so(sizes: Any) -> None:
    """A new position compiles nothing; one of a few sizes does not either."""
    x, row = torch.zeros(40, sizes()).tpu(), torch.ones(()).tpu()

    @anew
    def work() -> None:
        for i in range(40):
            x[i] = row
            _ = x[i] * 2
            torch.nn.functional.pad(x[0], (0, 8))

    assert len(run(work)) <= 6
    assert run(work) == []


def test_layers_of_many_sizes_are_no_storm(sizes: Any) -> None:
    layers = [torch.nn.Linear(k, k + 1, device="tpu") for k in range(3, 20)]
    batch = sizes() % 50 + 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch_tpu.CompileStormWarning)
        with torch_tpu.explain() as e:
            for layer in layers:
                layer(torch.zeros(batch, layer.in_features, device="tpu"))
    assert e.storms == []


STORM = """
    import sys, warnings, torch, torch_tpu
    x = torch.zeros(50).tpu()
    for n in range(1, 40):
        y = x[:n] * 2
    print("on")
"""


def test_a_storm_is_told_by_default_and_raises_nothing(python: Any) -> None:
    assert python(STORM).err.count("CompileStormWarning") == 1
    strict = python(STORM, PYTHONWARNINGS="error")
    assert strict.out == "on\n" and strict.err.count("CompileStormWarning") == 1


def test_each_compile_is_told_as_it_happens(python: Any) -> None:
    code = """
        import os, sys, torch, torch_tpu
        x = torch.zeros(5).tpu()
        x.exp()
        print("after exp", file=sys.stderr, flush=True)
        def sin(n): return torch.zeros(n).tpu().sin()
        sin(3)
        sin(4)
        if os.fork() == 0: sys.exit()
        os.wait()
    """
    told = python(code, TORCH_TPU_EXPLAIN="1").err
    assert told.index("compiled aten::exp at <string>:4 in ") < told.index("after exp") < told.index("aten::sin")
    assert "    why: `self`.shape[0] of aten::sin went from 3 to 4\n" in told
    assert told.count("torch_tpu: 3 programs compiled in ") == 1 and "3 launches" in told  # not in the forked child
    assert python(code).err.splitlines()[-1] == "after exp"


def test_a_forked_child_may_ask(python: Any) -> None:
    code = """
        import os, torch, torch_tpu
        x = torch.zeros(5).tpu().exp()
        if os.fork() == 0:
            print(len(torch_tpu.explain().programs), flush=True)
            os._exit(0)
        os.wait()
    """
    assert python(code).out == "1\n"


def test_other_options_are_found_in_the_cache(python: Any, tmp_path: Any) -> None:
    code = """
        import torch, torch_tpu
        x = torch.zeros(5).tpu().exp()
        for p in torch_tpu.explain().programs: print(p.source, p.kind, p.reason, p.advice)
    """
    cache = {"TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    assert python(code, **cache).out == "compiled first first time at this line \n"
    level = python(code, TORCH_TPU_OPT_LEVEL="1", **cache).out
    assert level.startswith("compiled options ") and "made by a process that differs in: compile options " in level
    flags = python(code, XLA_FLAGS="--xla_cpu_enable_fast_math=true", **cache).out
    assert "differs in: XLA_FLAGS " in flags and "start the processes that share a cache alike" in flags


def test_what_was_dropped_is_made_again(python: Any) -> None:
    code = """
        import torch, torch_tpu
        x = torch.zeros(5).tpu()
        for _ in range(12):
            x.exp(), x.sin(), x.cos()
        e = torch_tpu.explain()
        p = e.programs[-1]
        print(p.kind, p.name, p.line, len({q.program for q in e.programs}), p.advice)
        print([s.line for s in e.storms])
    """
    got = python(code, TORCH_TPU_PROGRAM_BYTES="1")
    kind, op, line, programs, advice = got.out.split("\n")[0].split(" ", 4)
    assert (kind, op, line, programs) == (
        "dropped",
        "aten::cos",
        "<string>:5",
        "3",
    ) and "TORCH_TPU_PROGRAM_BYTES" in advice
    assert "'<string>:5'" in got.out and got.err.count("CompileStormWarning") == 1
