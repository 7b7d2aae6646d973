"""The page of a run: its figures, the command, and what a browser makes of it."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import PROGRAM, Browser, browser
from ledger import NEEDS_BROWSER

import torch_tpu
from torch_tpu import aot
from torch_tpu._report import figures as gathering
from torch_tpu._report.figures import recorded
from torch_tpu._report.page import render

needs_browser = pytest.mark.skipif(PROGRAM is None, reason=NEEDS_BROWSER)

SCRIPT = """
import sys
import torch

x = torch.ones(60, 8, device="tpu")
for n in range(1, int(sys.argv[1])):
    y = x[:n].exp()
print("name", __name__, sys.argv)
print(y.sum().item())
sys.exit(3)
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("report")

    def run(*args: str, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
        (folder / "train.py").write_text(script)
        done = subprocess.run(
            [sys.executable, "-m", "torch_tpu", "report", *args], cwd=folder, capture_output=True, text=True
        )
        done.folder = folder  # type: ignore[attr-defined]
        return done

    return run


@pytest.fixture(scope="module")
def page(command: Any) -> Path:
    """Of a real run, with a storm."""
    done = command("-o", "run.html", "--json", "run.json", "train.py", "36", "<b>")
    assert done.returncode == 3 and "name __main__ ['train.py', '36', '<b>']" in done.stdout, done.stderr
    assert "CompileStormWarning" in done.stderr and "launches: run.html" in done.stderr
    return done.folder / "run.html"


def test_the_figures_of_a_run(page: Path) -> None:
    run = json.loads(page.with_suffix(".json").read_text())
    programs = run["programs"]
    assert run["title"] == "train.py 36 <b>" and run["unlisted"] == 0
    assert len(programs) == run["stats"]["compiles"] == len({p["key"] for p in programs})
    exps = [p for p in programs if p["name"] == "aten::exp"]
    assert len(exps) == 35 and {p["launches"] for p in exps} == {1} and all(p["launch_seconds"] > 0 for p in exps)
    assert sum(p["launches"] for p in programs) == run["stats"]["executions"] == len(run["launches"]["each"])
    assert all(0 <= p["started"] <= run["seconds"] for p in programs)
    assert all(0 <= at <= run["seconds"] for at, _, _ in run["launches"]["each"])
    assert max(b for _, b in run["memory"]) >= 60 * 8 * 4
    (storm,) = run["storms"]
    assert storm["versions"] == 35 and storm["line"].endswith("train.py:7") and storm["names"] == "aten::exp"
    assert "`self`.shape[0] of aten::exp went from 34 to 35" in storm["reason"]


def test_a_page_is_made_of_figures_again(page: Path, command: Any) -> None:
    done = command("--quiet", "-o", "again.html", "run.json")
    assert done.returncode == 0 and done.stderr == ""
    assert page.with_name("again.html").read_text() == page.read_text()
    page.with_name("other.json").write_text('{"torch_tpu_report": 7}')
    assert "other.json is of another version" in command("other.json").stderr
    page.with_name("other.json").write_text("[]")
    assert "is not what `python -m torch_tpu report --json` writes" in command("other.json").stderr
    assert "no script absent.py" in command("absent.py").stderr


def test_an_error_of_the_script_does_not_lose_the_page(command: Any) -> None:
    done = command("train.py", script="import torch\nx = torch.ones(3).tpu().exp()\nraise KeyError('lost')\n")
    assert done.returncode == 1 and "KeyError: 'lost'" in done.stderr
    assert "aten::exp" in (done.folder / "report.html").read_text()
    nothing = command("train.py", script="print('none')\n")
    assert nothing.returncode == 0 and "report: 0 programs, 0 launches" in nothing.stderr


def test_the_page_needs_nothing_and_holds_anything() -> None:
    with recorded("</script><!-- <b>&") as figures:
        pass
    text = render(figures)
    assert "http" not in text.replace("https://", "http") and "src=" not in text and "@import" not in text
    data = text.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data) == figures and text.count("</script>") == 2


def test_many_launches_are_shown_as_parts_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MOST_LAUNCHES", 10)
    x = torch.ones(7).tpu()
    with recorded("") as figures:
        for _ in range(30):
            x.exp()
    launches = figures["launches"]
    assert figures["traced"] == [30, 30] and len(launches["busy"]) == gathering.INTERVALS
    assert 0 < sum(launches["busy"]) * launches["width"] < figures["seconds"]
    assert max(launches["busy"]) <= 1


def test_launches_are_seen_while_programs_are_collected() -> None:
    x = torch.ones(7).tpu()
    with recorded("") as figures:
        with aot.capture() as programs:
            x.sin().sum().item()
        x.cos()
    assert [p.times for p in programs] == [1] and figures["traced"] == [2, 2]
    x.cos()
    with recorded("") as figures:
        pass
    assert figures["traced"] == [0, 0] and torch_tpu._C.traced_launches()["launches"] == []


# --- in a browser ---


@pytest.fixture(scope="module")
def tab(tmp_path_factory: Any) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


ROWS = "[...document.querySelectorAll('#programs tbody tr:not(.detail)')]"


def cells(tab: Browser, column: int) -> list[str]:
    return tab.run(f"{ROWS}.map(tr => tr.cells[{column}].textContent)")


