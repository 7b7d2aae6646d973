"""Programs that other processes left in the cache, and that this one cannot use: which part of the options differs."""

import functools
import re
from pathlib import Path

from torch_tpu import _C

OPTIONS_AT = 32  # of a key's hexadecimal digits; before them are structure and dimensions


@functools.lru_cache(1)
def _files(place: str) -> dict[str, list[str]]:
    """Names of entries by structure and dimensions. Listed once: what counts is what was there before."""
    found: dict[str, list[str]] = {}
    if place and "://" not in place:
        for path in Path(place).glob("*.entry"):
            found.setdefault(path.name[:OPTIONS_AT], []).append(path.name)
    return found


def _parts(made_by: str) -> dict[str, str]:
    versions, _, digests = made_by.partition(" [")
    parts = dict(re.findall(r"([^;\[\]]+) ([0-9a-f]{16})(?:; |\]|$)", digests))
    release, _, rest = versions.partition(", ")
    return {"version of torch_tpu": release, "plugin's name or version": rest, **parts}


def other_options(key: str) -> str:
    """For a program that was compiled: "" or a sentence on one with the same key but for its options."""
    place = _C.cache_place()
    found: list[list[str]] = []  # parts that differ, of each
    for name in _files(place).get(key[:OPTIONS_AT], ()):
        if name.startswith(key):
            continue
        try:
            with open(Path(place, name), "rb") as file:
                theirs = _parts(_C.cache_label(file.read(_C.cache_label_size))["made_by"])
        except (OSError, ValueError):
            continue
        ours = _parts(_C.cache_made_by())
        found.append([part for part in ours if part in theirs and ours[part] != theirs[part]])
    if not found:
        return ""
    closest = min(found, key=len)
    what = ", ".join(closest) or "something else"
    return f"in {place} it was made by a process that differs in: {what}"
