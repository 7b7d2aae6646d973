"""The conformance sweep: a small part of it, and the sweep itself."""

import math
from typing import Any

import pytest
import torch
from conformance import latitude, ledger, page, pool, randomness, selection
from conformance.arguments import Arguments
from conformance.comparison import Tolerance, as_near, difference, taken
from conformance.examine import evenly
from conformance.verdict import Stage, Verdict
from conformance.worker import FAULT

PART = "7/55"  # about a dozen operators, whatever they are

pytestmark = pytest.mark.timeout(600)


def test_a_part_is_as_the_ledger_says() -> None:
    pairs = selection.pairs(dtypes=["float32"], part=PART)
    verdicts = list(pool.sweep(pairs, workers=1, samples=8, mode="strict", timeout=120))
    assert len(verdicts) == len(pairs) and 8 <= len(pairs) <= 20
    assert ledger.surprises(verdicts, ledger.load()) == []


def test_a_part_of_the_other_databases_is_as_the_ledger_says() -> None:
    bases = [base for base in selection.DATABASES if base != "op"]
    pairs = selection.pairs(dtypes=["float32"], part="4/14", databases=bases)
    verdicts = list(pool.sweep(pairs, workers=1, samples=4, mode="defer", timeout=120))
    assert {selection.database_of(v.op) for v in verdicts} == set(bases)
    assert ledger.surprises(verdicts, ledger.load()) == []


def test_faults_are_seen_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "cos=wrong,neg=crash,sin=hang")
    pairs = [(op, "float32") for op in ("abs", "cos", "neg", "sign", "sin", "sqrt")]
    verdicts = {v.op: v for v in pool.sweep(pairs, workers=1, samples=2, mode="strict", timeout=12)}
    assert [verdicts[op].outcome for op, _ in pairs] == ["native", "wrong", "crash", "native", "hang", "native"]
    assert "values: differ in" in verdicts["cos"].reason
    assert "SIGABRT" in verdicts["neg"].reason and "sample 0, forward" in verdicts["neg"].reason
    assert "no answer in 12 s" in verdicts["sin"].reason


def test_parts_are_a_partition() -> None:
    parts = [selection.pairs(dtypes=["float32"], part=f"{i}/5") for i in range(1, 6)]
    whole = selection.pairs(dtypes=["float32"])
    assert sorted(pair for part in parts for pair in part) == whole and all(
        len(part) > len(whole) / 10 for part in parts
    )
    with pytest.raises(ValueError, match="I/N"):
        selection.pairs(part="0/5")


def test_samples_are_chosen_evenly() -> None:
    assert evenly([1, 2], 8) == [1, 2]
    assert evenly(list(range(100)), 4) == [0, 33, 66, 99]
    assert evenly([1, 2], 1) == [1]


def tell(got: Any, want: Any, **how: Any) -> str | None:
    return difference(taken(got), taken(want), tolerance=Tolerance(), **how)


def test_what_counts_as_a_difference() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert tell((x, 1), (x.clone(), 1)) is None
    assert "values" in (tell(x, x + 1e-3) or "")
    assert "shape" in (tell(x, x.reshape(3, 2)) or "")
    assert "dtype" in (tell(x, x.double()) or "")
    assert "stride" in (tell(x, x.t().contiguous().t()) or "")
    assert tell(x, x.t().contiguous().t(), strides=False) is None
    assert "structure" in (tell((x,), (x, x)) or "") and "structure" in (tell(x, 1.0) or "")
    assert "values" in (tell(3, 4) or "") and tell(math.nan, math.nan) is None
    assert tell(x[:1], x[:1].as_strided((1, 3), (99, 1))) is None  # the stride of a dimension of size 1 means nothing
    assert tell(x, x + 1, contents=False) is None


