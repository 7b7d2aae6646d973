"""The three eager modes: when recorded work is cut and launched."""

from types import TracebackType

from torch_tpu import _C

NAMES = ("strict", "debug", "defer")


class eager_mode:
    """Sets how the calling thread runs eager PyTorch on device ``tpu``; as a context manager, for a while.

    ``"strict"`` launches each op at once, ``"debug"`` also waits for it and checks indices, ``"defer"`` records ops and
    launches them as fused programs when a result is needed. Work recorded so far is launched first.
    """

    def __init__(self, mode: str) -> None:
        if mode not in NAMES:
            raise ValueError(f"eager_mode() takes one of {', '.join(map(repr, NAMES))}, got {mode!r}")
        self.previous = NAMES[_C.mode()]
        self.mode = mode
        _C.set_mode(NAMES.index(mode))

    def __enter__(self) -> "eager_mode":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_mode(NAMES.index(self.previous))

    def __repr__(self) -> str:
        return f"eager_mode({self.mode!r})"


def current_mode() -> str:
    """Name of the calling thread's mode."""
    return NAMES[_C.mode()]
