"""One contestant: a process that is asked for a case by line, and answers with one measurement of it.

A case is made on first use and kept, so that compiles are paid once and rounds alternate between live processes.
Usage: worker.py torch DEVICE [MODE] | worker.py jax | worker.py jax-export FOLDER
"""

import json
import sys
import time
from collections.abc import Callable

Case = tuple[Callable[[], object], int]  # what is timed, and by how many to divide


def measure(case: Case) -> float:
    """Seconds of one unit: the least disturbed of three."""
    run, count = case
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best / count


def main() -> None:
    if sys.argv[1] == "jax-export":
        import cases_jax

        return cases_jax.export(sys.argv[2])
    if sys.argv[1] == "torch":
        import cases_torch

        make, versions = cases_torch.setup(*sys.argv[2:])
    else:
        import cases_jax

        make, versions = cases_jax.setup()
    print(json.dumps({"versions": versions}), flush=True)
    known: dict[str, Case | None] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in known:
            known[name] = make(name)
            case = known[name]
            for _ in range(3 if case else 0):
                case[0]()  # compiles
        case = known[name]
        print(json.dumps({"seconds": measure(case) if case else None}), flush=True)


if __name__ == "__main__":
    main()
