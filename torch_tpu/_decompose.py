"""Finds PyTorch's decomposition of an operator that the op table does not have."""

from collections.abc import Callable
from typing import Any

import torch


def find(name: str, overload: str) -> Callable[..., Any] | None:
    """The decomposition of ``name`` ("aten::foo") and overload ("" is the default one), if PyTorch has one."""
    from torch._decomp import decomposition_table  # slow to import, and most programs never need it

    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    return decomposition_table.get(getattr(packet, overload or "default", None))
