"""Measures the device beside its peers, in turn, and prints ratios with their targets. README.md tells how."""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tqdm import tqdm

from bench.contestants import Contestant, contestants, environment, scratch
from bench.page import Line, Results, line, machine, page, summary, table
from bench.process import Failed, Process
from bench.rows import CASES, ROWS, Case

ROOT = Path(__file__).resolve().parent.parent


class Bench:
    def __init__(self, named: dict[str, Contestant], args: argparse.Namespace, bar: "tqdm[None]") -> None:
        self.named, self.args, self.bar = named, args, bar
        self.versions: dict[str, str] = {}
        self.known: set[str] = set()  # contestants that told theirs

    def start(self, contestant: Contestant, folder: Path, case: Case) -> Process:
        env = environment(contestant, folder, case.keeps_cache)
        return Process(contestant, env, self.args.core, self.args.limit)

    def run(self, name: str, keys: list[str]) -> Results:
        """All rounds of a case: A B C A B C, so that what disturbs the machine disturbs all."""
        results, alive = Results(), {}
        with ExitStack() as stack:
            for number in range(self.args.rounds):
                for key in keys:
                    self.bar.set_postfix_str(f"{name} {number + 1}/{self.args.rounds} {self.named[key].name}")
                    if key not in results.errors:
                        self.measure(name, key, results, alive, stack)
                    self.bar.update()
        return results

    def measure(self, name: str, key: str, results: Results, alive: dict[str, Process], stack: ExitStack) -> None:
        """One figure of each name. A process that lives on is kept in `alive`, and ends with `stack`."""
        contestant, case = self.named[key], CASES[name]
        try:
            if case.parts:
                found = self.in_new_processes(contestant, case)
            else:
                if key not in alive:
                    alive[key] = self.start(contestant, stack.enter_context(scratch()), case)
                    stack.callback(alive[key].end)
                found = self.ask(contestant, alive[key], name)
        except Failed as error:
            results.errors[key] = str(error)
            results.figures.pop(key, None)
            self.bar.write(f"bench: {name}: {contestant.name} failed: {error}", file=sys.stderr)
            return
        for figure, value in found.items():
            results.figures.setdefault(key, {}).setdefault(figure, []).append(value)

    def in_new_processes(self, contestant: Contestant, case: Case) -> dict[str, float]:
        found: dict[str, float] = {}
        with ExitStack() as stack:
            folder = stack.enter_context(scratch())
            for part in case.parts:
                process = self.start(contestant, folder if case.keeps_cache else stack.enter_context(scratch()), case)
                try:
                    found |= self.ask(contestant, process, part)
                finally:
                    process.end()
        return found

    def ask(self, contestant: Contestant, process: Process, request: str) -> dict[str, float]:
        figures = process.ask(request)["figures"]
        if contestant.key not in self.known:
            self.known.add(contestant.key)
            self.versions |= process.ask("versions")["versions"]
        return figures


def one_of_the_cases(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in CASES]:
        raise argparse.ArgumentTypeError(f"no rows {', '.join(unknown)}; there are {', '.join(CASES)}")
    return [name for name in CASES if name in names]


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of 1 or more is wanted, not {text!r}")
    return int(text)


def a_core(text: str) -> int | None:
    if text == "any":
        return None
    usable = sorted(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) not in usable:
        raise argparse.ArgumentTypeError(f"no core {text}; there are {', '.join(map(str, usable))}, and any")
    return int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...",
        description=(__doc__ or "").splitlines()[0],
        epilog="rows: " + "; ".join(f"{name} ({case.what})" for name, case in CASES.items()),
    )
    parser.add_argument("--rows", type=one_of_the_cases, default=list(CASES), help="which, by name; all unless given")
    parser.add_argument("--rounds", type=at_least_one, default=5, help="measurements of each (default %(default)s)")
    parser.add_argument("--core", type=a_core, default=max(os.sched_getaffinity(0)), help="the core all run on, or any")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one answer (default %(default)s)")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", help="what bench/setup.sh made")
    parser.add_argument("--build", type=Path, default=ROOT / "build/bench", help="the build of the preset bench")
    parser.add_argument("--page", type=Path, help="write the table to this file, as docs/benchmarks.md")
    return parser.parse_args()


def skip_the_missing(named: dict[str, Contestant]) -> dict[str, str]:
    """By contestant: why it takes no part. Each reason is said once."""
    missing = {key: one.missing for key, one in named.items() if one.missing}
    for reason in dict.fromkeys(missing.values()):
        names = ", ".join(named[key].name for key in missing if missing[key] == reason)
        print(f"bench: without {names}: {reason}", file=sys.stderr)
    return missing


def export(jax: Contestant, folder: str) -> None:
    """The floor's programs. Where that fails, the floor says so when it finds none."""
    with scratch() as caches:
        command = [*jax.command[:-1], "export", folder]
        done = subprocess.run(
            command, env=environment(jax, caches, keeps_cache=False), stderr=subprocess.PIPE, text=True
        )
    if done.returncode:
        print(f"bench: JAX exports no programs for the floor: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)


def main() -> int:
    args = arguments()
    exported = tempfile.TemporaryDirectory(prefix="bench-")
    named = contestants(args.peers.absolute(), args.build.absolute(), Path(exported.name))
    rows = {name: [row for row in ROWS if row.case == name] for name in args.rows}
    keys = {name: dict.fromkeys(key for row in of for key in (row.ours, *row.peers)) for name, of in rows.items()}
    missing = skip_the_missing({key: named[key] for case in keys.values() for key in case})
    present = {name: [key for key in case if key not in missing] for name, case in keys.items()}
    if any("floor" in case for case in present.values()):
        export(named["jax"], exported.name)
    lines: list[Line] = []
    failed: list[str] = []
    with tqdm(total=args.rounds * sum(map(len, present.values())), unit="run") as bar:
        bench = Bench(named, args, bar)
        for name, case in present.items():
            results = bench.run(name, case)
            failed += [f"{name} of {named[key].name}" for key in results.errors if named[key].ours]
            results.errors |= dict.fromkeys(missing, "not there")
            lines += [line(row, results, named) for row in rows[name]]
    about = f"{machine(args.core)}; " + ", ".join(f"{what} {version}" for what, version in bench.versions.items())
    print(f"\n{table(lines)}\n\n{summary(lines)}.\n{about}")
    if args.page:
        args.page.write_text(page(lines, args.rounds, about))
    if failed:
        print(f"bench: ours failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
