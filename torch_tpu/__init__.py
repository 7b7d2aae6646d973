"""The TPU as a PyTorch device: ``torch.device("tpu")``."""


def _autoload() -> None:
    """Called by ``import torch`` (entry point ``torch.backends``): importing this package is all there is to do.

    Defined before torch is imported: where this package is imported first, torch calls it in the middle of that import.
    """


import torch  # noqa: E402, F401

from torch_tpu import _register, aot  # noqa: E402
from torch_tpu._explain import CompileStormWarning, explain  # noqa: E402
from torch_tpu.modes import dynamism, eager_mode  # noqa: E402

_register.register()

__all__ = ["CompileStormWarning", "aot", "dynamism", "eager_mode", "explain"]
__version__ = _register.version
