"""On PYTHONPATH, with TPU_SANITIZED naming it, ``torch_tpu._C`` is the build of a sanitizer; .venv keeps its own."""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any


class Sanitized:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch_tpu._C":
            return None
        return importlib.util.spec_from_file_location(name, os.environ["TPU_SANITIZED"])


sys.meta_path.insert(0, Sanitized)  # before the finder of the editable installation
