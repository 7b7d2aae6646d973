"""The backend: graphs in, callables out."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torch_tpu import _C

from .split import split

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")  # of torch.compile


def tpu(graph: fx.GraphModule, inputs: Sequence[Any], mode: str = "default", options: Any = None) -> Callable[..., Any]:
    """The backend "tpu" of ``torch.compile``.

    ``mode`` may be any of ``torch.compile``'s, and changes nothing: there is one way to compile a program.
    """
    from torch._dynamo.backends.common import aot_autograd  # only who compiles needs it

    if mode not in MODES:
        raise ValueError(f'torch.compile(backend="tpu"): mode is one of {", ".join(MODES)}; got {mode!r}')
    if options:
        raise ValueError(f'torch.compile(backend="tpu") takes no options; got {options!r}')
    return aot_autograd(fw_compiler=compile_graph, partition_fn=partition)(graph, inputs)


def partition(joint: fx.GraphModule, inputs: Sequence[Any], **how: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward of a joint graph. Random numbers of checkpointed parts are kept, not made again: PyTorch can
    put the generator back in a graph for the devices that it names only."""
    from torch._functorch.partitioners import default_partition
    from torch.utils.checkpoint import CheckpointPolicy

    for node in joint.graph.nodes:
        tags = node.target.tags if isinstance(node.target, torch._ops.OpOverload) else ()
        if torch.Tag.nondeterministic_seeded not in tags:
            continue
        for one in (node, *(user for user in node.users if user.target is operator.getitem)):
            if "recompute" in one.meta:
                one.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return default_partition(joint, inputs, **how)


def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
    """A callable that runs ``graph`` on a list of inputs, which it empties: tensors, and ints for sizes."""
    for i, given in enumerate(inputs):
        if not isinstance(given, torch.Tensor | int | torch.SymInt):
            raise TypeError(f'torch.compile(backend="tpu"): input {i} of a graph is a {type(given).__name__}')
    parts = split(graph)
    native = _C.Graph()
    values = [node.meta.get("val") for node in parts.device.graph.nodes if node.op == "placeholder"]
    values[len(values) - len(parts.constants) :] = parts.constants
    is_tensor = [isinstance(value, torch.Tensor) for value in values]
    # What the host computes of what the device did.
    by_calls = any(isinstance(v, torch.Tensor) and v.device.type != "tpu" and v.dim() > 0 for v in values)

    def call(given: list[Any]) -> Sequence[Any]:
        values = list(given if parts.prepare is None else parts.prepare(given))
        given.clear()
        values += parts.constants
        if by_calls:
            return parts.device(*values)
        tensors = [value for value, tensor in zip(values, is_tensor, strict=True) if tensor]
        sizes = [value for value, tensor in zip(values, is_tensor, strict=True) if not tensor]

        def run(stand_ins: list[torch.Tensor]) -> Sequence[Any]:
            tensor, size = iter(stand_ins), iter(sizes)
            return parts.device(*(next(tensor if one else size) for one in is_tensor))

        return native(run, tensors, sizes)

    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd then hands over its only references
    return call
