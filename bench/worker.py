"""One contestant: a process that is asked for a case by line, and answers each with one measurement of it as JSON.

A case is made when it is first asked for and kept, so that compiles are paid once where rounds alternate between
processes that live on. "versions" is answered with what the contestant is made of.
Usage: worker.py tpu | torchtpu | cpu | inductor | jax | engine PROGRAM | export FOLDER (which answers nothing)
"""

import importlib
import json
import os
import sys
import traceback

from measure import Measurement


def main() -> None:
    kind, *arguments = sys.argv[1:]
    cases = importlib.import_module(
        {"jax": "cases_jax", "export": "cases_jax", "engine": "engine"}.get(kind, "cases_torch")
    )
    if kind == "export":
        return cases.export(arguments[0])
    make = cases.setup(kind, *arguments)
    known: dict[str, Measurement] = {}
    for line in sys.stdin:
        case = line.strip()
        try:
            if case == "versions":
                answer = {"versions": cases.versions(kind)}
            else:
                if case not in known:
                    known[case] = make(case)
                answer = {"figures": known[case]()}
        except Exception as error:
            if os.environ.get("BENCH_TRACE"):
                traceback.print_exc()
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main()