def test_a_narrow_result_may_be_as_near_as_that_of_the_cpu() -> None:
    exact = torch.tensor([1.0, 1000.0], dtype=torch.float64)
    cpu, near, far = (torch.tensor([1.0, v], dtype=torch.bfloat16) for v in (1016.0, 984.0, 904.0))
    assert as_near(near, cpu, exact) and not as_near(far, cpu, exact)
    assert tell(far, cpu, exact=lambda: taken(exact)) is not None
    overflowed = torch.tensor([1.0, torch.nan], dtype=torch.bfloat16)
    assert as_near(near, overflowed, exact) and not as_near(overflowed, cpu, exact)
    whole, coarse, exact = (
        torch.tensor([243, 7]).byte(),
        torch.tensor([239, 7]).byte(),
        torch.tensor([243.3, 7.0]).double(),
    )
    assert tell(whole, coarse, exact=lambda: taken(exact)) is None
    assert tell(coarse, whole, exact=lambda: taken(exact)) is not None and tell(whole, coarse) is not None


def test_equal_elements_may_change_places() -> None:
    arguments = Arguments((torch.tensor([[2, 1, 2, 1], [4, 3, 2, 1]]), 2), {})
    named = latitude.results("topk", arguments)
    assert named is not None

    def of(*index: list[int]) -> Any:
        at = torch.tensor(index)
        return taken(named((arguments.args[0].gather(1, at), at), arguments))

    one = of([0, 2], [0, 1])
    assert difference(of([2, 0], [0, 1]), one, tolerance=Tolerance()) is None
    for wrong in ([0, 0], [0, 1], [0, 3]):
        assert difference(of(wrong, [0, 1]), one, tolerance=Tolerance()) is not None
    assert latitude.results("sort", Arguments((arguments.args[0],), {"stable": True})) is None

    shared = latitude.gradients("msort", arguments)
    assert shared is not None
    x = Arguments((torch.tensor([5.0, 5.0, 1.0]),), {})
    one, same, other = (
        taken(shared((torch.tensor(g),), x)) for g in ([1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [3.0, 1.0, 2.0])
    )
    assert difference(same, one, tolerance=Tolerance()) is None
    assert difference(other, one, tolerance=Tolerance()) is not None


def test_distributions() -> None:
    def uniform() -> Any:
        return taken(torch.rand(20))

    assert randomness.distributions_differ(uniform, uniform) is None
    assert randomness.distributions_differ(lambda: taken(torch.rand(20) + 1), uniform) is not None


def test_the_ledger_is_strict() -> None:
    def verdict(outcome: str) -> Verdict:
        return Verdict("abs", "float32", stages={"forward": Stage(outcome, "why")})

    known = {"float32": {"abs": ["fallback", "a reason"]}}
    assert ledger.surprises([verdict("fallback")], known) == []
    assert len(ledger.surprises([verdict("native")], known)) == 1  # better
    assert len(ledger.surprises([verdict("wrong")], known)) == 1  # worse
    assert len(ledger.surprises([verdict("wrong")], {})) == 1
    assert ledger.surprises([verdict("decomposed")], {}) == []
    assert ledger.accepted([verdict("fallback")], known) == known
    assert ledger.accepted([verdict("native")], known) == {"float32": {}}
    assert ledger.accepted([verdict("wrong")], known) == {"float32": {"abs": ["wrong", "why"]}}


def test_the_page_counts() -> None:
    verdicts = [
        Verdict("abs", "float32", stages={"forward": Stage()}),
        Verdict("neg", "float32", stages={"forward": Stage(), "gradient": Stage("wrong", "a | b")}),
        Verdict("svd", "float32", ended="crash", reason_ended="SIGSEGV"),
    ]
    text = page.render(verdicts, mode="strict", samples=8)
    assert "| float32 | 2 | 100.0 % | 98 % | 50.0 % | 97 % | 1 | 0 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| neg | wrong | float32 | gradient: a \\| b |" in text and "| svd | crash | float32 | SIGSEGV |" in text
    assert Verdict.from_json(verdicts[1].to_json()) == verdicts[1]
