"""The op table under a TPU's compiler: a sample of it, and the tool itself."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from ledger import NEEDS_LIBTPU
from test_models import MODELS

from tools.tpu_check import collect, direct, ledger, page
from tools.tpu_check.__main__ import verdict
from tools.tpu_check.verdict import Verdict, brief
from torch_tpu.aot import Compiler, target

try:
    target.libtpu()
    INSTALLED = True
except RuntimeError:
    INSTALLED = False

# Operators of many families, whose programs are small.
SAMPLE = (
    r"^(add|cumsum|eq|gather|index_put|linalg_cholesky|nn_functional_(conv1d|gelu|layer_norm)|sort|sum|tril|where)$"
)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not INSTALLED, reason=NEEDS_LIBTPU)
def test_a_sample_compiles_as_the_ledger_says() -> None:
    items = [*collect.models(), *collect.op_table(pattern=SAMPLE)]
    rows = {(item.name, item.dtype) for item in items}
    assert {("add.Tensor", "float32"), ("add.Tensor", "bfloat16"), ("convolution_backward", "bfloat16")} <= rows
    of_models = {(item.name.partition(",")[0], item.dtype) for item in items if item.name.startswith("model ")}
    assert of_models == {(f"model {name}", dtype) for name in MODELS for dtype in ("float32", "bfloat16")}
    with Compiler("v6e") as compiler:
        verdicts = [verdict(compiler, "v6e", item) for item in items]
    assert ledger.surprises(verdicts, ledger.load()) == []


def test_each_row_stands_once_a_dtype() -> None:
    items = collect.op_table(pattern=r"^(add|bitwise_not|nonzero_static|softmax)$")
    keys = [item.key for item in items]
    assert len(keys) == len(set(keys)) and {"add.Tensor float32", "add.Tensor bfloat16"} <= set(keys)
    text = next(item.text for item in items if item.key == "add.Tensor bfloat16")
    assert "xbf16>" in text and "stablehlo.add" in text and text.count("func.func") == 1
    assert {item.name for item in items if item.share(1)} == {item.name for item in items}
    # A row that no sample of this pattern calls.
    assert "mm" in collect.without_program(items) and "add.Tensor" not in collect.without_program(items)


def test_the_ledger_is_strict() -> None:
    good, bad = Verdict("v6e", "mm", "float32", 0.1), Verdict("v6e", "mm", "float32", 0.0, "refused")
    known = {"v6e": {"mm float32": "a reason"}}
    assert ledger.surprises([bad], known) == [] == ledger.surprises([good], {})
    assert len(ledger.surprises([good], known)) == 1 and len(ledger.surprises([bad], {})) == 1
    assert ledger.accepted([bad], known) == known and ledger.accepted([good], known) == {}
    assert ledger.accepted([bad], {}) == {"v6e": {"mm float32": "refused"}}


def test_the_page_counts() -> None:
    verdicts = [
        Verdict("v6e", "mm", "float32", 0.1),
        Verdict("v6e", "sort", "float32", 0.0, "a | b"),
        Verdict("v5e", "sort", "float32", 0.0, "a | b", crashed=True),
        Verdict("v6e", "model mlp, program 0", "float32", 0.3),
    ]
    text = page.render(verdicts, ["gcd"], "a build")
    assert "| v6e | rows of the op table | float32 | 1 | 2 | 50.0 % | 1 | 0 | 0.10 s |" in text
    assert "| v6e | models | float32 | 1 | 1 | 100.0 % | 0 | 0 | 0.30 s |" in text
    assert "| sort | float32 | v5e, v6e | a \\| b |" in text and "`gcd`." in text
    assert brief("\n  why \n more") == "why"


def test_a_fault_of_a_lowering_is_not_passed_over() -> None:
    def refused() -> None:
        raise RuntimeError("this dtype is not for it")

    def call(n: int) -> torch.Tensor:
        return torch.ones(n, device="tpu").exp()

    ways = iter([partial(call, 3), refused, partial(call, 4)])
    assert [op for op, _ in collect._recorded(ways)].count("exp") == 2

    def ways_that_end() -> Iterator[Callable[[], Any]]:
        yield partial(call, 3)
        raise ValueError("no samples of this dtype")

    assert "exp" in [op for op, _ in collect._recorded(ways_that_end())]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_direct_calls_make_programs(dtype: str) -> None:
    made = {op for op, _ in collect._recorded(direct.calls(getattr(torch, dtype)))}
    ours = {"gcd", "bitwise_xor.Scalar_Tensor"} if dtype == "int64" else {"baddbmm.dtype", "_fused_rms_norm_backward"}
    assert ours <= made and "tril_indices" in made
