"""A script, run by a command of ours as ``python script arguments`` runs it."""

import runpy
import sys
from pathlib import Path
from typing import Any


def run(path: str, args: list[str]) -> tuple[dict[str, Any], int]:
    """Its globals, for which the caller decides how long they live, and its exit status. Its errors are raised."""
    argv, folders = sys.argv, sys.path[:]
    sys.argv = [path, *args]
    sys.path[0] = str(Path(path).resolve().parent)
    try:
        return runpy.run_path(path, run_name="__main__"), 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return {}, 1
        return {}, end.code or 0
    finally:
        sys.argv, sys.path[:] = argv, folders
