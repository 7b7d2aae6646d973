"""Examines one operator in one dtype, in every way to call it."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from . import latitude, randomness, selection
from .arguments import Arguments, leaves, mapped, placed
from .comparison import Result, Tolerance
from .errors import examine_errors
from .trial import Outputs, Run, Worth, call, trial
from .verdict import Stage, Verdict


def evenly(items: list[Any], count: int) -> list[Any]:
    """At most ``count`` of the items, first and last among them, at even distances."""
    if len(items) <= count:
        return items
    if count == 1:
        return items[:1]
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


class Examination:
    """``progress`` hears of each call before it is made, so that a crash can be told by the last."""

    def __init__(
        self,
        op: Any,
        dtype: torch.dtype,
        verdict: Verdict,
        mode: str,
        progress: Callable[[str], None],
    ) -> None:
        self.op, self.mode, self.progress = op, mode, progress
        self.dtype = dtype
        self.gradients = self.dtype in op.supported_backward_dtypes("cpu")
        self.worth = Worth(
            Tolerance.of(op, self.dtype),
            not selection.undefined_contents(verdict.op),
            wider=latitude.wider(verdict.op),
            coarse=latitude.coarse(verdict.op, self.dtype),
        )
        self.verdict = verdict

    def run(self, count: int) -> Verdict:
        """Runs at most ``count`` of the operator's samples, and the error inputs if it is their turn."""
        start = time.monotonic()
        self.progress("making samples")
        everything = list(self.op.sample_inputs("cpu", self.dtype, requires_grad=self.gradients))
        samples = evenly(everything, count)
        self.verdict.taken, self.verdict.of = len(samples), len(everything)
        draws = self._draws(samples)
        for i, sample in enumerate(samples):
            worth = replace(self.worth, draws=draws[i])
            if selection.factorisation(self.verdict.op):
                worth = replace(worth, process=_as_tests_do(sample))
            elif process := latitude.results(self.verdict.op, Arguments.of(sample)):
                worth = replace(worth, process=process)
            self._sample(sample, worth, i)
        if selection.takes_error_inputs(self.verdict.op, self.verdict.dtype):
            self.progress("error inputs")
            self.verdict.errors = examine_errors(self.op, self.mode)
        self.verdict.seconds = round(time.monotonic() - start, 2)
        return self.verdict

    def _sample(self, sample: Any, worth: Worth, i: int) -> None:
        arguments = Arguments.of(sample, selection.ON_HOST.get(self.verdict.op, ()))

        def stage(name: str, run: Run, worth: Worth = worth) -> Outputs | None:
            self.progress(f"sample {i}, {name}: {arguments}")
            notes = self.verdict.stages.setdefault(name, Stage())
            exact = None if name == "gradient" else self._forward
            return trial(run, arguments, worth, self.mode, notes, exact)

        if (want := stage("forward", self._forward)) is None:
            return
        results = leaves(want.returned)
        if self.op.inplace_variant and isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input:
            stage("inplace", self._inplace)
        if self.op.supports_out and results and all(isinstance(r, Result) for r in results):
            stage("out", self._into(want.returned, torch.ones_like))
            if i == 0:  # a target of another size takes that of the result
                stage("out", self._into(want.returned, lambda t: t.new_empty(0)))
        if self.gradients and arguments.wanting_gradients():
            # Of random numbers the gradients are random too: that they exist, in their shape, is what is left to check.
            contents = worth.contents and not worth.draws
            plain = replace(
                worth,
                process=latitude.gradients(self.verdict.op, arguments),
                draws=False,
                contents=contents,
                strides=False,
            )
            stage("gradient", self._backward(sample), plain)

    def _forward(self, a: Arguments, device: str) -> Any:
        with torch.no_grad():
            return self.op(*a.args, **a.kwargs)

    def _inplace(self, a: Arguments, device: str) -> Any:
        with torch.no_grad():
            returned = self.op.inplace_variant(*a.args, **a.kwargs)
        return returned if returned is a.args[0] else (returned, a.args[0])

    def _into(self, results: Any, target: Callable[[torch.Tensor], torch.Tensor]) -> Run:
        def run(a: Arguments, device: str) -> Any:
            targets = mapped(results, lambda r: placed(target(r.value), device))
            with torch.no_grad():
                self.op(*a.args, **a.kwargs, out=tuple(targets) if isinstance(targets, tuple) else targets)
            return targets

        return run

    def _backward(self, sample: Any) -> Run:
        def run(a: Arguments, device: str) -> Any:
            outputs = leaves(sample.output_process_fn_grad(self.op(*a.args, **a.kwargs)))
            outs = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
            seeds = [cotangent(t).to(device) for t in outs]
            return torch.autograd.grad(outs, a.wanting_gradients(), seeds, allow_unused=True) if outs else ()

        return run

    def _draws(self, samples: list[Any]) -> list[bool]:
        """For which samples the operator draws: on the CPU, other seeds give other numbers."""

        def draws(sample: Any, seeds: int) -> bool:
            def run() -> Outputs:
                return call(self._forward, Arguments.of(sample), "cpu", self.worth)

            with contextlib.suppress(Exception):
                return randomness.differ([randomness.seeded(run, seed).returned for seed in range(seeds)])
            return False

        if not self.worth.contents or not any(draws(sample, 3) for sample in samples):
            return [False] * len(samples)
        return [draws(sample, 12) for sample in samples]


def _as_tests_do(sample: Any) -> latitude.Process:
    return lambda outputs, _: sample.output_process_fn_grad(outputs)


def cotangent(t: torch.Tensor) -> torch.Tensor:
    """What is sent backward: no two neighbours alike, so that a wrong transposition shows; exact in every dtype."""
    numbers = (torch.arange(t.numel(), dtype=torch.float32) % 13 - 4) / 4
    values = numbers.to(t.dtype)
    return (torch.complex(numbers, numbers.flip(0)).to(t.dtype) if t.is_complex() else values).reshape(t.shape)
