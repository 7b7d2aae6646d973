"""A report as one page that needs nothing beside itself."""

from html import escape

from torch_tpu.aot.compiler import CompileError
from torch_tpu.aot.report import COLUMNS, Report, Row, count, size

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1d2430 }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2.5rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid #dde2ea; white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere }
tr.total td { border-top: 2px solid #8a94a6; font-weight: 600 } tr.bad td { color: #b3261e }
.bar { background: #e8ecf2; height: .5rem; width: 6rem; display: inline-block; margin-right: .4rem }
.bar i { background: #3b6ea5; height: 100%; display: block } tr.bad .bar i { background: #b3261e }
details { margin: .3rem 0 } summary { cursor: pointer } pre { overflow-x: auto; background: #f5f7fa; padding: .7rem;
font-size: 12px } .small { color: #5b6676 }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #dfe5ee } th, td { border-color: #2c3440 }
pre { background: #1c222c } .bar { background: #2c3440 } .small { color: #98a3b3 } }
"""


def _row(row: Row) -> str:
    cells = [escape(cell) for cell in row.cells()]
    r = row.result
    share = 1.0 if isinstance(r, CompileError) or not row.chip.memory else min(1.0, r.hbm / row.chip.memory)
    if not row.refused or row.too_large:
        cells[6] = f'<span class="bar"><i style="width:{100 * share:.1f}%"></i></span>{cells[6]}'
    bad = ' class="bad"' if row.refused or row.too_large else ""
    return f"<tr{bad}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _details(row: Row) -> str:
    parts = [f'<p class="small">{escape(row.program.lines)} &middot; {len(row.program.ops)} operators</p>']
    if isinstance(row.result, CompileError):
        parts.append(f"<pre>{escape(str(row.result))}</pre>")
    if peak := row.largest(12):
        rows = "".join(f"<tr><td>{escape(str(b))}</td><td>{size(b.bytes)}</td></tr>" for b in peak)
        parts.append(f"<table><tr><th>alive where most memory is needed</th><th>bytes</th></tr>{rows}</table>")
    slow = sorted((i for i in row.optimized.everything.values() if i.cycles), key=lambda i: -i.cycles)[:12]
    if slow:
        rows = "".join(
            f"<tr><td>{escape(' '.join(p for p in (i.name, i.op, i.line) if p))}</td><td>{escape(i.type)}</td>"
            f"<td>{count(i.cycles)}</td></tr>"
            for i in slow
        )
        parts.append(f"<table><tr><th>instruction</th><th>result</th><th>estimated cycles</th></tr>{rows}</table>")
    for title, text in (("StableHLO", row.program.text), ("Optimized HLO", row.optimized.text)):
        if text:
            parts.append(f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>")
    return f"<details><summary>{escape(row.program.name)}</summary>{''.join(parts)}</details>"


def render(reports: list[Report], title: str) -> str:
    body = []
    for report in reports:
        chip = report.chip
        head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
        total = "".join(f"<td>{escape(cell)}</td>" for cell in report.total_cells())
        body.append(
            f"<h2>{escape(chip.topology)}: {escape(chip.kind)}, {size(chip.memory)} of HBM</h2>"
            f'<p class="small">compiler {escape(chip.compiler)}</p>'
            f"<table><tr>{head}</tr>{''.join(_row(row) for row in report.rows)}"
            f'<tr class="total">{total}</tr></table>{"".join(_details(row) for row in report.rows)}'
        )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>{''.join(body)}</html>\n"
    )
