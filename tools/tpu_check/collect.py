"""One program for each row of the op table, and those of the test models, as a TPU would be given them."""

import contextlib
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import torch  # noqa: E402
from conformance import selection  # noqa: E402
from conformance.arguments import Arguments  # noqa: E402
from conformance.examine import cotangent, evenly  # noqa: E402

from torch_tpu import _C  # noqa: E402
from torch_tpu.aot import capture  # noqa: E402

from . import direct  # noqa: E402

DTYPES = {"float32": "f32", "bfloat16": "bf16", "int64": "i64"}  # the last for rows that no float reaches
SAMPLES = 4  # of an operator


@dataclass(frozen=True)
class Item:
    """A program to be compiled, and what it stands for."""

    name: str  # a row, or a model and the number of a program
    dtype: str
    text: str

    @property
    def key(self) -> str:
        return f"{self.name} {self.dtype}"

    def share(self, count: int) -> bool:
        """Whether it is in the one part of ``count`` that its name alone chooses."""
        return int(hashlib.sha256(self.key.encode()).hexdigest(), 16) % count == 0

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def models() -> list[Item]:
    """Three training steps of each of tests/test_models.py's models, in DeferAndFuse, in each dtype of floats."""
    return [item for dtype in ("float32", "bfloat16") for item in _models(dtype)]


def _models(dtype: str) -> list[Item]:
    from test_models import MODELS
    from torch.nn import functional as F

    items = []
    for name, (make, data, labels, classes) in MODELS.items():
        torch.manual_seed(0)
        model, x, y = make().to("tpu", selection.DTYPES[dtype]), data(), torch.randint(0, classes, labels).to("tpu")
        x = x.to("tpu", selection.DTYPES[dtype] if x.is_floating_point() else x.dtype)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with capture() as programs:
            for _ in range(3):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
                loss.backward()
                optimizer.step()
                loss.item()
        items += [Item(f"model {name}, program {i}", dtype, p.text) for i, p in enumerate(programs)]
    return items


def _calls(op: Any, dtype: torch.dtype) -> Iterator[Callable[[], Any]]:
    """Ways to call an operator of PyTorch's database on the device: some samples, each with its gradient.

    A call returns what it made: what nobody holds would not be computed.
    """
    gradients = dtype in op.supported_backward_dtypes("cpu")
    for sample in evenly(list(op.sample_inputs("cpu", dtype, requires_grad=gradients)), SAMPLES):
        arguments = Arguments.of(sample, selection.ON_HOST.get(op.formatted_name, ()))

        def run(sample: Any = sample, arguments: Arguments = arguments) -> Any:
            a = arguments.on("tpu")
            with contextlib.nullcontext() if a.tensors() else torch.device("tpu"):
                outputs = sample.output_process_fn_grad(op.op(*a.args, **a.kwargs))
            outs = [t for t in torch.utils._pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor)]
            outs = [t for t in outs if t.requires_grad]
            if outs and a.wanting_gradients():
                seeds = [cotangent(t).to("tpu") for t in outs]
                return outputs, torch.autograd.grad(outs, a.wanting_gradients(), seeds, allow_unused=True)
            return outputs, a  # what it wrote too

        yield run


Call = tuple[str, str]  # an operator's row, and a program that does it alone


def calls(dtype: str, pattern: str = "", progress: Callable[[Iterable[Any]], Iterable[Any]] = iter) -> list[Call]:
    """What PyTorch's database of operators calls in one dtype. Computed only where an operator reads a number."""
    warnings.simplefilter("ignore")
    wanted = selection.DTYPES[dtype]
    entries = selection.entries("op")
    torch.manual_seed(0)
    found: dict[Call, None] = {}
    for name, _ in progress(selection.pairs(pattern, [dtype])):
        found |= dict.fromkeys(_recorded(_calls(entries[name], wanted)))
    if not pattern:
        found |= dict.fromkeys(_recorded(direct.calls(wanted)))
    return list(found)


def _recorded(ways: Iterator[Callable[[], Any]]) -> list[Call]:
    again, found, kept = [], [], None
    for call in _until_refused(ways):
        try:
            with capture(dry=True):
                kept = call()
        except RuntimeError as error:
            if "dry run" in str(error):
                again.append(call)
        except Exception:  # conformance is another tool's question
            pass
        found += _C.collected_calls()
    for call in again:
        with contextlib.suppress(Exception), capture():
            kept = call()
        found += _C.collected_calls()
    del kept
    return found


def _until_refused(ways: Iterator[Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
    """Samples, up to one of a dtype that PyTorch itself refuses."""
    while True:
        try:
            call = next(ways)
        except Exception:  # also where there are no more
            return
        yield call


def rows(found: list[Call], dtype: str) -> dict[str, str]:
    """A program of each row: of those that handle the dtype, and something at all, the one of middle length."""
    element = DTYPES[dtype]
    by_row: dict[str, list[tuple[bool, bool, int, str]]] = {}
    for op, text in found:
        foreign = re.search(rf"[x<]{element}>", text) is None
        empty = re.search(r"[x<]0x", text) is not None
        by_row.setdefault(op, []).append((foreign, empty, len(text), text))
    chosen = {}
    for op in sorted(by_row.keys() & set(_C.op_names())):
        foreign, empty = min(by_row[op])[:2]
        best = sorted(p for p in by_row[op] if p[:2] == (foreign, empty))
        if not foreign or dtype != "bfloat16":  # a row that handles no floats stands once
            chosen[op] = best[len(best) // 2][3]
    return chosen


def op_table(progress: Callable[[Iterable[Any]], Iterable[Any]] = iter, pattern: str = "") -> list[Item]:
    items: list[Item] = []
    for dtype in DTYPES:
        known = {item.name for item in items} if dtype == "int64" else set()
        found = rows(calls(dtype, pattern, progress), dtype)
        items += [Item(op, dtype, text) for op, text in found.items() if op not in known]
    return items


def without_program(items: list[Item]) -> list[str]:
    """Rows of PyTorch's operators (not collectives, "tpu_dist::...") that no sample called."""
    return sorted({name for name in _C.op_names() if "::" not in name} - {item.name for item in items})
