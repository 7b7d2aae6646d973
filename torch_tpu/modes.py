"""How the calling thread runs eager PyTorch: when work is launched, and whether tensors that grow are padded."""

from types import TracebackType

from torch_tpu import _C

NAMES = ("strict", "debug", "defer")
LEVELS = ("off", "auto", "all")


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


class dynamism:
    """Sets whether tensors that grow in a loop get padding, so that one program serves many sizes; as a context
    manager, for a while. Of the calling thread; ``TORCH_TPU_DYNAMISM`` is what threads start with.

    ``"off"``: never. ``"auto"``, the default: where the result has the same bits as without. ``"all"``: also where
    floats are summed in another order than without (softmax, products, sums), so that last digits may differ.
    """

    def __init__(self, level: str) -> None:
        if level not in LEVELS:
            raise ValueError(f"dynamism() takes one of {', '.join(map(repr, LEVELS))}, got {level!r}")
        self.previous = current_dynamism()
        self.level = level
        _C.set_dynamism(LEVELS.index(level))

    def __enter__(self) -> "dynamism":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_dynamism(LEVELS.index(self.previous))

    def __repr__(self) -> str:
        return f"dynamism({self.level!r})"


def current_dynamism() -> str:
    """Name of the calling thread's level."""
    return LEVELS[_C.dynamism()]
