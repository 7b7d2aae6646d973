"""``python -m tests.fuzz``: runs programs, and prints the smallest form of each that fails."""

import argparse
import os
import sys

os.environ.setdefault("TORCH_TPU_OPT_LEVEL", "0")  # compiles dominate

from tqdm import tqdm

import torch_tpu
from torch_tpu.modes import NAMES

from .program import Program, difference, generate, run, shrink


def failure(lines: list[str], exact: bool, mode: str) -> str | None:
    want = run(lines, "cpu")
    torch_tpu.eager_mode(mode)
    return difference(run(lines, "tpu"), want, exact)


def check(program: Program, modes: tuple[str, ...]) -> tuple[str, str, Program] | None:
    """The mode that goes wrong, how, and the shrunk program."""
    for mode in modes:
        if failure(program.lines, program.exact, mode) is None:
            continue
        small = shrink(program, lambda lines, mode=mode: failure(lines, program.exact, mode) is not None)
        return mode, failure(small.lines, program.exact, mode) or "", small
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz N=...", description=__doc__)
    parser.add_argument("n", type=int, nargs="?", default=300, help="programs (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default %(default)s)")
    parser.add_argument("--modes", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed, and stop")
    args = parser.parse_args()
    if args.show is not None:
        print(generate(args.show).script())
        return 0
    failed = 0
    with tqdm(total=args.n, unit="program") as bar:
        for seed in range(args.first, args.first + args.n):
            found = check(generate(seed), tuple(args.modes))
            bar.update()
            if found is not None:
                failed += 1
                mode, how, small = found
                bar.write(f"# seed {seed}, {mode}: {how}\n{small.script()}")
    print(f"{failed} of {args.n} programs went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
