"""Examines a module of PyTorch's module database in one dtype: forward, backward, its state, and copies of it."""

import copy
import io
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from . import randomness
from .arguments import WIDE, Arguments, leaves
from .comparison import Tolerance
from .errors import Refusal, examine_refusals
from .examine import cotangent, evenly
from .trial import Run, Worth, call, trial
from .verdict import Stage, Verdict


class ModuleExamination:
    """``progress`` hears of each call before it is made."""

    def __init__(self, info: Any, dtype: torch.dtype, verdict: Verdict, mode: str, progress: Any) -> None:
        self.info, self.dtype, self.mode, self.progress = info, dtype, mode, progress
        self.worth = Worth(Tolerance.of(info, dtype), strides=False)
        self.verdict = verdict

    def _inputs(self, training: bool) -> list[Any]:
        return self.info.module_inputs_func(
            self.info, device="cpu", dtype=self.dtype, requires_grad=True, training=training
        )

    def run(self, count: int) -> Verdict:
        start = time.monotonic()
        for training in (True, False) if self.info.train_and_eval_differ else (True,):
            everything = self._inputs(training)
            samples = evenly(everything, count)
            self.verdict.taken += len(samples)
            self.verdict.of += len(everything)
            for i, sample in enumerate(samples):
                self._sample(sample, training, f"{'train' if training else 'eval'} sample {i}")
        if self.info.module_error_inputs_func is not None:
            self.progress("error inputs")
            self.verdict.errors = examine_refusals(self._refusals(), self.mode)
        self.verdict.seconds = round(time.monotonic() - start, 2)
        return self.verdict

    def _sample(self, sample: Any, training: bool, where: str) -> None:
        module = self._made(sample).train(training)
        inputs = sample.forward_input
        arguments = Arguments(tuple(inputs.args), dict(inputs.kwargs))
        if self.info.is_lazy:  # takes its weights from its first input: the same ones for both devices
            module(*arguments.on("cpu").args, **arguments.on("cpu").kwargs)
        forward = on_both(module, lambda m, a: m(*a.args, **a.kwargs))
        draws = randomness.differ(
            [randomness.seeded(lambda: call(forward, arguments, "cpu", self.worth), seed).returned for seed in range(2)]
        )
        kind = "train" if training else "eval"
        for name, run in (
            (kind, on_both(module, lambda m, a: (m(*a.args, **a.kwargs), dict(m.named_buffers())))),
            ("gradient", on_both(module, gradients)),
            ("copies", on_both(module, copies)),
        ):
            worth = replace(self.worth, draws=draws and name == kind, contents=not draws or name == kind)
            self.progress(f"{where}, {name}: {sample.desc} {arguments}")
            trial(run, arguments, worth, self.mode, self.verdict.stages.setdefault(name, Stage()))

    def _made(self, sample: Any) -> torch.nn.Module:
        torch.manual_seed(0)
        made = sample.constructor_input
        return self.info.module_cls(*made.args, **made.kwargs).to(self.dtype)

    def _refusals(self) -> list[Refusal]:
        found = []
        for training in (True, False):
            for case in self.info.module_error_inputs_func(
                self.info, device="cpu", dtype=self.dtype, requires_grad=False, training=training
            ):
                sample = case.module_error_input

                def run(device: str, sample: Any = sample, training: bool = training) -> Any:
                    module = self._made(sample).train(training).to(device)
                    given = Arguments(tuple(sample.forward_input.args), dict(sample.forward_input.kwargs)).on(device)
                    return module(*given.args, **given.kwargs)

                found.append(Refusal(sample.desc, run))
        return found


def on_both(module: torch.nn.Module, use: Callable[[torch.nn.Module, Arguments], Any]) -> Run:
    """A run of ``use`` with a copy of the module on the device of the arguments, as wide as they are."""

    def run(a: Arguments, device: str) -> Any:
        mine = copy.deepcopy(module).to(device)
        wide = {WIDE[p.dtype] for p in module.parameters() if p.dtype in WIDE}
        if any(t.dtype in wide for t in a.tensors()):
            mine = mine.to(next(iter(wide)))
        return use(mine, a)

    return run


def gradients(module: torch.nn.Module, a: Arguments) -> Any:
    """Of the inputs and the parameters."""
    outputs = leaves(module(*a.args, **a.kwargs))
    outs = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = [*a.wanting_gradients(), *module.parameters()]
    if not outs or not wanted:
        return ()
    seeds = [cotangent(t).to(t.device) for t in outs]
    return torch.autograd.grad(outs, wanted, seeds, allow_unused=True)


@torch.no_grad()
def copies(module: torch.nn.Module, a: Arguments) -> Any:
    """What a deep copy, a saved and loaded one, and one that took its state return; and that state."""
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    taken = copy.deepcopy(module)
    for t in (*taken.parameters(), *taken.buffers()):
        t.zero_()
    taken.load_state_dict(module.state_dict())
    made = [copy.deepcopy(module), loaded, taken]
    state = {k: v for k, v in module.state_dict().items() if isinstance(v, torch.Tensor)}
    return [m(*a.args, **a.kwargs) for m in made], state
