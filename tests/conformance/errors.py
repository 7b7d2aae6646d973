"""Calls that PyTorch refuses: the device should refuse them with the same exception, in the same words."""

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch_tpu

from .arguments import Arguments
from .comparison import taken
from .verdict import ErrorCases
from .watching import settle

EXAMPLES = 6


def told(error: BaseException) -> str:
    """An exception on one line, without the C++ stack and the line of Python that recorded the operator."""
    text = re.split(r"\n(?:C\+\+|Exception raised from)", str(error))[0]
    return f"{type(error).__name__}: {re.sub(r' recorded at [^ ]+:[0-9]+', '', ' '.join(text.split()))[:400]}"


def words(error: BaseException) -> str:
    """What an exception says, with the CPU's name for the device's."""
    return re.sub(r"(\b|(?<=_))tpu(:0)?\b", "cpu", told(error))


def _refusal(run: Callable[[], Any]) -> Exception | None:
    try:
        taken(run())
    except Exception as error:
        settle()
        return error
    return None


@dataclass(frozen=True)
class Refusal:
    """A call that the CPU may refuse; ``run`` takes the name of a device."""

    said: str
    run: Callable[[str], Any]


def examine_errors(op: Any, mode: str) -> ErrorCases:
    """Runs the error inputs of an OpInfo on both devices."""

    def refusal(case: Any) -> Refusal:
        arguments = Arguments.of(case.sample_input)

        def run(device: str) -> Any:
            placed = arguments.on(device)
            return op(*placed.args, **placed.kwargs)

        return Refusal(str(arguments), run)

    return examine_refusals(map(refusal, op.error_inputs("cpu")), mode)


def examine_refusals(cases: Iterable[Refusal], mode: str) -> ErrorCases:
    found = ErrorCases()
    for case in cases:
        want = _refusal(functools.partial(case.run, "cpu"))
        if want is None:
            continue  # the CPU takes it: an error of some other device only
        with torch_tpu.eager_mode(mode):
            got = _refusal(functools.partial(case.run, "tpu"))
        found.cases += 1
        found.same_type += type(got) is type(want)
        same_words = type(got) is type(want) and words(got) == words(want)
        found.same_words += same_words
        if not same_words and len(found.examples) < EXAMPLES:
            mine = told(got) if got is not None else "no error"
            found.examples.append(f"{case.said} -> {mine} | CPU: {told(want)}")
    return found
