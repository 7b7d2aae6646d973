"""Operators that draw: two runs differ, so what is compared is the distribution, coarsely."""

import math
from collections.abc import Callable
from typing import Any

import torch

from .arguments import leaves
from .comparison import Result

DRAWS = 48


def differ(runs: list[Any]) -> bool:
    """Whether runs of one call, as ``taken`` returns them, gave different numbers."""
    first = runs[0]
    return any(_unequal(a, b) for other in runs[1:] for a, b in zip(leaves(first), leaves(other), strict=True))


def _unequal(a: Any, b: Any) -> bool:
    if isinstance(a, Result) and isinstance(b, Result):
        return not torch.equal(a.value.nan_to_num(), b.value.nan_to_num())
    return isinstance(a, (int, float)) and a != b and not (a != a and b != b)


def seeded(run: Callable[[], Any], seed: int) -> Any:
    torch.manual_seed(seed)
    return run()


def distributions_differ(device: Callable[[], Any], cpu: Callable[[], Any]) -> str | None:
    """Draws many times on both; says so where the distributions are plainly not the same.

    The measure is the greatest distance of the two distribution functions. Elements of one draw may depend on each
    other (a dropped channel), so only the draws count as evidence: half of the mass in the wrong place is seen, a finer
    error is for the operator's own tests.
    """
    mine = [_numbers(seeded(device, 100 + i)) for i in range(DRAWS)]
    theirs = [_numbers(seeded(cpu, 1000 + i)) for i in range(DRAWS)]
    allowed = 2.3 * math.sqrt(2 / DRAWS)
    for i in range(len(theirs[0])):
        a, b = (torch.cat([run[i] for run in runs]) for runs in (mine, theirs))
        if bool(a.isfinite().all()) != bool(b.isfinite().all()):
            return "distribution: one is finite, the other is not"
        if a.numel() and (d := distance(a, b)) > allowed:
            return f"distribution: the functions differ by up to {d:.2f}"
        if len(theirs) > 1 and a.numel() and len(a.unique()) == 1 and len(b.unique()) > 1:
            return f"distribution: always {a[0].item()}"
    return None


def _numbers(run: Any) -> list[torch.Tensor]:
    """The numbers of a run, a flat float64 tensor for each result."""
    found = []
    for leaf in leaves(run):
        if isinstance(leaf, Result):
            value = torch.view_as_real(leaf.value) if leaf.value.is_complex() else leaf.value
            found.append(value.double().flatten())
        elif isinstance(leaf, (int, float)):
            found.append(torch.tensor([float(leaf)], dtype=torch.float64))
    return found


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Greatest distance between the empirical distribution functions of two samples."""
    a, b = a.nan_to_num().sort().values, b.nan_to_num().sort().values
    points = torch.cat([a, b])
    below_a = torch.searchsorted(a, points, right=True) / a.numel()
    below_b = torch.searchsorted(b, points, right=True) / b.numel()
    return (below_a - below_b).abs().max().item()
