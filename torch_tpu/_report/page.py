"""Figures as one page that needs nothing beside itself: no network, no library."""

import json
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def render(figures: dict[str, Any]) -> str:
    # In a script element only "</" and "<!--" mean something else than in JSON.
    data = json.dumps(figures, separators=(",", ":")).replace("<", "\\u003c")
    page = (HERE / "page.html").read_text()
    parts = {
        "TITLE": escape(figures["title"]),
        "STYLE": (HERE / "page.css").read_text(),
        "SCRIPT": (HERE / "page.js").read_text(),
        "DATA": data,
    }
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text)
    return page
