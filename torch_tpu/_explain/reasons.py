"""From what differs between two programs to a sentence, and to what would avoid the compile."""

import functools
import os
from dataclasses import dataclass
from typing import Any

import torch

PRODUCT = "torch.set_float32_matmul_precision()"

READ_AT_THE_SAME_PLACES = (
    "a program is what was recorded between two reads (.item(), print, .cpu()): read at the same places in each "
    "iteration, or rarely"
)
PAD = "sizes are part of a program: pad to one of a few sizes and mask, or DataLoader(drop_last=True)"
GROW = (
    "a length that grows makes a program of each length: allocate the largest at once, write x[i] = ... (a new i "
    "compiles nothing) and mask the rest, or grow in large steps"
)
CONVERT = "convert to one dtype before the loop"
STATIC = (
    "that argument is part of the program: give it few different values, or use an operator that takes it as a tensor"
)
MEMORY = (
    "raise TORCH_TPU_PROGRAM_BYTES or TORCH_TPU_PROGRAM_MAPPINGS; with a directory in TORCH_TPU_CACHE_DIR such a "
    "program is read instead of compiled"
)
PRECISION = f"call {PRODUCT} once, before the first product"
SAME_OPTIONS = "start the processes that share a cache alike"

# Two versions of an operator at one line may be two layers of a network, which nothing is to be done about.
MANY_VERSIONS, MANY_OPERATORS = 3, 16


@dataclass(frozen=True)
class Change:
    """One place in which a program differs from the one that is most like it."""

    kind: str  # "dimensions", "dtype", "attribute", ...
    op: str  # "aten::mul.Tensor"
    argument: str  # "self", "a result", ...
    dim: int | None
    before: Any
    now: Any
    line: str  # of Python, that called the operator

    def __str__(self) -> str:
        return self.seen_from("")

    def seen_from(self, line: str) -> str:
        """As a sentence, that does not repeat a line which the reader knows."""
        where = self.argument if self.argument.startswith("a ") else f"`{self.argument}`"
        if self.dim is not None:
            where += f".shape[{self.dim}]"
        at = f" of {self.op}" + (f" at {short(self.line)}" if self.line and self.line != line else "")
        return f"{where}{at} went from {value(self.before)} to {value(self.now)}"


def short(line: str) -> str:
    """A file below the current directory by its name from there."""
    here = os.getcwd() + os.sep
    return line[len(here) :] if line.startswith(here) else line


def value(v: Any) -> str:
    match v:
        case (str() as dtype, list() as dims):
            return f"{dtype}[{', '.join(map(str, dims))}]"
        case float():
            return f"{v:g}"
        case _:
            return str(v)


@functools.lru_cache(1024)
def _schema(op: str) -> Any:
    name, _, overload = qualified(op).partition(".")
    try:
        return torch._C._get_schema(name, overload)
    except RuntimeError:
        return None


OURS = {"view.read": "reading a view", "view.write": "writing a view", "view.undefined": "torch.empty"}


def qualified(op: str) -> str:
    return OURS.get(op, op if op.startswith(("view.", "storage.", "debug.")) or "::" in op or not op else f"aten::{op}")


def _argument(change: dict[str, Any]) -> str:
    """The name that PyTorch's schema has for what a change is at."""
    place, index = change["place"], change["index"]
    if place == "result":
        return "a result"
    schema = _schema(change["op"])
    arguments = [] if schema is None else schema.arguments
    if place == "attribute":
        return arguments[index].name if index < len(arguments) else f"a constant ({index})"
    # Each argument takes as many operands as the call has tensors in it; a number is an operand of its own.
    at = 0
    for argument, given in zip(arguments, change["attributes"], strict=False):
        kind = str(argument.type)
        if "List[" in kind and "Tensor" in kind:
            count = sum(given) if isinstance(given, list) else given or 0
            if at <= index < at + count:
                return f"{argument.name}[{index - at}]"
        elif "Tensor" in kind:
            count = int(given is not None)
        else:
            count = int("number" in kind.lower() and given is None)
        at += count
        if at > index:
            return str(argument.name)
    return f"a operand ({index})".replace("a o", "an o")


def changes_of(found: dict[str, Any]) -> tuple[Change, ...]:
    made = []
    for change in found["changes"]:
        if change["place"] == "node" or "op" not in change:
            continue
        dim = change["dim"] if change["dim"] >= 0 else None
        op = qualified(change["op"])
        made.append(Change(change["why"], op, _argument(change), dim, change["from"], change["to"], change["line"]))
    return tuple(made)


def line_of(found: dict[str, Any]) -> str:
    """What the reason is about, else its lines."""
    changed = next((c["line"] for c in found["changes"] if c["line"]), "")
    first, last = found["first_line"], found["last_line"]
    if changed or first == last:
        return changed or first
    file, _, number = last.rpartition(":")
    return f"{first}-{number}" if first.startswith(f"{file}:") else first


def reason(found: dict[str, Any]) -> str:
    """Why a program was new, as one sentence."""
    line = line_of(found)
    changes = changes_of(found)
    first = found["changes"][0] if found["changes"] else {}
    match found["why"]:
        case "first":
            return "first time at this line"
        case "dropped":
            return "it had been dropped from memory, where the programs in use do not all fit"
        case "results":
            return "the same operators, but other results of them are still held"
        case "donation":
            return "the same operators, but the memory of other arguments may be reused"
        case "precision":
            return f"the precision of float32 products went from {first['from']} to {first['to']} ({PRODUCT})"
        case "structure":
            return _structure(first, line)
    more = len(changes) - 3
    return "; ".join(c.seen_from(line) for c in changes[:3]) + (f"; and {more} more" if more > 0 else "")


def _structure(first: dict[str, Any], line: str) -> str:
    at = f" at {short(first['line'])}" if first["line"] not in ("", line) else ""
    before = qualified(first["from"] or "")
    if "op" not in first:
        return f"other operators: it ends where {before} came before"
    op, nth = qualified(first["op"]), first["node"] + 1
    if not before:
        return f"other operators: {op}{at} (number {nth}) comes in addition"
    if before == op:
        return f"other operators: {op}{at} (number {nth}) takes its operands from elsewhere"
    return f"other operators: {op}{at} (number {nth}) where {before} was"


def advice(found: dict[str, Any], *, storm: bool = False) -> str:
    """What would avoid the compile, or "" where there is nothing to mend."""
    often = found["versions"] >= MANY_VERSIONS or found["operators"] >= MANY_OPERATORS
    match found["why"]:
        case "dimensions" | "attribute" if not often:
            return ""
        case "dimensions":
            return GROW if storm and _grows(found) else PAD
        case "dtype":
            return CONVERT
        case "attribute":
            return STATIC
        case "precision":
            return PRECISION
        case "dropped":
            return MEMORY
        case "structure" | "results" if found["operators"] > 1:
            return READ_AT_THE_SAME_PLACES
        case _:
            return ""


def _grows(found: dict[str, Any]) -> bool:
    """By a little each time: 32 to 33."""
    return any(
        isinstance(c["from"], int) and isinstance(c["to"], int) and 0 < c["to"] - c["from"] <= 1 + c["from"] // 16
        for c in found["changes"]
    )
