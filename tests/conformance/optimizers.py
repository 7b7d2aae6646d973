"""Examines an optimizer of PyTorch's database: plain, foreach, fused and capturable, with schedulers, and its state."""

import copy
import io
import time
from collections.abc import Callable
from typing import Any

import torch

from .arguments import Arguments
from .comparison import Tolerance
from .errors import Refusal, examine_refusals
from .examine import evenly
from .trial import Run, Worth, trial
from .verdict import Stage, Verdict

STEPS = 4
SHAPES = ((3, 2), (2, 4))  # matrices: Muon takes no others


class OptimizerExamination:
    """``progress`` hears of each call before it is made."""

    def __init__(self, info: Any, dtype: torch.dtype, verdict: Verdict, mode: str, progress: Any) -> None:
        self.info, self.dtype, self.mode, self.progress = info, dtype, mode, progress
        self.verdict = verdict

    def run(self, count: int) -> Verdict:
        start = time.monotonic()
        everything = self.info.optim_inputs_func(device="cpu", dtype=self.dtype)
        samples = evenly(everything, count)
        self.verdict.taken, self.verdict.of = len(samples), len(everything)
        for sample in samples:
            for name, flags in self._ways().items():
                self._stage(name, sample, self._training(sample, flags))
            self._stage("state_dict", sample, self._training(sample, {}, interrupted))
        for make in self.info.scheduler_inputs:
            self._stage("scheduler", samples[0], self._training(samples[0], {}, scheduled(make)))
        if self.info.optim_error_inputs_func is not None:
            self.progress("error inputs")
            self.verdict.errors = examine_refusals(self._refusals(), self.mode)
        self.verdict.seconds = round(time.monotonic() - start, 2)
        return self.verdict

    def _ways(self) -> dict[str, dict[str, bool]]:
        found = {"plain": {flag: False for flag in ("foreach", "fused") if flag in self.info.supported_impls}}
        found |= {flag: {flag: True} for flag in ("foreach", "fused") if flag in self.info.supported_impls}
        if self.dtype.is_complex:
            found.pop("fused", None)  # PyTorch refuses it
        if self.info.has_capturable_arg:
            found["capturable"] = {"capturable": True}
        return found

    def _stage(self, name: str, sample: Any, run: Run) -> None:
        self.progress(f"{name}: {sample.desc}")
        steps = torch.arange(6.0).reshape(2, 3).flatten()
        parameters = [(torch.arange(float(a * b)).reshape(a, b) * 0.3).cos().to(self.dtype) for a, b in SHAPES]
        arguments = Arguments((parameters, steps), {})
        # The steps of a capturable optimizer are float32 numbers on the device, and so is what is made of them.
        tolerance = Tolerance(1e-4, 1e-5) if name == "capturable" else Tolerance()
        worth = Worth(tolerance, strides=False)
        trial(run, arguments, worth, self.mode, self.verdict.stages.setdefault(name, Stage()))

    def _training(self, sample: Any, flags: dict[str, bool], drive: Callable[..., Any] | None = None) -> Run:
        """A run of a few steps; the CPU takes them plainly, since it has no capturable form."""

        def run(a: Arguments, device: str) -> Any:
            parameters = [torch.nn.Parameter(p) for p in a.args[0]]
            here = flags if device != "cpu" else {f: False for f in flags if f in ("foreach", "fused")}

            def make(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
                return self.info.optim_cls(parameters, **copy.deepcopy(sample.kwargs), **here)

            optimizer = make(parameters)
            if drive is None:
                for _ in range(STEPS):
                    step(optimizer, parameters)
            else:
                optimizer, parameters = drive(optimizer, parameters, make)
            state = [
                {k: v for k, v in optimizer.state[p].items() if isinstance(v, torch.Tensor) and v.dim() > 0}
                for p in parameters
            ]
            return parameters, state

        return run

    def _refusals(self) -> list[Refusal]:
        found = []
        for case in self.info.optim_error_inputs_func(device="cpu", dtype=self.dtype):
            given = case.optimizer_error_input

            def run(device: str, given: Any = given) -> Any:
                parameters = given.params
                if parameters is None:
                    parameters = [torch.nn.Parameter(torch.ones(2, 2, dtype=self.dtype, device=device))]
                optimizer = self.info.optim_cls(parameters, **given.kwargs)
                optimizer.step()

            found.append(Refusal(given.desc, run))
        return found


def step(optimizer: torch.optim.Optimizer, parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((((p - 0.4) * (1 + p)).abs() ** 2).sum() for p in parameters)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        return loss

    if type(optimizer) is torch.optim.LBFGS:
        return optimizer.step(closure)
    loss = closure()
    optimizer.step()
    return loss


def interrupted(optimizer: Any, parameters: list[torch.nn.Parameter], make: Any) -> Any:
    """Half of the steps; then another optimizer goes on from the saved state."""
    for _ in range(STEPS // 2):
        step(optimizer, parameters)
    saved = io.BytesIO()
    torch.save(optimizer.state_dict(), saved)
    saved.seek(0)
    others = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
    other = make(others)
    other.load_state_dict(torch.load(saved))
    for _ in range(STEPS // 2):
        step(other, others)
    return other, others


def scheduled(make_schedulers: Any) -> Callable[..., Any]:
    def drive(optimizer: Any, parameters: list[torch.nn.Parameter], make: Any) -> Any:
        schedulers = [make_one(optimizer) for make_one in make_schedulers]
        for _ in range(STEPS):
            loss = step(optimizer, parameters)
            for scheduler in schedulers:
                plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
                scheduler.step(*([loss] if plateau else []))
        return optimizer, parameters

    return drive
