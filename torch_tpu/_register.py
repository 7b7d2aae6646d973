"""Names the device and hands PyTorch its module, once."""

import atexit
import os
from pathlib import Path

import torch

from torch_tpu import _C, _plugin, _remote_cache

version: str = _C.version


def register() -> None:
    if torch.__version__.split("+")[0] != _C.torch_version:
        raise ImportError(
            f"torch_tpu {version} is built for torch {_C.torch_version}, but torch {torch.__version__} is installed: "
            f"pip install torch=={_C.torch_version}"
        )
    _C.set_library_folders([f"{Path(package).parent}/" for package in (torch.__file__, __file__)])
    path = _plugin.find()
    _C.configure(path, _plugin.options(path))
    _C.set_memory_limit(_memory_limit())
    torch.utils.rename_privateuse1_backend("tpu")
    from torch_tpu import _printing, _sharing, device, distributed
    from torch_tpu._explain import live

    torch._register_device_module("tpu", device)
    torch.set_autocast_dtype("tpu", torch.bfloat16)  # of this thread; others when they first use the device
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _printing.register()
    _sharing.register()
    distributed.register()
    _remote_cache.start()
    live.start()
    atexit.register(_finish)


def _memory_limit() -> int:
    text = os.environ.get("TORCH_TPU_MEMORY_LIMIT", "")
    if not text:
        return 0
    if not text.isdecimal():
        raise ValueError(f"TORCH_TPU_MEMORY_LIMIT is a number of bytes, got {text!r}")
    return int(text)


def _finish() -> None:
    """Before the interpreter goes: no launch is left running. An error that nobody looked for is nobody's now."""
    from torch_tpu._explain import live

    if _C.started():
        try:
            _C.synchronize()
        except RuntimeError:
            pass
        _C.cache_leave()
    live.finish()
    _remote_cache.finish()
