"""One training run, the same code on every device."""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_tpu
from torch_tpu.demo.model import GPT, Config


@dataclass
class Run:
    name: str
    device: str
    mode: str | None = None  # of torch_tpu.eager_mode
    dropout: float = 0.0
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each step, its loss read
    stats: dict[str, int] = field(default_factory=dict)  # what compile_stats() counted during the run
    samples: list[str] = field(default_factory=list)

    def tokens_per_second(self, tokens_per_step: int) -> float:
        steady = sorted(self.seconds[len(self.seconds) // 4 :])
        return tokens_per_step / steady[len(steady) // 2]


def learning_rate(step: int, steps: int, peak: float = 1e-3) -> float:
    warmup = max(1, steps // 20)
    if step < warmup:
        return peak * (step + 1) / warmup
    return 0.1 * peak + 0.45 * peak * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def train(
    run: Run, config: Config, batches: list[tuple[Tensor, Tensor]], seed: int, report: Callable[[float], None]
) -> GPT:
    """Fills ``run``; returns the model. ``report`` gets the loss of each step."""
    mode = torch_tpu.eager_mode(run.mode) if run.mode else contextlib.nullcontext()
    before = torch.tpu.compile_stats()
    with mode:
        torch.manual_seed(seed)
        model = GPT(config).to(run.device)
        optimizer = torch.optim.AdamW(model.groups(weight_decay=0.1), lr=1.0, betas=(0.9, 0.95))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, len(batches)))
        for inputs, targets in batches:
            start = time.perf_counter()
            loss = step(model, optimizer, inputs.to(run.device), targets.to(run.device))
            schedule.step()
            run.losses.append(loss.item())
            run.seconds.append(time.perf_counter() - start)
            report(run.losses[-1])
    run.stats = {name: count - before[name] for name, count in torch.tpu.compile_stats().items()}
    return model


def step(model: GPT, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()
