"""Making, running and shrinking programs. A program is a list of lines over ``torch`` and ``device``."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import templates
from .templates import Draw

SHAPES = ((4,), (2, 3), (3, 4), (2, 2, 3), ())  # few, so that compiles are shared
DTYPES = ("float32", "float32", "float64", "int64", "int32", "bool", "uint8")
LARGEST = 400  # elements


@dataclass
class Program:
    lines: list[str]
    exact: bool  # results are compared bit for bit
    gradients: bool = False

    def script(self, device: str = "tpu") -> str:
        body = "\n".join(self.lines)
        show = 'print({name: v for name, v in globals().items() if name[0] == "v"})'
        return f'import torch\n\ndevice = "{device}"\n{body}\n{show}\n'


def start(d: Draw, dtype: str, gradients: bool) -> str:
    shape = d.random.choice(SHAPES)
    values = [d.integer(-3, 3) for _ in range(max(1, torch.Size(shape).numel()))]
    text = str(values) if shape else str(values[0])
    # A clone, for it to be a view on no device.
    made = f"torch.tensor({text}, dtype=torch.int64).to(torch.{dtype}).reshape({shape}).to(device).clone()"
    return f"{d.name()} = {made}" + (".requires_grad_()" if gradients else "")


def shares(t: Tensor) -> bool:
    """Whether two elements are one place in memory."""
    if t.numel() < 2:
        return False
    places = torch.arange(t.untyped_storage().nbytes() // t.element_size() + 1)
    return len(places.as_strided(t.shape, t.stride(), t.storage_offset()).unique()) < t.numel()


def undefined(line: str, tensors: dict[str, Tensor]) -> bool:
    """Whether the line writes memory twice, or reads it in another order: what results is then no one's promise."""
    listed = re.search(r"_foreach_\w+_\(\[(.*?)\]", line)
    written = re.match(r"(v\d+)(\[.*\] = |\.\w+_\()", line) or re.search(r"out=(v\d+)", line)
    if listed is None and written is None:
        return False
    targets = re.findall(r"v\d+", listed[1]) if listed else [written[1]] if written else []
    if ".fill_(" not in line and any(shares(tensors[name]) for name in targets if name in tensors):
        return True
    named = [tensors[name] for name in re.findall(r"v\d+", line) if name in tensors]
    subset = bool(re.match(r"v\d+\[.*\] = v\d+$", line))

    def clash(a: Tensor, b: Tensor) -> bool:
        if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
            return False
        same = (a.shape, a.stride(), a.storage_offset()) == (b.shape, b.stride(), b.storage_offset())
        return subset or not same

    return any(clash(a, b) for i, a in enumerate(named) for b in named[i + 1 :])


def finite(names: dict[str, Any]) -> bool:
    """A conversion of NaN or infinity to an integer is undefined, so no program has any."""
    return all(t.isfinite().all() for t in names.values() if isinstance(t, Tensor))


def execute(line: str, names: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(line, names)


def generate(seed: int) -> Program:
    d = Draw(seed)
    exact, gradients = seed % 2 == 0, seed % 5 == 1
    kinds = [*templates.VIEWS, *templates.WRITES, *templates.EXACT, *([] if exact else templates.ROUNDED)]
    names: dict[str, Any] = {"torch": torch, "device": "cpu"}
    lines: list[str] = []

    def take(line: str | None) -> None:
        if line is None or undefined(line, d.tensors):
            return
        try:
            execute(line, names)
            taken = finite(names)
        except Exception:  # PyTorch refuses it
            taken = False
        if taken:
            lines.append(line)
        else:  # it may have done a part
            names.clear()
            names.update(torch=torch, device="cpu")
            for old in lines:
                execute(old, names)
        d.tensors = {k: v for k, v in names.items() if isinstance(v, Tensor) and v.numel() <= LARGEST}

    for _ in range(d.integer(1, 3)):
        take(start(d, "float64" if gradients else d.among(*DTYPES), gradients))
    for _ in range(d.integer(5, 60)):
        name = d.variable()
        if name is not None:
            take(d.random.choice(kinds)(d, name, d.tensors[name]))
    if gradients:
        take("sum(t.double().sum() for n, t in list(locals().items()) if n[0] == 'v' and t.requires_grad).backward()")
    return Program(lines, exact, gradients)


def strides(t: Tensor) -> tuple[int, ...]:
    """Those that address anything."""
    return tuple(stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1 and t.numel() > 0)


def has_gradient(t: Tensor) -> bool:
    try:
        return t.is_leaf and t.grad is not None
    except (
        RuntimeError
    ):  # PyTorch refuses to say of a view made without gradients whose base was then written with them
        return False


def run(lines: list[str], device: str) -> dict[str, Any]:
    """The tensors at the end, on the CPU, with their geometry; or the exception that ended the program."""
    names: dict[str, Any] = {"torch": torch, "device": device}
    torch.manual_seed(0)
    for i, line in enumerate(lines):
        try:
            execute(line, names)
        except Exception as error:
            return {"error": f"line {i}: {type(error).__name__}: {error}"}
    found: dict[str, Any] = {}
    for name, t in names.items():
        if isinstance(t, Tensor):
            grad = t.is_floating_point() and t.requires_grad  # of integers it says how a copy was made
            offset = t.storage_offset() if t.numel() else 0
            found[name] = (t.detach().cpu(), tuple(t.shape), strides(t), offset, grad)
            if has_gradient(t):
                found[f"{name}.grad"] = (t.grad.cpu(), tuple(t.grad.shape), (), 0, False)
    return found


def difference(got: dict[str, Any], want: dict[str, Any], exact: bool) -> str | None:
    if "error" in got or "error" in want:
        return None if got == want else f"{got.get('error', 'no error')} instead of {want.get('error', 'none')}"
    for name, (value, *geometry) in want.items():
        mine, *other = got[name]
        if other != geometry or mine.dtype != value.dtype:
            return f"{name}: {mine.dtype} {other} instead of {value.dtype} {geometry}"
        try:
            rough = not exact and value.dtype.is_floating_point
            how = {"rtol": 1e-4, "atol": 1e-4} if rough else {"rtol": 0, "atol": 0}
            torch.testing.assert_close(mine, value, equal_nan=True, **how)
        except AssertionError as error:
            return f"{name}: {error}"
    return None


def shrink(program: Program, fails: Callable[[list[str]], bool]) -> Program:
    """Drops lines for as long as the rest still fails."""
    lines, size = list(program.lines), max(1, len(program.lines) // 2)
    while size:
        before, at = len(lines), 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fewer and fails(fewer):
                lines = fewer
            else:
                at += size
        if size > 1 or len(lines) == before:  # what one line needed may have gone after it
            size //= 2
    return Program(lines, program.exact, program.gradients)
