"""The picture and the table at the end."""

from pathlib import Path

from torch_tpu.demo.train import Run


def plot(runs: list[Run], path: Path) -> None:
    """Loss curves and step times of all runs, as one PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for run, style in zip(runs, ("-", "--", ":", "-."), strict=False):
        left.plot(run.losses, style, label=run.name)
        right.plot([s * 1e3 for s in run.seconds], style, label=run.name, linewidth=1)
    left.set(title="loss", xlabel="step", ylabel="cross entropy (nats a character)")
    right.set(title="time of a step", xlabel="step", ylabel="ms", yscale="log")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def worst_difference(runs: list[Run]) -> float:
    """The largest difference of the last losses."""
    last = [run.losses[-1] for run in runs]
    return max(last) - min(last)


def table(runs: list[Run], tokens_per_step: int) -> str:
    rows = [["run", "loss", "first step s", "step ms", "tokens/s", "programs", "compile s", "hits", "launches/step"]]
    for run in runs:
        stats, tpu = run.stats, run.device == "tpu"
        steps = len(run.losses)
        speed = run.tokens_per_second(tokens_per_step)
        rows.append(
            [
                run.name,
                f"{run.losses[-1]:.5f}",
                f"{run.seconds[0]:.2f}",
                f"{tokens_per_step / speed * 1e3:.1f}",
                f"{speed:,.0f}",
                f"{stats['compiles'] + stats['disk_hits'] + stats['shared_hits']}" if tpu else "-",
                f"{stats['compile_ns'] / 1e9:.1f}" if tpu else "-",
                f"{stats['memory_hits']}" if tpu else "-",
                f"{stats['executions'] / steps:.1f}" if tpu else "-",
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