def head(tab: Browser, name: str) -> None:
    tab.run(f"[...document.querySelectorAll('th button')].find(b => b.textContent === {name!r}).click()")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(tab: Browser, page: Path, dark: bool, width: int) -> None:
    tab.open(page, width=width, dark=dark)
    assert tab.complaints() == []
    assert tab.run("document.querySelector('h1').textContent") == "train.py 36 <b>"
    assert "35 versions of aten::exp" in tab.run("document.querySelector('#storms').innerText")
    assert tab.run("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
    light = tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (light < 60) == dark
    # Something of each track is drawn: pixels that are not of the ground.
    drawn = tab.run(
        "(() => { const c = document.getElementById('time'), k = devicePixelRatio, found = [];"
        "for (const y of [10, 50, 130]) { const d = c.getContext('2d')"
        ".getImageData(86 * k, y * k, c.width - 86 * k, 20 * k).data;"
        "found.push(d.some((v, i) => i % 4 === 3 && v)); } return found; })()"
    )
    assert drawn == [True, True, True]


@needs_browser
def test_it_sorts_filters_and_opens_rows(tab: Browser, page: Path) -> None:
    tab.open(page)
    count = len(cells(tab, 0))
    head(tab, "#")
    numbers = [int(n) for n in cells(tab, 0)]
    assert numbers == sorted(numbers, reverse=True)
    head(tab, "#")
    assert [int(n) for n in cells(tab, 0)] == numbers[::-1]
    assert tab.run("document.querySelector('th[aria-sort]').ariaSort") == "ascending"
    tab.run("(f => { f.value = 'SUM'; f.oninput(); })(document.getElementById('filter'))")
    assert set(cells(tab, 1)) == {"aten::sum"} and f"of {count}" in tab.run("shown.textContent")
    tab.run("(f => { f.value = ''; f.oninput(); })(document.getElementById('filter'))")
    tab.run("(k => { k.value = 'dimensions'; k.onchange(); })(document.getElementById('kind'))")
    assert len(cells(tab, 1)) == 34
    tab.run(f"{ROWS}[33].click()")
    detail = tab.run("document.querySelector('tr.detail').innerText")
    assert "train.py:7" in detail and "to avoid it" in detail and "went from 34 to 35" in detail
    tab.run("document.querySelector('tr.chosen').click()")
    assert tab.run("document.querySelector('tr.detail') === null") and tab.complaints() == []


@needs_browser
def test_the_time_line_is_pointed_at_zoomed_and_moved(tab: Browser, page: Path) -> None:
    tab.open(page)
    last = json.loads(page.with_suffix(".json").read_text())["programs"][-1]
    left, top, width, seconds = tab.run(
        "(r => [r.left, r.top, r.width, JSON.parse(data.textContent).seconds])(time.getBoundingClientRect())"
    )
    x = left + 86 + (last["started"] + last["seconds"] / 2) / seconds * (width - 86)
    tab.mouse("mouseMoved", x, top + 15)
    tip = tab.run("tip.hidden ? '' : tip.textContent")
    assert last["name"] in tip and last["reason"] in tip
    before = tab.run("time.toDataURL()")
    tab.click(x, top + 15)
    assert last["key"] in tab.run("document.querySelector('tr.detail').textContent")
    chosen = tab.run("time.toDataURL()")
    assert chosen != before, "the program that is chosen has a frame"
    tab.run("scrollTo(0, 0)")
    tab.mouse("mouseWheel", x, top + 15, deltaX=0, deltaY=-900)
    tab.run("new Promise(requestAnimationFrame)")
    zoomed = tab.run("time.toDataURL()")
    assert zoomed != chosen
    tab.run("time.focus()")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft")
    assert tab.run("time.toDataURL()") != zoomed
    tab.run("all.click()")
    assert tab.run("time.toDataURL()") == chosen and tab.complaints() == []


@needs_browser
def test_five_thousand_programs(tab: Browser, page: Path, tmp_path: Path) -> None:
    run = json.loads(page.with_suffix(".json").read_text())
    pick = random.Random(1)
    programs = []
    for i in range(5000):
        one = dict(
            pick.choice(run["programs"]), number=i, started=i * 1e-3, seconds=pick.expovariate(1000), thread=i % 3
        )
        programs.append(one | {"source": pick.choice(["compiled", "shared", "disk", "remote"])})
    launches = {"each": [[i * 2.5e-4, 1e-4, i % 5000] for i in range(20000)]}
    file = tmp_path / "large.html"
    file.write_text(render(run | {"programs": programs, "seconds": 5.0, "launches": launches}))
    tab.open(file)
    assert tab.complaints() == [] and len(cells(tab, 0)) == 200
    took = tab.run(
        "(t => { document.querySelectorAll('th button')[1].click(); return performance.now() - t })(performance.now())"
    )
    assert took < 2000
    tab.run("scrollTo(0, document.body.scrollHeight)")
    tab.run("new Promise(done => setTimeout(done, 300))")
    assert len(cells(tab, 0)) > 200
    tab.run("(s => { s.value = 'remote'; s.onchange(); })(source)")
    expected = sum(p["source"] == "remote" for p in programs)
    assert f"{expected:,} of 5,000" in tab.run("shown.textContent") and set(cells(tab, 9)) == {"remote"}
