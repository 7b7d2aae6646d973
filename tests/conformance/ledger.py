"""The ledger: the pairs that are known not to be native, each with its class and why. It is strict both ways."""

import json
from pathlib import Path

from .verdict import GOOD, Verdict

PATH = Path(__file__).parent / "ledger.json"

Ledger = dict[str, dict[str, list[str]]]  # dtype -> operator -> [class, reason]


def load(path: Path = PATH) -> Ledger:
    return json.loads(path.read_text()) if path.exists() else {}


def save(ledger: Ledger, path: Path = PATH) -> None:
    """One line an entry, so that a change shows as one."""
    blocks = []
    for dtype, entries in ledger.items():
        lines = [f"    {json.dumps(op)}: {json.dumps(entries[op])}" for op in sorted(entries)]
        blocks.append(f"  {json.dumps(dtype)}: {{\n" + ",\n".join(lines) + "\n  }" if lines else f'  "{dtype}": {{}}')
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def surprises(verdicts: list[Verdict], ledger: Ledger) -> list[str]:
    """Where results are not what the ledger expects, better or worse."""
    found = []
    for v in verdicts:
        entry = ledger.get(v.dtype, {}).get(v.op)
        if entry is None and v.outcome not in GOOD:
            found.append(f"{v.op} {v.dtype}: {v.outcome} ({v.reason}), but the ledger has no entry for it")
        elif entry is not None and v.outcome != entry[0]:
            found.append(f"{v.op} {v.dtype}: {v.outcome} ({v.reason or 'right'}), but the ledger says {entry[0]}")
    return found


def accepted(verdicts: list[Verdict], ledger: Ledger) -> Ledger:
    """The ledger with these results as what is expected. A reason stands as long as the class does."""
    new = {dtype: dict(entries) for dtype, entries in ledger.items()}
    for v in verdicts:
        entries = new.setdefault(v.dtype, {})
        old = entries.pop(v.op, None)
        if v.outcome not in GOOD:
            entries[v.op] = old if old is not None and old[0] == v.outcome else [v.outcome, v.reason[:160]]
    return new
