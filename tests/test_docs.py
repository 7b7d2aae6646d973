"""Every Python snippet of the README and of docs/ runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "csrc").glob("*/README.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}:{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(code: str, python: Callable[..., object]) -> None:
    python(code)


def test_make_targets_that_the_readme_names_exist() -> None:
    text, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z-]+)", text)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"README names `make {target}`"


def test_links_lead_to_files() -> None:
    for page in PAGES:
        text = re.sub(r"^    .*$", "", page.read_text(), flags=re.MULTILINE)  # code
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
