"""What a TPU's compiler says of a program."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    chip: str  # "v6e"
    name: str  # of the item: a row of the op table, or a model's program
    dtype: str
    seconds: float
    error: str = ""  # why it is refused
    crashed: bool = False  # the compiler did not survive it

    @property
    def key(self) -> str:
        return f"{self.name} {self.dtype}"

    @property
    def is_row(self) -> bool:
        return not self.name.startswith("model ")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def brief(error: str) -> str:
    """The reason in a line: the compiler adds where, in its own sources and in ours."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return (lines[0] if lines else "no reason")[:240]
