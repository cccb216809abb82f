"""From a rewritten graph back to a function that is called like the original."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import private_hooks
from .flatten import Flat, argument_tensors, keep_colocations


def rebuild(concrete: Any, flat: Flat, rewritten: bytes) -> Any:
    """A ConcreteFunction with the rewritten graph, and arguments, captures and returns of the original.

    Args:
        concrete: the original.
        flat: its graph, as it was planned for.
        rewritten: the rewritten GraphDef.
    """
    graph_def = tf.compat.v1.GraphDef.FromString(rewritten)
    deferred = private_hooks.deferred_captures(concrete)
    gone = set(flat.inputs.values())
    kept = [node for node in graph_def.node if node.name not in gone]
    for node in kept:
        _forget(node, gone)
    body = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    body.node.extend(kept)

    graph = private_hooks.new_function_graph("lms_step")
    inputs: list[Any] = []
    tensors: dict[str, Any] = {}
    with graph.as_default():
        for original in argument_tensors(concrete):
            name = flat.inputs[original.name]
            placeholder = tf.compat.v1.placeholder(original.dtype, original.shape, name=name)
            inputs.append(placeholder)
            tensors[f"{name}:0"] = placeholder
        graph.inputs = list(inputs)
        for number, (external, internal) in enumerate(private_hooks.captures(concrete)):
            # Not under its own name: "a/b/resource" taken first would make the op "a/b" come out as "a/b_1".
            tensors[f"{flat.inputs[internal.name]}:0"] = graph.capture(external, name=f"lms_capture_{number}")
        for key, ask, internal in deferred:
            tensors[f"{flat.inputs[internal.name]}:0"] = private_hooks.capture_deferred(graph, key, ask, internal)
    read = {name if ":" in name else f"{name}:0" for node in kept for name in node.input if not name.startswith("^")}
    private_hooks.import_into(graph, body, {name: tensor for name, tensor in tensors.items() if name in read})
    outputs = [graph.get_operation_by_name(name).outputs[0] for name in flat.outputs]
    return private_hooks.function_like(concrete, graph, list(graph.inputs), outputs, [graph.get_operation_by_name(flat.train_op)])


def _forget(node: Any, gone: set[str]) -> None:
    """Drops what a node says of nodes that stand for inputs: they are there before all others."""
    if "_class" in node.attr:
        names = {value.decode().removeprefix("loc:@") for value in node.attr["_class"].list.s}
        keep_colocations(node, names - gone)
    kept = [name for name in node.input if not (name.startswith("^") and name[1:] in gone)]
    if len(kept) != len(node.input):
        del node.input[:]
        node.input.extend(kept)
    if "_output_shapes" in node.attr:
        # Those of the largest batch; a smaller one may come.
        del node.attr["_output_shapes"]
