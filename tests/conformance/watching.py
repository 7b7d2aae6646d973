"""How the device came to a result: on the CPU, by a decomposition, or natively."""

import contextlib

import torch

from torch_tpu import _C


class Seen:
    """What was counted when it was made; what came since."""

    def __init__(self) -> None:
        self._stats, self._fallbacks = _C.compile_stats(), _C.fallback_counts()

    def _since(self, name: str) -> int:
        return _C.compile_stats()[name] - self._stats[name]

    def outcome(self) -> tuple[str, str]:
        """The class of a right result, with its reason."""
        if self._since("cpu_fallbacks"):
            now = _C.fallback_counts()
            names = sorted(name for name, count in now.items() if count > self._fallbacks.get(name, 0))
            return "fallback", f"on the CPU: {', '.join(names)}"
        return ("decomposed", "by PyTorch's decomposition") if self._since("decompositions") else ("native", "")


def settle() -> None:
    """After an error: takes those of launches that nobody waited for, so that the next call starts clean."""
    with contextlib.suppress(Exception):
        torch.tpu.synchronize()
