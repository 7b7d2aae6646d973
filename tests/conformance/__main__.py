"""Runs the sweep: ``python -m tests.conformance``."""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from . import ledger, page, pool, selection
from .verdict import CLASSES, GOOD, Verdict


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--ops", default="", metavar="REGEX", help="operators whose name has a match; default all")
    parser.add_argument(
        "--databases", nargs="+", choices=selection.DATABASES, default=list(selection.DATABASES), help="default all"
    )
    parser.add_argument("--dtypes", nargs="+", choices=selection.DTYPES, metavar="DTYPE", help="default all")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts of the operators")
    parser.add_argument("--samples", type=int, default=8, help="at most so many of an operator's samples (default 8)")
    parser.add_argument("--mode", default="strict", choices=("strict", "debug", "defer"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for an operator in a dtype (default 60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a verdict a line, as they come")
    parser.add_argument("--resume", action="store_true", help="keep what --json FILE has, and run the rest")
    parser.add_argument("--read", type=Path, nargs="+", metavar="FILE", help="run nothing: take verdicts from files")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page")
    parser.add_argument("--check", action="store_true", help="fail where results are not those of the ledger")
    parser.add_argument("--accept", action="store_true", help="make these results the ledger's")
    return parser.parse_args()


def read(paths: list[Path]) -> list[Verdict]:
    """Verdicts of earlier runs; of one pair the last counts."""
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    verdicts = [Verdict.from_json(json.loads(line)) for line in lines]
    return list({(v.op, v.dtype): v for v in verdicts}.values())


def run(options: argparse.Namespace) -> list[Verdict]:
    pairs = selection.pairs(options.ops, options.dtypes, options.part, options.databases)
    kept = read([options.json]) if options.resume and options.json else []
    known = {(v.op, v.dtype) for v in kept}
    pairs = [pair for pair in pairs if pair not in known]
    if options.json and not options.resume:
        options.json.write_text("")
    verdicts = list(kept)
    with tqdm(total=len(pairs), unit="pair", smoothing=0, file=sys.stderr) as bar:
        for v in pool.sweep(
            pairs, workers=options.workers, samples=options.samples, mode=options.mode, timeout=options.timeout
        ):
            verdicts.append(v)
            bar.set_postfix_str(f"{sum(v.outcome in GOOD for v in verdicts)} of {len(verdicts)} right", refresh=False)
            bar.update()
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(v.to_json()) + "\n")
            if v.outcome not in GOOD:
                bar.write(f"{v.outcome:9} {v.op} {v.dtype}: {v.reason}", file=sys.stdout)
    return verdicts


def report(verdicts: list[Verdict]) -> None:
    counts = Counter(v.outcome for v in verdicts)
    print(f"{len(verdicts)} pairs: " + ", ".join(f"{counts[c]} {c}" for c in CLASSES if counts[c]))
    print(f"{sum(v.taken for v in verdicts)} of {sum(v.of for v in verdicts)} samples ran")
    print(f"{sum(v.forward in GOOD for v in verdicts)} right on the device without the gradients")


def main() -> int:
    options = arguments()
    verdicts = read(options.read) if options.read else run(options)
    report(verdicts)
    if options.page:
        options.page.write_text(page.render(verdicts, mode=options.mode, samples=options.samples))
    surprises = ledger.surprises(verdicts, ledger.load()) if options.check else []
    print("\n".join(surprises), end="\n" if surprises else "")
    if options.accept:
        ledger.save(ledger.accepted(verdicts, ledger.load()))
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
