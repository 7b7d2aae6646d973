"""The ledger: the programs that a TPU's compiler is known to refuse, each with its reason. It is strict both ways."""

import json
from pathlib import Path

from .verdict import Verdict

PATH = Path(__file__).parent / "ledger.json"

Ledger = dict[str, dict[str, str]]  # chip -> program -> reason


def load(path: Path = PATH) -> Ledger:
    return json.loads(path.read_text()) if path.exists() else {}


def save(ledger: Ledger, path: Path = PATH) -> None:
    path.write_text(json.dumps(ledger, indent=1, sort_keys=True) + "\n")


def surprises(verdicts: list[Verdict], ledger: Ledger) -> list[str]:
    """Where results are not what the ledger expects, better or worse."""
    found = []
    for v in verdicts:
        known = ledger.get(v.chip, {}).get(v.key)
        if known is None and v.error:
            found.append(f"{v.key} on {v.chip}: {v.error}, but the ledger has no entry for it")
        elif known is not None and not v.error:
            found.append(f"{v.key} on {v.chip} compiles, but the ledger says: {known}")
    return found


def accepted(verdicts: list[Verdict], ledger: Ledger) -> Ledger:
    """The ledger with these results as what is expected. A reason that stands there stays."""
    new = {chip: dict(entries) for chip, entries in ledger.items()}
    for v in verdicts:
        entries = new.setdefault(v.chip, {})
        if not v.error:
            entries.pop(v.key, None)
        else:
            entries.setdefault(v.key, v.error)
    return {chip: entries for chip, entries in new.items() if entries}
