"""Tensors through multiprocessing queues and pipes.

A process owns its device, so there is no memory to share: what is sent is a copy, made through the CPU, on the
receiver's device. The receiver must be a process that was spawned, as a forked one cannot use the device.
"""

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


def _receive(cpu: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
    tensor = cpu.to("tpu")
    if parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> tuple[Callable[..., torch.Tensor], tuple[Any, ...]]:
    if tensor.device.type != "tpu":
        return reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    return _receive, (tensor.detach().cpu(), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


def register() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)
