"""Writes overloads.inc: which operators of PyTorch are the functional, in-place and out variants of one another.

    overloads.py FOLDER OUTPUT

FOLDER holds the native_functions.yaml and tags.yaml that the torch wheel ships, so the table fits the torch that is
built against. The grouping is PyTorch's own (torchgen), with the functional and out variants that PyTorch generates.
Each row is

    {"add.Tensor", "add_.Tensor", "add.out"},

without `aten::`; "" stands for a variant that does not exist. The second column is the variant that writes to its
arguments: in-place, or (a batch norm, rrelu) one that updates other arguments than the first and may return more. A
family that has both gives two rows. Every row has a functional variant, and rows are sorted by it.
"""

import sys
from pathlib import Path

from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import NativeFunction, NativeFunctionsGroup

Row = tuple[str, str, str]


def name(variant: NativeFunction | None) -> str:
    return str(variant.func.name) if variant else ""


def rows(group: NativeFunctionsGroup) -> list[Row]:
    writers = [v for v in (group.inplace, group.mutable) if v] or [None]
    return [(name(group.functional), name(writer), name(group.out)) for writer in writers]


def table(folder: Path) -> str:
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    groups = get_grouped_native_functions(parsed.native_functions)
    found = sorted(row for g in groups if isinstance(g, NativeFunctionsGroup) for row in rows(g))
    lines = ["// Written by tools/codegen/overloads.py: functional, in-place, out."]
    lines += ['{{"{}", "{}", "{}"}},'.format(*row) for row in found]
    return "\n".join(lines) + "\n"


def main() -> None:
    folder, output = map(Path, sys.argv[1:])
    text = table(folder)
    if output.exists() and output.read_text() == text:
        return  # an untouched file recompiles nothing
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


if __name__ == "__main__":
    main()
