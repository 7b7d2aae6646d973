"""The arguments of a call, and how they come to stand on one device or the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

WIDE = {torch.complex64: torch.complex128} | dict.fromkeys(
    (torch.float32, torch.float16, torch.bfloat16), torch.float64
)


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """``value`` with each leaf of its lists, tuples, dicts and slices replaced."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [mapped(v, leaf) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: mapped(v, leaf) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(mapped(value.start, leaf), mapped(value.stop, leaf), mapped(value.step, leaf))
    return leaf(value)


def leaves(value: Any) -> list[Any]:
    """All leaves of nested lists, tuples and dicts."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def placed(t: torch.Tensor, device: str) -> torch.Tensor:
    """A copy on ``device`` with the same strides, overlapping ones too, and the same requires_grad."""
    with torch.no_grad():
        source = t.detach().resolve_conj().resolve_neg()
        if source.layout is not torch.strided or source.is_contiguous():
            copy = source.clone().to(device)
        elif torch.ops.aten.is_non_overlapping_and_dense(source):
            copy = source.clone(memory_format=torch.preserve_format).to(device)
        else:
            steps = zip(source.shape, source.stride(), strict=True)
            extent = 1 + sum((size - 1) * stride for size, stride in steps) if source.numel() else 0
            memory = source.as_strided((extent,), (1,), source.storage_offset()).clone().to(device)
            copy = memory.as_strided(source.shape, source.stride())
    return copy.requires_grad_(t.requires_grad)


@dataclass(frozen=True)
class Arguments:
    """Positional and named arguments, on the CPU; each run takes a copy."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    on_host: tuple[int, ...] = ()  # positions of those that are on the CPU whatever the device

    @staticmethod
    def of(sample: Any, on_host: tuple[int, ...] = ()) -> "Arguments":
        """Those of a SampleInput."""
        return Arguments((sample.input, *sample.args), dict(sample.kwargs), on_host)

    def _map(self, leaf: Callable[[Any], Any]) -> "Arguments":
        args = tuple(a if i in self.on_host else mapped(a, leaf) for i, a in enumerate(self.args))
        return Arguments(args, mapped(self.kwargs, leaf), self.on_host)

    def on(self, device: str) -> "Arguments":
        """A copy whose tensors stand on ``device``; where an argument names the CPU, it names the device."""

        def move(v: Any) -> Any:
            if isinstance(v, torch.Tensor):
                return placed(v, device)
            return type(v)(device) if isinstance(v, (str, torch.device)) and str(v) == "cpu" else v

        return self._map(move)

    def widened(self, integers: bool = False) -> "Arguments":
        """With float64 for narrower floats, and complex128 for complex64, in tensors and as an argument.

        ``integers``: uint8 tensors become float64 too.
        """
        wide = {**WIDE, torch.uint8: torch.float64} if integers else WIDE

        def widen(v: Any) -> Any:
            if isinstance(v, torch.Tensor):
                return v.detach().to(wide.get(v.dtype, v.dtype)).requires_grad_(v.requires_grad)
            return WIDE.get(v, v) if isinstance(v, torch.dtype) else v

        return self._map(widen)

    def tensors(self) -> list[torch.Tensor]:
        return [t for t in leaves((self.args, self.kwargs)) if isinstance(t, torch.Tensor)]

    def wanting_gradients(self) -> list[torch.Tensor]:
        return [t for t in self.tensors() if t.requires_grad]

    def __str__(self) -> str:
        def text(v: Any) -> str:
            if isinstance(v, torch.Tensor):
                strides = "" if v.is_contiguous() else f" strides {list(v.stride())}"
                return f"{str(v.dtype)[6:]}{list(v.shape)}{strides}"
            return f"{v}" if isinstance(v, torch.dtype) else repr(v)

        shown = [str(mapped(a, text)) for a in self.args]
        named = [f"{k}={mapped(v, text)}" for k, v in self.kwargs.items()]
        return ", ".join(shown + named).replace("'", "")[:300]
