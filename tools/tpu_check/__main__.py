"""Compiles for TPUs that are not here: a program for each row of the op table, and those of the test models."""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from torch_tpu.aot.compiler import CompileError, Compiler

from . import ledger, page
from .verdict import Verdict, brief

CHIPS = ("v6e", "v5e", "v5p", "tpu7x")
WHOLE = "v6e"  # all rows; of the others a share
SHARE = 10
ROOT = Path(__file__).parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tpu-check", description=__doc__)
    parser.add_argument("--ops", default="", metavar="REGEX", help="operators of PyTorch's database; default all")
    parser.add_argument("--chips", nargs="+", choices=CHIPS, default=list(CHIPS), help="default all")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one in N of the rows, by hash")
    parser.add_argument("--programs", type=Path, metavar="FILE", help="programs collected before, or to be kept there")
    parser.add_argument("--verdicts", type=Path, metavar="FILE", help="a verdict a line; those that it has are kept")
    parser.add_argument("--again", default="", metavar="REGEX", help="of those, compile the programs that match anew")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page, and the figures beside it as .json")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a program (default 300)")
    parser.add_argument("--check", action="store_true", help="fail where results are not those of the ledger")
    parser.add_argument("--accept", action="store_true", help="make these results the ledger's")
    return parser.parse_args()


def bar(what: str) -> Any:
    return lambda items: tqdm(list(items), desc=what, smoothing=0, file=sys.stderr)


def programs(options: argparse.Namespace) -> tuple[list[dict[str, str]], list[str]]:
    """Items as JSON, and the names of rows without one."""
    if options.programs and options.programs.exists():
        kept = json.loads(options.programs.read_text())
        return kept["items"], kept["missing"]
    os.environ.setdefault("TORCH_TPU_CACHE_DIR", "")
    os.environ.setdefault("TORCH_TPU_OPT_LEVEL", "0")  # what the CPU computes is only there to go on
    from . import collect

    items = [*collect.models(), *collect.op_table(bar("collecting"), options.ops)]
    found = [item.to_json() for item in items], collect.without_program(items)
    if options.programs:
        options.programs.write_text(json.dumps({"items": found[0], "missing": found[1]}))
    return found


def run(items: list[dict[str, str]], options: argparse.Namespace) -> tuple[list[Verdict], str]:
    import re

    from .collect import Item

    every = [Item(**item) for item in items]
    kept: list[Verdict] = []
    if options.verdicts and options.verdicts.exists():
        kept = [Verdict(**json.loads(line)) for line in options.verdicts.read_text().splitlines()]
    if options.again:
        kept = [v for v in kept if not re.search(options.again, v.key)]
        options.verdicts.write_text("".join(json.dumps(v.to_json()) + "\n" for v in kept))
    known = {(v.chip, v.key) for v in kept}
    compiler = ""
    for chip in options.chips:
        share = options.share if chip == WHOLE else options.share * SHARE
        todo = [item for item in every if item.name.startswith("model ") or item.share(share)]
        todo = [item for item in todo if (chip, item.key) not in known]
        with Compiler(chip, timeout=options.timeout) as c:
            compiler = c.chip.compiler
            for item in bar(chip)(todo):
                kept.append(verdict(c, chip, item))
                if options.verdicts:
                    with options.verdicts.open("a") as file:
                        file.write(json.dumps(kept[-1].to_json()) + "\n")
                if kept[-1].error:
                    tqdm.write(f"{chip}: {item.key}: {kept[-1].error}")
    return kept, compiler


def verdict(compiler: Compiler, chip: str, item: Any) -> Verdict:
    try:
        done = compiler.compile(item.text)
    except CompileError as error:
        return Verdict(chip, item.name, item.dtype, 0.0, brief(str(error)), error.crashed)
    return Verdict(chip, item.name, item.dtype, round(done.seconds, 3))


def figures(verdicts: list[Verdict], missing: list[str], compiler: str) -> dict[str, Any]:
    def of(chip: str) -> dict[str, Any]:
        mine = [v for v in verdicts if v.chip == chip]
        rows = [v for v in mine if v.is_row]
        return {
            "programs": len(mine),
            "compiled": sum(not v.error for v in mine),
            "rows": len(rows),
            "rows_compiled": sum(not v.error for v in rows),
            "refused": {v.key: v.error for v in mine if v.error},
        }

    return {"compiler": compiler, "chips": {c: of(c) for c in CHIPS}, "rows_without_program": missing}


def report(verdicts: Iterable[Verdict]) -> None:
    for chip in CHIPS:
        mine = [v for v in verdicts if v.chip == chip]
        print(f"{chip}: {sum(not v.error for v in mine)} of {len(mine)} programs compile")


def main() -> int:
    options = arguments()
    items, missing = programs(options)
    verdicts, compiler = run(items, options)
    report(verdicts)
    if options.page:
        options.page.write_text(page.render(verdicts, missing, compiler))
        text = json.dumps(figures(verdicts, missing, compiler), indent=1)
        options.page.with_suffix(".json").write_text(text + "\n")
    if options.accept:
        ledger.save(ledger.accepted(verdicts, ledger.load()))
    surprises = ledger.surprises(verdicts, ledger.load()) if options.check else []
    if options.check and not options.ops:
        surprises += [f"{name}: nothing calls this row: tools/tpu_check/direct.py is for such" for name in missing]
    print("\n".join(surprises), end="\n" if surprises else "")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
