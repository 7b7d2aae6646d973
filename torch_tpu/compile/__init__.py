"""``torch.compile(backend="tpu")``: each graph is one program, found again by Dynamo's guards.

Dynamo and AOTAutograd make graphs of PyTorch's own operators, free of writes. A graph is then an operator like any
other: its calls are recorded once for each kind of inputs, and replayed as one plan. PyTorch finds this backend through
the entry point ``torch_dynamo_backends``.
"""

from .backend import tpu

__all__ = ["tpu"]
