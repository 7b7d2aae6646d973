"""The tables of docs/measurements.md, with libtpu: ``python -m tools.measure_tpu precision|fusion``."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("TORCH_TPU_CACHE_DIR", "")

import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

import torch_tpu
from torch_tpu.aot import Compiler, Program
from torch_tpu.aot.capture import capture_call, collected
from torch_tpu.aot.compiler import Compiled
from torch_tpu.aot.report import duration, size

CHIPS = ("v5e", "v6e", "v5p", "tpu7x")
PRECISIONS = ("medium", "high", "highest")


def precision(chips: list[str]) -> None:
    """Products of float32 in the three precisions, and of bfloat16."""
    cases: dict[str, tuple[Callable[..., torch.Tensor], list[torch.Tensor]]] = {
        f"{n} x {n} x {n}": (torch.mm, [torch.ones(n, n), torch.ones(n, n)]) for n in (1024, 4096)
    }
    cases["convolution, 32 x 128 x 28 x 28, 3 x 3"] = (
        lambda x, k: F.conv2d(x, k, padding=1),
        [torch.ones(32, 128, 28, 28), torch.ones(128, 128, 3, 3)],
    )
    programs: list[tuple[str, str, Program]] = []
    for case, (fn, inputs) in cases.items():
        programs.append((case, "bfloat16", capture_call(fn, [x.bfloat16() for x in inputs])[-1]))
        for chosen in PRECISIONS:
            torch.set_float32_matmul_precision(chosen)
            programs.append((case, chosen, capture_call(fn, inputs)[-1]))
    print("| chip | product | precision | estimated cycles | of medium | code | `optimal_seconds` |")
    print("|---|---|---|---|---|---|---|")
    for chip in chips:
        with Compiler(chip) as compiler:
            medium = 1
            for case, chosen, program in tqdm(programs, desc=chip, file=sys.stderr):
                done = compiler.compile(program.text)
                cycles = done.optimized.cycles
                medium = cycles if chosen == "medium" else medium
                ratio = f"{cycles / medium:.2f}" if chosen in PRECISIONS else ""
                print(
                    f"| {chip} | {case} | {chosen} | {cycles:,} | {ratio} | {size(done.memory['code'])} | "
                    f"{duration(done.cost['optimal_seconds'])} |"
                )


class Residual(nn.Module):
    """A block of a ResNet: two convolutions, with normalisation, around a shortcut."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(features, features, 3, padding=1, bias=False)
        self.second = nn.Conv2d(features, features, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(features) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(x + self.norms[1](self.second(y)))


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), torch.randn(64, 784)


def gpt() -> tuple[nn.Module, torch.Tensor]:
    from torch_tpu.demo.model import GPT, Config

    config = Config(vocabulary=128)
    return GPT(config), torch.randint(0, 128, (8, config.context))


def resnet() -> tuple[nn.Module, torch.Tensor]:
    return Residual(64), torch.randn(16, 64, 56, 56)


MODELS = {
    "MLP 784-512-512-10, batch 64": mlp,
    "GPT of the demo, batch 8": gpt,
    "ResNet block, 16 x 64 x 56 x 56": resnet,
}


@dataclass(frozen=True)
class Step:
    """A training step: its programs, and the bytes of tensors alive before it and where most were."""

    programs: list[Program]
    before: int
    most: int

    def peak(self, done: list[Compiled]) -> int:
        """What a TPU would need: of a program the temporaries count too, as the TPU's compiler plans them."""
        m = [c.memory for c in done]
        return max(self.most, *(self.before + x["outputs"] - x["aliased"] + x["temporaries"] for x in m))


def training_step(make: Callable[[], tuple[nn.Module, torch.Tensor]], mode: str) -> Step:
    """The second one: the first also makes the optimizer's state."""
    torch.manual_seed(0)
    model, data = make()
    model, data = model.to("tpu"), data.to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        out = model(data)
        out = out[0] if isinstance(out, tuple) else out
        loss = out.float().square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    with torch_tpu.eager_mode(mode):
        step()
        torch.tpu.synchronize()
        before = torch.tpu.memory_allocated()
        with collected() as programs:
            torch.tpu.reset_peak_memory_stats()
            step()
    # In DeferAndFuse what the CPU's compiler plans within a program is no matter of a TPU.
    most = torch.tpu.max_memory_allocated() if mode == "strict" else before
    return Step(programs, before, most)


def fusion(chips: list[str], only: str) -> None:
    """A training step as DeferAndFuse cuts it, and operator by operator."""
    print("| chip | training step | mode | programs | launches | written and read | memory at the peak | estimated |")
    print("|---|---|---|---|---|---|---|---|")
    chosen = [(name, mode) for name in MODELS if re.search(only, name) for mode in ("strict", "defer")]
    runs = [(name, mode, training_step(MODELS[name], mode)) for name, mode in chosen]
    for chip in chips:
        with Compiler(chip) as compiler:
            for name, mode, step in runs:
                done = [compiler.compile(p.text) for p in tqdm(step.programs, desc=f"{chip} {mode}", file=sys.stderr)]
                times = [p.times for p in step.programs]
                moved = sum(n * c.bytes_accessed for n, c in zip(times, done, strict=True))
                seconds = sum(n * c.estimated_seconds for n, c in zip(times, done, strict=True))
                print(
                    f"| {chip} | {name} | {mode} | {len(done)} | {sum(times)} | {size(moved)} "
                    f"| {size(step.peak(done))} | {duration(seconds)} |",
                    flush=True,
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="measure_tpu", description=__doc__)
    parser.add_argument("what", choices=("precision", "fusion"))
    parser.add_argument("--chips", nargs="+", choices=CHIPS, default=list(CHIPS))
    parser.add_argument("--models", default="", metavar="REGEX", help="of fusion; default all")
    options = parser.parse_args()
    if options.what == "precision":
        precision(options.chips)
    else:
        fusion(options.chips, options.models)
    return 0


if __name__ == "__main__":
    sys.exit(main())
