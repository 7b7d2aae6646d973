"""Run a script and write one page on it: its programs, time, memory, where programs came from and why they were new.

The page needs nothing beside itself. It is written however the script ends.

  python -m torch_tpu report train.py --steps 20
  python -m torch_tpu report -o run.html --json run.json train.py
  python -m torch_tpu report -o run.html run.json
"""

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from torch_tpu import _C, _script
from torch_tpu._report.figures import recorded
from torch_tpu._report.page import render


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default="report.html", help="the page (default %(default)s)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures too, from which a page can be made"
    )
    parser.add_argument("--quiet", action="store_true", help="do not say where the page is")
    parser.add_argument("script", help="a Python file that uses device tpu, or what --json wrote")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


def main(args: argparse.Namespace) -> int:
    path = Path(args.script)
    if not path.is_file():
        sys.exit(f"no script {args.script}")
    if path.suffix == ".json":
        figures, status = _read(path), 0
    else:
        figures, status = _run(args.script, args.args)
    if args.json:
        args.json.write_text(json.dumps(figures) + "\n")
    args.output.write_text(render(figures))
    if not args.quiet:
        count = len(figures["programs"])
        print(f"report: {count} programs, {figures['stats']['executions']} launches: {args.output}", file=sys.stderr)
    return status


def _read(path: Path) -> dict[str, Any]:
    try:
        figures = json.loads(path.read_text())
        if figures["torch_tpu_report"] != 1:
            sys.exit(f"{path} is of another version")
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{path} is not what `python -m torch_tpu report --json` writes")
    return figures


def _run(script: str, args: list[str]) -> tuple[dict[str, Any], int]:
    status = 0
    with recorded(" ".join([Path(script).name, *args])) as figures:
        try:
            held, status = _script.run(script, args)
            if _C.started():
                torch.tpu.synchronize()  # what was recorded and is still held belongs to the run
            del held
        except (Exception, KeyboardInterrupt):
            traceback.print_exc()
            status = 1
    return figures, status
