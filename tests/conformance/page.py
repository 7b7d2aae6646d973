"""docs/conformance.md: what the sweep found, for people."""

from collections import Counter

import torch

from . import selection
from .verdict import CLASSES, GOOD, Verdict

# Percent of pairs that should be native or decomposed: without gradients, and with them.
TARGETS: dict[str, tuple[int, int | None]] = {
    "float32": (98, 97),
    "bfloat16": (96, None),
    "int64": (97, None),
    "int32": (97, None),
    "uint8": (97, None),
    "bool": (97, None),
    "complex64": (90, None),
}

# The other databases, with what an entry's classes come from.
OTHERS = {
    "module": "modules (`module_db`; in training and evaluation, backward, state, deep copies, pickles)",
    "optim": "optimizers (`optim_db`; plain, foreach, fused, capturable, with schedulers, going on from a saved state)",
    "hop": "higher-order operators (`hop_db`)",
    "function": "autograd functions (`autograd_function_db`)",
}

HOW = """\
## How it was made

`make conformance` runs PyTorch {torch}'s operator database (`op_db`) on the device
and on the CPU, in worker processes, in mode "{mode}". A pair is an operator in a dtype that PyTorch supports for it on
the CPU. Of its samples at most {samples} run, chosen evenly: {taken:,} of {of:,} here. Each runs forward, in place,
with `out=` (a target of the right size and, once, an empty one), and backward.

| class | meaning |
|---|---|
| native | right, and all of it ran on the device by lowerings of its own |
| decomposed | right, and on the device, with one of PyTorch's decompositions |
| fallback | right, but an operator ran on the CPU |
| wrong | values, shape, dtype or strides differ from the CPU's (of gradients, strides do not count) |
| error | it raises where the CPU does not, or the other way round |
| hang, crash | the process did not come back, or died |

A pair is what the worst of its calls is. Values are compared with the tolerance of `torch.testing.assert_close`, or
the one that PyTorch's own tests allow the operator. A float narrower than float64 is also right if it is as near to
the result in float64 as the CPU's is, times four, or right where the CPU's overflows. Where an operator draws random
numbers, the distributions are compared, coarsely; where it returns memory that nobody wrote, only shape, dtype and
strides. Eigenvectors and the like are compared as PyTorch's tests do, up to what is not unique in them. Other things
that PyTorch leaves open are no fault either: which of equal elements an index names unless the order is stable, on
which branch a complex logarithm lies, whether statistics saved for the backward are rounded to the dtype of the
parameters, and that interpolated uint8 is nearer to the exact result than the CPU's, which computes it in 16-bit
integers. Not swept:

{left_out}

`tests/conformance/ledger.json` lists what is expected not to be native; `--check` fails where a result is worse than
that, or better.
"""


def _percent(good: int, of: int) -> str:
    return f"{100 * good / of:.1f} %" if of else "-"


def _totals(verdicts: list[Verdict], wanted: dict[str, tuple[int, int | None]]) -> list[str]:
    lines = [
        "| dtype | pairs | right and on the device | target | with gradients | target | " + " | ".join(CLASSES) + " |",
        "|---|" + "---:|" * (5 + len(CLASSES)),
    ]
    for dtype in selection.DTYPES:
        mine = [v for v in verdicts if v.dtype == dtype]
        if not mine:
            continue
        forward = sum(v.forward in GOOD for v in mine)
        whole = sum(v.outcome in GOOD for v in mine)
        targets = [f"{t} %" if t else "" for t in wanted.get(dtype, (None, None))]
        counts = Counter(v.outcome for v in mine)
        row = [dtype, len(mine), _percent(forward, len(mine)), targets[0], _percent(whole, len(mine)), targets[1]]
        lines.append("| " + " | ".join(map(str, row + [counts[c] for c in CLASSES])) + " |")
    return lines


def _refusals(verdicts: list[Verdict]) -> list[str]:
    cases = {v.op: v.errors for v in verdicts if v.errors is not None and v.errors.cases}
    total = sum(e.cases for e in cases.values())
    alike, worded = (sum(getattr(e, how) for e in cases.values()) for how in ("same_type", "same_words"))
    lines = [
        f"PyTorch also lists calls that must be refused: {total:,} for {len(cases)} operators. The device raises",
        f"the same exception in {alike:,} ({_percent(alike, total)}), in the same words in {worded:,}",
        f"({_percent(worded, total)}). Those that differ:\n",
        "| operator | calls | same exception | same words |",
        "|---|---:|---:|---:|",
    ]
    for op, e in sorted(cases.items()):
        if e.same_words < e.cases:
            lines.append(f"| {op} | {e.cases} | {e.same_type} | {e.same_words} |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")[:160]


def _table(verdicts: list[Verdict]) -> list[str]:
    """A line for each operator, class and reason, with the dtypes that share them."""
    rows: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        if v.outcome not in GOOD:
            rows.setdefault((v.op, v.outcome), []).append(v)
    lines = ["| operator | class | dtypes | first failure |", "|---|---|---|---|"]
    for (op, outcome), same in sorted(rows.items()):
        dtypes = ", ".join(v.dtype for v in same)
        lines.append(f"| {op} | {outcome} | {dtypes} | {_cell(same[0].reason)} |")
    return lines


def render(verdicts: list[Verdict], *, mode: str, samples: int) -> str:
    """The page, from the verdicts of any number of runs."""
    order = {dtype: i for i, dtype in enumerate(selection.DTYPES)}
    verdicts = sorted(verdicts, key=lambda v: (order[v.dtype], v.op))
    ops = [v for v in verdicts if selection.database_of(v.op) == "op"]
    main = [v for v in ops if not selection.factorisation(v.op)]
    matrix = [v for v in ops if selection.factorisation(v.op)]
    others = {base: [v for v in verdicts if selection.database_of(v.op) == base] for base in OTHERS}
    left_out = "\n".join(f"- {why}: {', '.join(names)}" for why, names in selection.LEFT_OUT.items())
    how = HOW.format(
        torch=torch.__version__.split("+")[0],
        mode=mode,
        samples=samples,
        taken=sum(v.taken for v in verdicts),
        of=sum(v.of for v in verdicts),
        left_out=left_out,
    )
    parts = [
        "# Conformance with PyTorch's own databases\n",
        f"{len({v.op for v in main})} operators:\n",
        *_totals(main, TARGETS),
        f"\nMatrix factorisations and what stands on them, {len({v.op for v in matrix})} operators:\n",
        *_totals(matrix, {}),
        *(
            line
            for base, mine in others.items()
            if mine
            for line in (f"\n{len({v.op for v in mine})} {OTHERS[base]}:\n", *_totals(mine, {}))
        ),
        "\n## What is not native\n",
        *_table(main),
        "\n### Matrix factorisations\n",
        *_table(matrix),
        "\n### The other databases\n",
        *_table([v for mine in others.values() for v in mine]),
        "\n## Calls that are refused\n",
        *_refusals(verdicts),
        "\n" + how.rstrip(),
    ]
    return "\n".join(parts) + "\n"
