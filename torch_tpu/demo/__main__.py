"""Command line of the demo."""

import argparse
import sys
from pathlib import Path

import torch

try:
    from tqdm import tqdm
except ImportError as error:
    sys.exit(f"{error}: the demo needs `pip install torchtpu[demo]`")

from torch_tpu.demo.data import Text
from torch_tpu.demo.model import Config
from torch_tpu.demo.report import plot, table, worst_difference
from torch_tpu.demo.train import Run, train

TOLERANCE = 1e-4


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make demo ARGS=...", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.description = (
        "Trains a small GPT on the text of Python's own manual: on device tpu in Strict and in DeferAndFuse mode and "
        "on the CPU, with equal seeds and data, and compares them; then once more with dropout, and samples from that."
    )
    parser.add_argument("--steps", type=int, default=200, help="training steps of each run (default %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="sequences a step (default %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the last run (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, data and dropout (default %(default)s)")
    parser.add_argument("--sample", type=int, default=120, help="characters to sample (default %(default)s)")
    parser.add_argument("--png", type=Path, default=Path("demo.png"), help="the picture (default %(default)s)")
    found = parser.parse_args()
    if found.steps < 1 or found.batch < 1:
        parser.error("--steps and --batch are at least 1")
    return found


def main() -> int:
    args = arguments()
    text = Text()
    config = Config(vocabulary=len(text.characters))
    dropout = Config(vocabulary=len(text.characters), dropout=args.dropout)
    compared = [
        Run("tpu, Strict", "tpu", "strict"),
        Run("tpu, DeferAndFuse", "tpu", "defer"),
        Run("cpu", "cpu"),
    ]
    last = Run(f"tpu, DeferAndFuse, dropout {args.dropout}", "tpu", "defer", args.dropout)
    batches = text.batches(args.steps, args.batch, config.context, args.seed)
    print(
        f"{len(text.tokens):,} characters, {len(text.characters)} different; {args.batch} x {config.context} a step; "
        f"device tpu is {torch.tpu.get_device_name()}"
    )
    for run in [*compared, last]:
        with tqdm(total=args.steps, desc=run.name, unit="step", mininterval=0.5) as bar:

            def report(loss: float, bar: tqdm = bar) -> None:
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
                bar.update()

            model = train(run, dropout if run.dropout else config, batches, args.seed, report)
    model.eval()
    newline = torch.full((3, 1), text.characters.index("\n"), device="tpu")
    for row in model.sample(newline, args.sample).tolist():
        print(f"  | {text.decode(row).strip()}".replace("\n", "\n  | "))
    plot([*compared, last], args.png)
    print(f"\n{table([*compared, last], args.batch * config.context)}\n")
    difference = worst_difference(compared)
    agree = difference <= TOLERANCE
    print(
        f"losses of the compared runs differ by {difference:.1e} after {args.steps} steps (at most {TOLERANCE:.0e}): "
        f"{'they agree' if agree else 'THEY DO NOT AGREE'}"
    )
    print(f"picture: {args.png}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
