"""What a graph does on the host is done there before the rest: constants once, the others at each call."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.node import map_arg


@dataclass
class Split:
    """A graph as a function of tensors on the device, 0-d tensors of the host, and sizes."""

    device: fx.GraphModule
    constants: list[torch.Tensor]  # the last inputs of ``device``
    prepare: Callable[[list[Any]], Sequence[Any]] | None  # from inputs of the graph to those of ``device`` before them


def split(graph: fx.GraphModule) -> Split:
    """``graph`` without what it computes from its own tensors alone, and from tensors of the host."""
    constant, hosted = find_constants(graph), find_hosted(graph)
    inside = {*constant, *hosted}

    def boundary(nodes: Iterable[fx.Node]) -> list[fx.Node]:
        return [node for node in nodes if any(user not in inside for user in node.users)]

    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    kept = [node for node in inputs if node not in hosted or boundary([node])]
    prepared = boundary(node for node in hosted if node.op != "placeholder")
    lifted = boundary(constant)
    module = fx.Graph()
    moved: dict[fx.Node, fx.Node] = {}
    for node in (*kept, *prepared, *lifted):
        moved[node] = module.placeholder(node.name)
        moved[node].meta = node.meta
    for node in graph.graph.nodes:
        if node not in moved and node not in inside:
            moved[node] = module.node_copy(node, lambda n: moved[n])
    prepare = prepare_on_host(graph, inputs, hosted, [*kept, *prepared]) if hosted else None
    return Split(fx.GraphModule(graph, module), [constant[node] for node in lifted], prepare)


def find_constants(graph: fx.GraphModule) -> dict[fx.Node, torch.Tensor]:
    """Tensors that the graph holds, and copies of them that it makes."""
    aten = torch.ops.aten
    copies = (aten.lift_fresh_copy.default, aten._to_copy.default, aten.clone.default, aten.alias.default)
    found: dict[fx.Node, torch.Tensor] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            held = fx.graph_module._get_attr(graph, node.target)
            if isinstance(held, torch.Tensor):
                found[node] = held
        elif node.target in copies and all(n in found for n in node.all_input_nodes):
            arguments, options = map_arg((node.args, node.kwargs), lambda n: found[n])
            with unset_fake_temporarily():
                found[node] = node.target(*arguments, **options)
    return found


def find_hosted(graph: fx.GraphModule) -> dict[fx.Node, None]:
    """Inputs on the host, and what is made of them alone, in order."""

    def on_host(node: fx.Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and value.device.type == "cpu"

    found: dict[fx.Node, None] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            if on_host(node):
                found[node] = None
        elif node.op == "call_function" and any(n in found for n in node.all_input_nodes):
            sizes = [n for n in node.all_input_nodes if n not in found]
            if all(n.op == "placeholder" and not isinstance(n.meta.get("val"), torch.Tensor) for n in sizes):
                found[node] = None
    return found


def prepare_on_host(
    graph: fx.GraphModule, inputs: list[fx.Node], hosted: Iterable[fx.Node], outputs: list[fx.Node]
) -> Callable[[list[Any]], Sequence[Any]]:
    """A function from the graph's inputs to ``outputs``."""
    module = fx.Graph()
    moved = {node: module.placeholder(node.name) for node in inputs}
    for node in hosted:
        if node not in moved:
            moved[node] = module.node_copy(node, lambda n: moved[n])
    module.output(tuple(moved[node] for node in outputs))
    run = fx.GraphModule(graph, module)
    return lambda given: run(*given)
