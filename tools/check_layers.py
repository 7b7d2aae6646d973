"""Checks that includes in csrc/ go downward only: to the own layer or to one listed for it here.

A test (*_test.cc) or benchmark (*_bench.cc) may look sideways and up, as it is linked whole; it may not bring torch
into a layer that has none.
"""

import re
import sys
from pathlib import Path

# A layer, and the layers that it sees.
SEES: dict[str, set[str]] = {
    "base": set(),
    "pjrt": {"base"},
    "hlo": {"base"},
    "cache": {"base", "pjrt", "hlo"},
    "runtime": {"base", "pjrt", "hlo", "cache"},
    "ops": {"base", "hlo"},
    "aten": {"base", "pjrt", "hlo", "cache", "runtime", "ops"},
    "distributed": {"base", "pjrt", "hlo", "cache", "runtime", "ops", "aten"},
    "python": {"base", "pjrt", "hlo", "cache", "runtime", "ops", "aten", "distributed"},
}
SEE_TORCH = {"aten", "distributed", "python"}
TORCH = re.compile(r"(ATen|torch|c10|caffe2|pybind11)/|Python\.h$")
GENERATED = {"overloads.inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def complaint(layer: str, is_test: bool, quote: str, target: str) -> str | None:
    if TORCH.match(target):
        return None if layer in SEE_TORCH else f"{layer}/ knows nothing of torch or Python"
    if target == "pjrt_c_api.h":
        return None if layer == "pjrt" else "only pjrt/ sees the C API"
    if quote == "<" or target in GENERATED:
        return None
    seen = target.split("/")[0]
    if "/" not in target or seen not in SEES:
        return 'write our own headers from csrc/, as "layer/file.h", and others in <>'
    if seen == layer or seen in SEES[layer] or is_test:
        return None
    return f"{layer}/ may include {', '.join(sorted(SEES[layer])) or 'nothing else'}, not {seen}/"


def main() -> int:
    csrc = Path(__file__).resolve().parent.parent / "csrc"
    failures = 0
    for path in sorted([*csrc.glob("*/*.h"), *csrc.glob("*/*.cc")]):
        layer = path.parent.name
        if layer not in SEES:
            print(f"csrc/{layer}: not a layer; tools/check_layers.py lists them")
            failures += 1
            continue
        is_test = path.stem.endswith(("_test", "_bench"))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if (found := INCLUDE.match(line)) and (wrong := complaint(layer, is_test, *found.groups())):
                print(f"csrc/{layer}/{path.name}:{number}: {found.group(2)}: {wrong}")
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
