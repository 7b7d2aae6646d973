"""Names the device and hands PyTorch its module, once."""

import atexit

import torch

from torch_tpu import _C, _plugin

version: str = _C.version


def register() -> None:
    if torch.__version__.split("+")[0] != _C.torch_version:
        raise ImportError(
            f"torch_tpu {version} is built for torch {_C.torch_version}, but torch {torch.__version__} is installed: "
            f"pip install torch=={_C.torch_version}"
        )
    path = _plugin.find()
    options: dict[str, bool | int] = {}
    if path and _plugin.is_cpu(path):
        options["cpu_device_count"] = 1
        if "lammps" in path:
            options["asynchronous"] = False
    _C.configure(path, options)
    torch.utils.rename_privateuse1_backend("tpu")
    from torch_tpu import device

    torch._register_device_module("tpu", device)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    atexit.register(_finish)


def _finish() -> None:
    """Before the interpreter goes: no launch is left running."""
    if _C.started():
        _C.synchronize()
