"""What the sweep says about an operator in a dtype."""

from dataclasses import asdict, dataclass, field
from typing import Any

# From best to worst: a pair is what the worst of its samples is.
CLASSES = ("native", "decomposed", "fallback", "wrong", "error", "hang", "crash")
GOOD = ("native", "decomposed")


def worst(classes: list[str]) -> str:
    """The worst of some classes; of none, the best there is."""
    return max(classes, key=CLASSES.index, default=CLASSES[0])


@dataclass
class Stage:
    """One way to call it: forward, in place, with ``out=``, backward, ..."""

    outcome: str = "native"
    reason: str = ""  # the first failure of that class
    sample: str = ""  # the arguments it happened with
    runs: int = 0
    failures: int = 0

    def add(self, outcome: str, reason: str, sample: str) -> None:
        self.runs += 1
        self.failures += outcome not in GOOD
        if CLASSES.index(outcome) > CLASSES.index(self.outcome):
            self.outcome, self.reason, self.sample = outcome, reason, sample


@dataclass
class ErrorCases:
    """Calls that PyTorch refuses: how many the device refuses with the same exception, and in the same words."""

    cases: int = 0
    same_type: int = 0
    same_words: int = 0
    examples: list[str] = field(default_factory=list)  # where the two part


@dataclass
class Verdict:
    """All that was found about one operator in one dtype."""

    op: str
    dtype: str
    taken: int = 0  # samples run, of so many
    of: int = 0
    seconds: float = 0.0
    stages: dict[str, Stage] = field(default_factory=dict)
    errors: ErrorCases | None = None
    ended: str = ""  # "crash", "hang" or "error", where the examination did not come to its end
    reason_ended: str = ""

    @property
    def outcome(self) -> str:
        """The class of the pair."""
        return self.ended or worst([s.outcome for s in self.stages.values()])

    @property
    def forward(self) -> str:
        """The class without the gradients."""
        return self.ended or worst([s.outcome for name, s in self.stages.items() if name != "gradient"])

    @property
    def reason(self) -> str:
        """Why it is no better, in a line; empty where it is native."""
        if self.ended:
            return self.reason_ended
        for name, stage in self.stages.items():
            if stage.outcome == self.outcome:
                return stage.reason and (stage.reason if name == "forward" else f"{name}: {stage.reason}")
        return ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(record: dict[str, Any]) -> "Verdict":
        stages = {name: Stage(**stage) for name, stage in record["stages"].items()}
        errors = ErrorCases(**record["errors"]) if record["errors"] else None
        return Verdict(**{**record, "stages": stages, "errors": errors})
