"""The TPU as a PyTorch device: ``torch.device("tpu")``."""

import torch

from torch_tpu import _plugin, _register
from torch_tpu.modes import eager_mode

_register.register()


def _autoload() -> None:
    """Called by ``import torch`` (entry point ``torch.backends``): importing this package is all there is to do."""


__all__ = ["eager_mode"]
__version__ = _register.version
