"""The cache of compiled programs: what is in it, whether it is whole, and how to shrink it.

examples:
  python -m torch_tpu cache ls                       the entries, those used last first
  python -m torch_tpu cache stat --json              totals, for a script
  python -m torch_tpu cache verify                   read every entry; exit status 1 if one is damaged
  python -m torch_tpu cache prune --bytes 500M       remove what was not used for longest, down to 500 MB
  python -m torch_tpu cache prune --older-than 30d   remove what was not used for 30 days
  python -m torch_tpu cache prune --all              remove everything

Without DIR, the directory is that of the environment (TORCH_TPU_CACHE_DIR). Programs may use it meanwhile.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from torch_tpu import _C
from torch_tpu._cache_place import Entry, Place, open_place, to_remove

T = TypeVar("T")
SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", text.lower())
    if not found or found[2] not in SIZES:
        raise argparse.ArgumentTypeError(f"a number of bytes such as 500M or 2Gi, not {text!r}")
    return int(float(found[1]) * SIZES[found[2]])


def span(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.lower())
    if not found:
        raise argparse.ArgumentTypeError(f"a time such as 12h, 30d or 4w, not {text!r}")
    return float(found[1]) * TIMES[found[2]]


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for function, what in (
        (ls, "the entries: key, size, time since the last use, and what the program is"),
        (stat, "totals, the budget, and which versions made the entries"),
        (prune, "remove entries, those that were not used for longest first"),
        (verify, "read every entry and say which are damaged (exit status 1)"),
    ):
        action = actions.add_parser(function.__name__, help=what, description=what)
        action.add_argument(
            "dir", metavar="DIR", nargs="?", help="a directory or a URL (default: that of the environment)"
        )
        action.add_argument("--json", action="store_true", help="write JSON")
        action.set_defaults(action=function)
        if function is prune:
            action.add_argument("--bytes", type=size, metavar="SIZE", help="what may stay, such as 500M or 2Gi")
            action.add_argument("--older-than", type=span, metavar="TIME", help="what goes: unused for 12h, 30d, 4w")
            action.add_argument("--all", action="store_true", help="everything goes")
            action.add_argument("--dry-run", action="store_true", help="only say what would go")


def main(args: argparse.Namespace) -> int:
    try:
        return args.action(open_place(args.dir), args)
    except (ImportError, OSError, ValueError) as error:
        print(f"torch_tpu cache: {error}", file=sys.stderr)
        return 2


def ls(place: Place, args: argparse.Namespace) -> int:
    rows = [describe(place, entry) for entry in progress(place.entries(), "reading")]
    if args.json:
        return write_json(rows)
    print(f"{'KEY':26} {'SIZE':>9} {'UNUSED FOR':>10}  PROGRAM")
    for row in rows:
        key = row.get("key", "")
        # The first digits of its three parts: structure, dimensions, options.
        short = "-".join(key[i : i + 8] for i in (0, 16, 32)) if key else row["file"][:26]
        name = row.get("name") or f"? {row['wrong']}"
        print(f"{short:26} {in_bytes(row['size']):>9} {in_time(time.time() - row['used']):>10}  {name}")
    return 0


def stat(place: Place, args: argparse.Namespace) -> int:
    entries = place.entries()
    rows = [describe(place, entry) for entry in progress(entries, "reading")]
    made_by = Counter(row.get("made_by", "unknown").partition(" [")[0] for row in rows)
    total = sum(entry.size for entry in entries)
    figures = {
        "place": str(place),
        "entries": len(entries),
        "bytes": total,
        "budget": _C.cache_budget(),
        "unfinished": len(place.unfinished()),
        "made_by": dict(made_by.most_common()),
    }
    if args.json:
        return write_json(figures)
    print(f"place    {place}")
    print(f"entries  {len(entries)}")
    print(f"bytes    {in_bytes(total)} of {in_bytes(_C.cache_budget())}")
    for name, count in made_by.most_common():
        print(f"{count:7}  by {name}")
    return 0


def prune(place: Place, args: argparse.Namespace) -> int:
    if not args.all and args.bytes is None and args.older_than is None:
        raise ValueError("prune takes --bytes SIZE, --older-than TIME or --all: see --help")
    entries = place.entries()
    found = entries + place.unfinished() if args.all else to_remove(entries, args.bytes, args.older_than)
    if not args.dry_run:
        for entry in progress(found, "removing"):
            place.remove(entry)
    gone = sum(entry.size for entry in found)
    left = len(entries) - sum(entry in entries for entry in found)
    if args.json:
        return write_json({"removed": len(found), "removed_bytes": gone, "entries": left, "dry_run": args.dry_run})
    print(f"{'would remove' if args.dry_run else 'removed'} {len(found)} files, {in_bytes(gone)}; {left} entries stay")
    return 0


def verify(place: Place, args: argparse.Namespace) -> int:
    entries = place.entries()
    damaged = {}
    for entry in progress(entries, "verifying"):
        if wrong := what_is_wrong(place, entry):
            damaged[entry.file] = wrong
    if args.json:
        write_json({"entries": len(entries), "damaged": damaged})
    else:
        for file, wrong in damaged.items():
            print(f"{file}: {wrong}")
        print(f"{len(entries)} entries, {len(damaged)} damaged")
    return 1 if damaged else 0


def describe(place: Place, entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {"file": entry.file, "size": entry.size, "used": entry.used}
    try:
        return row | _C.cache_label(place.read(entry, _C.cache_label_size) or b"")
    except ValueError as error:
        return row | {"wrong": str(error)}


def what_is_wrong(place: Place, entry: Entry) -> str | None:
    data = place.read(entry)
    if data is None:  # removed meanwhile
        return None
    try:
        _C.cache_verify(data)
    except ValueError as error:
        return str(error)
    key = _C.cache_label(data)["key"]
    return None if entry.file.startswith(key) else f"it is the entry of {key}"


def write_json(what: object) -> int:
    json.dump(what, sys.stdout, indent=2)
    print()
    return 0


def in_bytes(n: float) -> str:
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while n >= 1000 and unit != "TB":
        n, unit = n / 1000, next(units)
    return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"


def in_time(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def progress(items: Iterable[T], what: str) -> Iterator[T]:
    """A bar on standard error, on a terminal, where it takes longer than a blink."""
    total = len(items) if isinstance(items, Sized) else 0
    start = shown = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if sys.stderr.isatty() and now - start > 0.3 and now - shown > 0.1:
            shown = now
            filled = 30 * done // max(1, total)
            print(f"\r{what} [{'#' * filled:30}] {done}/{total}", end="", file=sys.stderr, flush=True)
        yield item
    if shown != start:
        print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)
