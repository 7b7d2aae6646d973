"""When a result of the device is that of the CPU."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing import assert_close
from torch.testing._comparison import default_tolerances

from .arguments import leaves, mapped


@dataclass(frozen=True)
class Result:
    """A tensor that an operator returned: what it was, and its contents on the CPU."""

    value: torch.Tensor
    stride: tuple[int, ...]
    device: str


def taken(outputs: Any, *, contents: bool = True) -> Any:
    """``outputs`` with a Result for each tensor. Reads the device: errors of what ran there surface here."""

    def take(v: Any) -> Any:
        if not isinstance(v, torch.Tensor):
            return v
        plain = v.detach().resolve_conj().resolve_neg()
        value = plain.cpu() if contents else torch.empty(v.shape, dtype=v.dtype, device="meta")
        return Result(value.clone() if v.device.type == "cpu" else value, v.stride(), v.device.type)

    return mapped(outputs, take)


@dataclass(frozen=True)
class Tolerance:
    """``None``: that of ``torch.testing.assert_close`` for the dtype."""

    rtol: float | None = None
    atol: float | None = None

    @staticmethod
    def of(op: Any, dtype: torch.dtype) -> "Tolerance":
        """The widest that PyTorch's own tests allow the operator when they compare devices or overloads."""
        from torch.testing._internal.common_device_type import toleranceOverride

        infos = [
            info for info in op.decorators if getattr(info, "cls_name", None) in (None, "TestCommon", "TestModule")
        ]
        decorators = [d for info in infos for d in getattr(info, "decorators", [info])]
        overrides = [d.d[dtype] for d in decorators if isinstance(d, toleranceOverride) and dtype in d.d]
        if not overrides:
            return Tolerance()
        rtol, atol = default_tolerances(dtype)
        return Tolerance(max([rtol, *(o.rtol for o in overrides)]), max([atol, *(o.atol for o in overrides)]))


def off_device(got: Any) -> str | None:
    """Says so where a result is not on the device."""
    return (
        "device: a result is on the CPU"
        if any(isinstance(r, Result) and r.device == "cpu" for r in leaves(got))
        else None
    )


def difference(
    got: Any,
    want: Any,
    *,
    tolerance: Tolerance,
    contents: bool = True,
    strides: bool = True,
    exact: Callable[[], Any] = lambda: None,
) -> str | None:
    """What tells ``got`` from ``want`` first, as "kind: what"; ``None`` where they agree.

    Both are what ``taken`` returns. ``exact`` computes the same in a wider dtype: what misses ``want`` is right all the
    same if it is as near to that.
    """
    mine, theirs = leaves(got), leaves(want)
    if len(mine) != len(theirs):
        return f"structure: {len(mine)} results instead of {len(theirs)}"
    wide: list[Any] | None = None
    for i, (g, w) in enumerate(zip(mine, theirs, strict=True)):
        where = f" of result {i}" if len(mine) > 1 else ""
        if not (isinstance(g, Result) and isinstance(w, Result)):
            if (text := _plain_difference(g, w, contents)) is not None:
                return text + where
            continue
        if (text := _metadata_difference(g, w, strides)) is not None:
            return text + where
        if not contents or (text := _value_difference(g.value, w.value, tolerance)) is None:
            continue
        wide = leaves(exact()) if wide is None else wide
        if len(wide) == len(mine) and isinstance(wide[i], Result) and wide[i].value.dtype != w.value.dtype:
            if as_near(g.value, w.value, wide[i].value):
                continue
        return text + where
    return None


def _plain_difference(got: Any, want: Any, contents: bool) -> str | None:
    if isinstance(got, Result) or isinstance(want, Result) or type(got) is not type(want):
        return f"structure: {_kind(got)} instead of {_kind(want)}"
    if isinstance(got, torch.device) or not contents:
        return None
    if isinstance(got, (int, float, complex)):
        return _value_difference(torch.tensor(got), torch.tensor(want), Tolerance())
    return None if got == want else f"values: {got!r} instead of {want!r}"


def _kind(v: Any) -> str:
    return "a tensor" if isinstance(v, Result) else type(v).__name__


def _metadata_difference(got: Result, want: Result, strides: bool) -> str | None:
    if got.value.shape != want.value.shape:
        return f"shape: {list(got.value.shape)} instead of {list(want.value.shape)}"
    if got.value.dtype != want.value.dtype:
        return f"dtype: {got.value.dtype} instead of {want.value.dtype}"
    counted = [i for i, size in enumerate(want.value.shape) if size > 1] if want.value.numel() else []
    if strides and any(got.stride[i] != want.stride[i] for i in counted):
        return f"stride: {list(got.stride)} instead of {list(want.stride)} at shape {list(want.value.shape)}"
    return None


def _value_difference(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> str | None:
    if got.layout is not torch.strided:
        got, want = got.to_dense(), want.to_dense()
    try:
        assert_close(got, want, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)
    except AssertionError as error:
        return f"values: {_brief(str(error))}"
    return None


def _brief(text: str) -> str:
    """A complaint of assert_close in one line."""
    lines = [
        line.strip(" .") for line in text.splitlines() if line.strip() and not re.search("are not (close|equal)", line)
    ]
    text = re.sub(r" at index \([^)]*\)|(?<=\()up to | allowed(?=\))", "", "; ".join(lines))
    for theirs, ours in (("Greatest ", ""), (" difference:", ""), ("Mismatched elements:", "differ in")):
        text = text.replace(theirs, ours)
    return re.sub(r"\d+\.\d{4,}(e[-+]?\d+)?", lambda number: f"{float(number[0]):.3g}", text)


def as_near(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether ``got`` misses ``exact`` by no more than four times what ``want`` does, or is right where that overflows.

    The largest of a few roundings is luck: between two orders of summation, and between the CPU kernels of two
    machines, factors up to three were seen where both are right.
    """
    if exact.shape != want.shape:
        return False
    g, w, e, rounded = (t.to(torch.complex128) for t in (got, want, exact, exact.to(want.dtype)))
    finite = g.isfinite() & w.isfinite() & e.isfinite()
    same = (g == w) | (g == rounded) | (g.isnan() & (w.isnan() | e.isnan()))
    rtol, atol = default_tolerances(want.dtype)
    rescued = ~w.isfinite() & e.isfinite() & torch.isclose(g, e, rtol=rtol, atol=atol)
    if not bool((same | finite | rescued).all()):
        return False
    if not bool(finite.any()):
        return True
    return bool((g - e)[finite].abs().max() <= 4 * (w - e)[finite].abs().max())
