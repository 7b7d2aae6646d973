"""Tells CMake where this Python's packages keep what the build needs; imports none of them.

Prints one JSON object; a package that is missing is an empty text. With --torch-abi it imports torch and prints the
value of _GLIBCXX_USE_CXX11_ABI that torch was built with.
"""

import importlib.util
import json
import os
import re
import runpy
import sys
from pathlib import Path

# The list that the package itself chooses from.
PLUGIN = runpy.run_path(str(Path(__file__).resolve().parent.parent / "torch_tpu" / "_plugin.py"))


def folder(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the parent package is missing
        return None
    return Path(spec.origin).resolve().parent if spec and spec.origin else None


def torch_version(torch: Path | None) -> str:
    found = torch and re.search(r"__version__ = '(.+)'", (torch / "version.py").read_text())
    return found.group(1) if found else ""


def main() -> None:
    if sys.argv[1:] == ["--torch-abi"]:
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # what is being built cannot be loaded yet
        import torch

        print(int(torch._C._GLIBCXX_USE_CXX11_ABI))
        return
    torch_dir, header = folder("torch"), folder("xla_plugins.xla_cpu_pjrt")
    found = {
        "torch": torch_dir or "",
        "torch_version": torch_version(torch_dir),
        "torchgen": folder("torchgen") or "",
        "pjrt_include": header / "include" if header else "",
        "plugins": ";".join(PLUGIN["cpu_plugins"]()),
    }
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
