"""Times small cases on the device beside its peers, in turn, and prints ratios.

Every contestant is a live process on one core. A round asks each for one measurement of a case, A B C A B C, so that
what disturbs the machine disturbs all. A ratio is taken within a round; shown are the median of the rounds and their
range.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tqdm import tqdm

HERE = Path(__file__).parent
CASES = {
    "chain": ("one of 100 dependent adds of 16x16", 1e6, "us"),
    "add_read": ("an add of 16x16 and its result read", 1e6, "us"),
    "record": ("an add of 16x16 that nobody reads", 1e6, "us"),
    "mlp": ("a training step of an MLP (784-512-512-10, batch 64, SGD), loss read", 1e3, "ms"),
    "mlp_async": ("the same, loss read after 20 steps", 1e3, "ms"),
    "gpt": ("a training step of a GPT (4 layers, width 128, context 128, batch 16, AdamW), loss read", 1e3, "ms"),
    "gpt_async": ("the same, loss read after 8 steps", 1e3, "ms"),
    "decode": ("a token of a small GPT, caches written in place at a new position", 1e3, "ms"),
}


@dataclass
class Contestant:
    name: str
    process: subprocess.Popen[str]
    versions: dict[str, str] = field(default_factory=dict)

    def ask(self, case: str) -> float | None:
        reader, writer = self.pipes()
        writer.write(case + "\n")
        writer.flush()
        line = reader.readline()
        if not line:
            raise SystemExit(f"bench: {self.name} ended in {case}, exit status {self.process.wait()}")
        return json.loads(line)["seconds"]

    def pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdout is not None and self.process.stdin is not None
        return self.process.stdout, self.process.stdin


def environment(peer: bool) -> dict[str, str]:
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": ""}
    if peer:
        env |= {"JAX_PLATFORMS": "cpu"}
        env.pop("PYTHONPATH", None)
    return env


def start(name: str, core: int | None, *command: str, peer: bool = False) -> Contestant:
    pin = ["taskset", "-c", str(core)] if core is not None else []
    process = subprocess.Popen(
        [*pin, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(peer),
    )
    contestant = Contestant(name, process)
    line = contestant.pipes()[0].readline()
    if not line:
        raise SystemExit(f"bench: {name} did not start, exit status {process.wait()}")
    contestant.versions = json.loads(line)["versions"]
    return contestant


def rows(seconds: dict[str, list[float]], case: str, ours: list[str], peers: list[str]) -> list[list[str]]:
    what, scale, unit = CASES[case]
    found = []
    for name in ours:
        row = [what if name == ours[0] else "", name, f"{statistics.median(seconds[name]) * scale:.2f} {unit}"]
        for peer in peers:
            ratios = sorted(a / b for a, b in zip(seconds[name], seconds[peer], strict=True) if not math.isnan(b))
            middle = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else ""
            row.append(middle)
        found.append(row)
    return found


def table(header: list[str], body: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [header, *body]) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in [header, *body]
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def machine() -> str:
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return (
        f"{cpu}, one core, {platform.system()} {platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", default=",".join(CASES), help="which, of: %(default)s")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each (default %(default)s)")
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has jax, as a peer; else without it")
    parser.add_argument("--floor", metavar="TPU_FLOOR", help="the program of floor.cc, as a peer; else without it")
    parser.add_argument("--core", type=int, default=1, help="the core all run on; -1 for any (default %(default)s)")
    parser.add_argument("--page", type=Path, help="write the table to this file, as docs/benchmarks.md")
    args = parser.parse_args()
    cases = args.cases.split(",")
    if unknown := [case for case in cases if case not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    core = args.core if 0 <= args.core < (os.cpu_count() or 1) else None
    worker = str(HERE / "worker.py")
    contestants = [
        start(f"tpu, {mode}", core, sys.executable, worker, "torch", "tpu", mode) for mode in ("strict", "defer")
    ]
    contestants.append(start("cpu", core, sys.executable, worker, "torch", "cpu"))
    if args.jax:
        contestants.append(start("jax.jit", core, args.jax, worker, "jax", peer=True))
    programs = tempfile.TemporaryDirectory()
    if args.floor:
        if not args.jax:
            parser.error("--floor needs --jax, which writes its programs")
        subprocess.run([args.jax, worker, "jax-export", programs.name], check=True, env=environment(peer=True))
        contestants.append(start("floor", core, args.floor, programs.name))
    ours = [c.name for c in contestants[:2]]
    peers = [c.name for c in contestants[2:]]
    body = []
    with tqdm(total=len(cases) * args.rounds * len(contestants), unit="run") as bar:
        for case in cases:
            seconds: dict[str, list[float]] = {c.name: [] for c in contestants}
            for _ in range(args.rounds):
                for c in contestants:
                    seconds[c.name].append(c.ask(case) or float("nan"))
                    bar.update()
            body += rows(seconds, case, ours, peers)
    versions = {k: v for c in contestants for k, v in c.versions.items()}
    about = f"{machine()}; " + ", ".join(f"{name} {version}" for name, version in versions.items())
    text = table(["what", "mode", "takes", *[f"/ {peer}" for peer in peers]], body)
    print(f"\n{text}\n\n{about}")
    if args.page:
        intro = (
            "`make bench` measures the device beside its peers, all on one core, in turn. A ratio below 1 means that "
            f"the device takes less. Medians of {args.rounds} rounds, with their range."
        )
        args.page.write_text(f"# Benchmarks\n\n{intro}\n\n{text}\n\n{about}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
