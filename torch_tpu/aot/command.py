"""Compile a script's programs for TPUs that are not here.

Runs the script on the CPU device in DeferAndFuse, compiles every program that it runs for each target, and prints what
the compiler says: memory, work, estimated time. Exit status 1 where a program is refused or exceeds the chip's memory.

  python -m torch_tpu aot train.py --steps 3
  python -m torch_tpu aot --target v5e --target v6e:2x4 --html report.html train.py
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch_tpu import _script
from torch_tpu.aot import Program, Report, capture, compile_programs
from torch_tpu.aot.page import render
from torch_tpu.aot.report import dumps
from torch_tpu.aot.target import SMALLEST, libtpu, topology


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        action="append",
        metavar="CHIP[:TOPOLOGY]",
        help=f"what to compile for, may be repeated: {', '.join(SMALLEST)}, or one with a topology (default v5e)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures; - for standard output, without the tables")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page with tables, tensors and programs")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="compute nothing on the CPU: for models larger than this machine. The script ends where it reads a number",
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program (default %(default)g)")
    parser.add_argument(
        "--wait", type=float, default=300, help="seconds for other processes that use libtpu (default %(default)g)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("script", help="a Python file that uses device tpu")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


class Bar:
    """Progress on stderr: in place on a terminal, else a line at the end."""

    def __init__(self, what: str, quiet: bool) -> None:
        self.what, self.quiet = what, quiet

    def __call__(self, items: Iterable[Program]) -> Iterable[Program]:
        todo = list(items)
        live = sys.stderr.isatty() and not self.quiet
        for i, item in enumerate(todo):
            if live:
                done = 30 * i // len(todo)
                name = item.name if len(item.name) < 60 else item.name[:57] + "..."
                bar = f"{'#' * done}{'.' * (30 - done)}"
                print(f"\r\033[K{self.what} [{bar}] {i}/{len(todo)} {name}", end="", file=sys.stderr, flush=True)
            yield item
        if not self.quiet:
            print(("\r\033[K" if live else "") + f"{self.what}: {len(todo)} programs", file=sys.stderr)


def run_script(path: str, args: list[str], dry: bool = False) -> list[Program]:
    """The programs of a script, as ``python path args`` runs it. How it exits does not matter, unless by an error."""
    with capture(dry=dry) as programs:
        namespace: Any = None
        try:
            namespace, status = _script.run(path, args)  # its globals live until the last cut
            if status:
                print(f"{path} ended with exit status {status}", file=sys.stderr)
        except RuntimeError as error:
            if not dry or "dry run" not in str(error):
                raise
            print(f"{path} ended where it reads a number: {error}", file=sys.stderr)
        del namespace
    return programs


def main(args: argparse.Namespace) -> int:
    targets = list(dict.fromkeys(map(topology_or_exit, args.target or ["v5e"])))
    if not Path(args.script).is_file():
        sys.exit(f"no script {args.script}")
    try:
        libtpu()  # before the script runs, perhaps for long
        programs = run_script(args.script, args.args, args.dry_run)
        if not programs:
            sys.exit(f"{args.script} ran nothing on device tpu")
        reports = [compile_for(target, programs, args) for target in targets]
    except RuntimeError as error:
        sys.exit(f"aot: {error}")
    if args.json:
        text = dumps(reports)
        print(text) if args.json == "-" else Path(args.json).write_text(text + "\n")
    if args.json != "-":
        print("\n\n".join(map(str, reports)))
    if args.html:
        args.html.write_text(render(reports, f"{Path(args.script).name} on {', '.join(targets)}"))
    return 0 if all(report.ok for report in reports) else 1


def topology_or_exit(target: str) -> str:
    try:
        return topology(target)
    except ValueError as error:
        sys.exit(f"aot: {error}")


def compile_for(target: str, programs: list[Program], args: argparse.Namespace) -> Report:
    progress: Callable[[Iterable[Program]], Iterable[Program]] = Bar(f"compiling for {target}", args.quiet)
    return compile_programs(programs, target, progress=progress, timeout=args.timeout, wait=args.wait)
