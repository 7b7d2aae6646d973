"""`make bench` without its peers: what it prints, what it skips, and how it fails. Figures are not judged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.contestants import Contestant
from bench.page import Results, line, reasons
from bench.rows import CASES, ROWS, Guide, Row

ROOT = Path(__file__).resolve().parent.parent


def bench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def row_of(table: str, *texts: str) -> list[str]:
    """The cells of the one row that has all of these."""
    (found,) = [line for line in table.splitlines() if line.startswith("|") and all(text in line for text in texts)]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_two_cases_without_peers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    nothing = ("--peers", tmp_path, "--build", tmp_path)
    done = bench("--rows", "record,chain", "--rounds", 1, "--core", "any", *nothing, "--page", page)
    assert done.returncode == 0, done.stderr
    assert re.search(r"bench: without jax.jit: .* is not there; `make bench` makes it", done.stderr)
    assert re.search(r"bench: without TorchTPU Strict, TorchTPU DeferAndFuse: ", done.stderr)
    table = page.read_text()
    assert table.splitlines()[2:] and all(text in done.stdout for text in table.splitlines() if text.startswith("|"))
    what, ours, takes, peer, theirs, ratio, at_most, met = row_of(table, "nobody reads")
    assert (ours, peer, at_most) == ("DeferAndFuse", "CPU eager", "0.8")
    assert re.fullmatch(r"[\d.]+ (ns|us|ms)", takes) and re.fullmatch(r"[\d.]+ (ns|us|ms)", theirs)
    assert (float(ratio) <= 0.8) == (met == "yes") or float(ratio) == 0.8
    assert row_of(table, "dependent adds", "jax.jit")[4:6] == ["not there", ""]
    assert "torch 2." in table and "PJRT" in table and "rows without a figure" in table
    assert "depth" not in table and what == CASES["record"].what


def test_one_of_ours_that_fails_is_an_error_and_the_run_goes_on(tmp_path: Path) -> None:
    nothing = ("--peers", tmp_path, "--build", tmp_path)
    done = bench("--rows", "record", "--rounds", 1, "--core", "any", *nothing, TORCH_TPU_PLUGIN="/no/such/plugin.so")
    assert done.returncode == 1
    takes, peer, theirs, ratio = row_of(done.stdout, "nobody reads")[2:6]
    assert "/no/such/plugin.so" in takes and ratio == ""
    assert peer == "CPU eager" and re.fullmatch(r"[\d.]+ (ns|us|ms)", theirs)
    assert "ours failed: record of DeferAndFuse" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--rows", "chain,chains"], "no rows chains; there are engine, chain,"),
        (["--rounds", "0"], "a whole number of 1 or more is wanted, not '0'"),
        (["--core", "4711"], "no core 4711; there are "),
        (["chain"], "unrecognized arguments: chain"),
    ],
)
def test_arguments_that_mean_nothing(arguments: list[str], text: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2 and text in done.stderr


def test_help_tells_the_rows() -> None:
    told = re.sub(r"\s+", " ", bench("--help").stdout)
    assert all(f"{name} ({case.what})" in told for name, case in CASES.items())


NAMED = {key: Contestant(key, key.upper(), []) for key in ("ours", "a", "b")}


def judged(row: Row, **figures: list[float]) -> list[str]:
    return line(row, Results({key: {"seconds": values} for key, values in figures.items()}), NAMED).cells


def test_a_ratio_is_taken_within_a_round() -> None:
    row = Row("chain", "ours", "a", 0.6)
    cells = judged(row, ours=[1.0, 10.0, 2.0], a=[2.0, 20.0, 2.5])
    assert cells[2:] == ["2 s", "A", "2.5 s", "0.50 (0.50 to 0.80)", "0.6", "yes"]
    assert judged(row, ours=[3e-6], a=[4e-6])[2:] == ["3 us", "A", "4 us", "0.75", "0.6", "no, 25.0 % above"]


def test_the_better_of_two_peers_and_a_guide() -> None:
    both = Row("chain", "ours", ("a", "b"))
    assert judged(both, ours=[1.0, 1.0], a=[2.0, 8.0], b=[4.0, 4.0])[3:] == [
        "A or B",
        "3 s",
        "0.38 (0.25 to 0.50)",
        "",
        "",
    ]
    assert judged(both, ours=[1.0], b=[4.0])[5] == "0.25"
    assert judged(Row("chain", "ours", Guide(2.0), 1.0), ours=[1.0])[3:] == ["guide", "2 s", "0.50", "1", "yes"]
    assert judged(both, ours=[1.0])[4:] == ["no figure", "", "", ""]


def test_a_missed_target_has_its_reason_once() -> None:
    rows = [Row("decode", "defer", "a", 0.6, "new"), Row("decode", "defer", "a", 0.2, "seen")]
    named = NAMED | {"defer": Contestant("defer", "DEFER", [])}
    results = Results({"defer": {"new": [3.0], "seen": [1.0]}, "a": {"new": [4.0], "seen": [4.0]}})
    told = reasons([line(row, results, named) for row in rows])
    told = told.replace("\n  ", " ")
    assert told.count("24 % of a token") == 1 and told.count("(DEFER / A)") == 2
    assert Row("decode", "ours", "a", 0.6, "new").missed_since == "not known"
    assert reasons([line(Row("decode", "defer", "a", 0.5, "seen"), results, named)]) == ""


def test_each_row_names_a_case() -> None:
    assert {row.case for row in ROWS} == set(CASES)
