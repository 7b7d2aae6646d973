"""docs/tpu-check.md."""

from collections import Counter

from .verdict import Verdict

HEAD = """# What a TPU's compiler makes of our programs

Written by `make tpu-check`: libtpu compiles, on a machine without a TPU, a program for each row of the op table (its
lowering alone; of those that PyTorch's operator database, and `tools/tpu_check/direct.py` where it has none, call for,
one of middle length) and every program of three training steps of the models in `tests/test_models.py`. All rows are
compiled for v6e; for the other chips, the models and a tenth of the rows, chosen by a hash of the name. A row that
takes no bfloat16 stands for float32 alone, and one that takes no floats for int64. That a program compiles says
nothing of its numbers: those are compared on the CPU
([conformance](conformance.md)).

"""


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def render(verdicts: list[Verdict], missing: list[str], compiler: str) -> str:
    lines = [HEAD + f"Compiler: libtpu, {compiler}.\n", "| chip | programs | dtype | compiled | of | share | refused | "
             "compiler crashed | median compile |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    groups: dict[tuple[str, bool, str], list[Verdict]] = {}
    for v in verdicts:
        groups.setdefault((v.chip, v.is_row, v.dtype), []).append(v)
    for (chip, is_row, dtype), group in sorted(groups.items(), key=lambda g: (g[0][0] != "v6e", *g[0])):
        good = sum(not v.error for v in group)
        crashed = sum(v.crashed for v in group)
        middle = sorted(v.seconds for v in group)[len(group) // 2]
        lines.append(
            f"| {chip} | {'rows of the op table' if is_row else 'models'} | {dtype} | {good} | {len(group)} | "
            f"{percent(good, len(group))} | {len(group) - good - crashed} | {crashed} | {middle:.2f} s |"
        )
    bad = [v for v in verdicts if v.error]
    lines.append(f"\n## Refused: {len({v.key for v in bad})} programs\n")
    if bad:
        lines += ["| program | dtype | chips | reason |", "|---|---|---|---|"]
        for key in sorted({(v.name, v.dtype) for v in bad}):
            same = [v for v in bad if (v.name, v.dtype) == key]
            reason = Counter(v.error for v in same).most_common(1)[0][0].replace("|", "\\|")
            lines.append(f"| {key[0]} | {key[1]} | {', '.join(sorted(v.chip for v in same))} | {reason} |")
    else:
        lines.append("None.")
    lines.append(f"\n## Rows that nothing here calls: {len(missing)}\n")
    lines.append(", ".join(f"`{name}`" for name in missing) + "." if missing else "None.")
    return "\n".join(lines) + "\n"
