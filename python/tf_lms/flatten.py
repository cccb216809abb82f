"""From a traced function to a graph that can be planned for: flat, with the sizes of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from . import private_hooks
from .errors import CannotRewrite

#: The op that a step is run for: behind all that the function returns and does.
TRAIN_OP = "lms_train_step"

#: Where a program's own devices are.
LOCAL_TASK = "/job:localhost/replica:0/task:0"

#: What works on variables of the host.
HOST = "/device:CPU:0"

#: Sizes that a trace leaves open: of which argument, in which dimension, how large.
Sizes = Mapping[tuple[int, int], int]


@dataclasses.dataclass(frozen=True)
class Flat:
    """A traced function as a graph without calls.

    Attributes:
        graph: the GraphDef; arguments are placeholders, captured variables ops that hold them.
        arguments: the ops of the arguments, in their order.
        captures: the ops of what was captured, each with the tensor outside.
        outputs: the tensors that are returned, in their order.
        variable_bytes: what the captured variables take on each device, in bytes.
    """

    graph: Any
    arguments: list[str]
    captures: list[tuple[str, Any]]
    outputs: list[str]
    variable_bytes: dict[str, int]


def argument_tensors(concrete: Any) -> list[Any]:
    """The tensors inside a function that stand for its arguments, without those that it captured."""
    return list(concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)])


def open_sizes(concrete: Any) -> list[tuple[int, int]]:
    """The sizes that a trace leaves open: pairs of argument and dimension.

    Raises:
        CannotRewrite: if not even the number of an argument's dimensions is known.
    """
    found = []
    for number, tensor in enumerate(argument_tensors(concrete)):
        if tensor.dtype in (tf.resource, tf.variant):
            continue
        if tensor.shape.rank is None:
            raise CannotRewrite(
                f"the step takes {tensor.op.name} of unknown rank; give its data a shape, for instance with tf.ensure_shape"
            )
        found += [(number, dimension) for dimension, size in enumerate(tensor.shape) if size is None]
    return found


def flatten(concrete: Any, sizes: Sizes, weights_come: bool = False) -> Flat:
    """The graph of a traced function.

    Args:
        concrete: the ConcreteFunction.
        sizes: the largest sizes of what the trace leaves open.
        weights_come: whether a plan decides when variables that are on the host come to the GPU. If not, they come when the step begins.

    Raises:
        CannotRewrite: if a function that it calls stays a call.
    """
    graph_def = concrete.graph.as_graph_def(add_shapes=True)
    arguments = [tensor.op.name for tensor in argument_tensors(concrete)]
    outputs = [tensor.name for tensor in concrete.outputs]
    controls = [op.name for op in concrete.graph.control_outputs]
    # Before inlining, which makes "^call" the ends of all that the body does.
    train = graph_def.node.add(name=TRAIN_OP, op="NoOp")
    train.input.extend(dict.fromkeys("^" + name for name in controls + [output.split(":")[0] for output in outputs]))
    handles = _Handles(concrete, weights_come)
    if graph_def.library.function:
        fetches = [tensor.name for tensor in concrete.inputs + concrete.outputs] + [TRAIN_OP]
        graph_def = private_hooks.inline(concrete, graph_def, fetches)
        _drop_lost_colocations(graph_def)
        handles.put_into(graph_def)
        graph_def = with_shapes(graph_def)
        _check_calls(graph_def)
    _bypass_identities(graph_def, {output.split(":")[0] for output in outputs})
    if sizes:
        placeholders = {node.name: node for node in graph_def.node if node.op == "Placeholder"}
        for (number, dimension), size in sizes.items():
            if arguments[number] in placeholders:
                placeholders[arguments[number]].attr["shape"].shape.dim[dimension].size = size
        handles.put_into(graph_def)
        graph_def = with_shapes(graph_def)
    handles.put_into(graph_def)
    for node in graph_def.node:
        # Strategies name devices in full, and variables' are cut short: both are of this process.
        node.device = node.device.removeprefix(LOCAL_TASK)
        if "_gradient_op_type" in node.attr:
            # Whose gradient is whose: numbered through the whole program, and done with.
            del node.attr["_gradient_op_type"]
    return Flat(graph_def, arguments, handles.named, outputs, handles.variable_bytes)


class _Handles:
    """What a function captured, as ops of the flat graph."""

    def __init__(self, concrete: Any, weights_come: bool) -> None:
        pairs = private_hooks.captures(concrete)
        self.named = [(internal.op.name, external) for external, internal in pairs]
        self.types = {
            internal.op.name: private_hooks.variable_type(external) for external, internal in pairs if external.dtype == tf.resource
        }
        self.devices = {name: _local(getattr(external, "device", "") or "") for name, external in self.named}
        if weights_come:
            # The plan says which of them are there, as it would of variables of the GPU.
            self.devices = dict.fromkeys(self.devices, "")
        self.several = len({device for device in self.devices.values() if "GPU" in device}) > 1
        self.variable_bytes: dict[str, int] = {}
        for name, known in self.types.items():
            if known is not None:
                size = (tf.TensorShape(known[1]).num_elements() or 0) * tf.as_dtype(known[0]).size
                self.variable_bytes[self.devices[name]] = self.variable_bytes.get(self.devices[name], 0) + size

    def put_into(self, graph_def: Any) -> None:
        """Makes ops that hold variables of the placeholders for their handles."""
        for node in graph_def.node:
            known = self.types.get(node.name)
            if known is None or node.op != "Placeholder":
                continue
            node.op = "VarHandleOp"
            node.ClearField("attr")
            node.attr["dtype"].type = known[0]
            node.attr["shape"].shape.CopyFrom(known[1])
            node.attr["container"].s = b""
            node.attr["shared_name"].s = node.name.encode()
            device = self.devices[node.name]
            # With one GPU most variables are there, and no op of the step says so either.
            node.device = device if self.several or "CPU" in device else ""
        on_host = {name for name, device in self.devices.items() if "CPU" in device and self.types.get(name)}
        for node in graph_def.node:
            # What works on a variable is where that is.
            if not node.device and any(name.split(":")[0] in on_host for name in node.input if not name.startswith("^")):
                node.device = HOST


def _local(device: str) -> str:
    return device[device.index("/device:") :] if "/device:" in device else ""


def _bypass_identities(graph_def: Any, kept: set[str]) -> None:
    """Takes out ops that pass several tensors on, as TensorFlow's optimizer does before it runs a step.

    Custom gradients and optimizers leave them. They would have all of the tensors wait for the last one, and stay in memory meanwhile.
    """
    passed = {node.name: list(node.input) for node in graph_def.node if node.op == "IdentityN" and node.name not in kept}

    def source(name: str) -> str:
        while name.split(":", maxsplit=1)[0] in passed:
            node, _, output = name.partition(":")
            name = passed[node][int(output or 0)]
        return name

    def read(name: str) -> list[str]:
        if not name.startswith("^"):
            return [source(name)]
        if name[1:] not in passed:
            return [name]
        # Whoever waited for it waits for what it waited for.
        return [one for behind in passed[name[1:]] for one in read(behind if behind.startswith("^") else "^" + behind.split(":")[0])]

    waits = {name: [one for one in inputs if one.startswith("^")] for name, inputs in passed.items()}
    remaining = [node for node in graph_def.node if node.name not in passed]
    for node in remaining:
        if not any(name.lstrip("^").split(":")[0] in passed for name in node.input):
            continue
        added = [one for name in node.input for one in waits.get(name.split(":")[0], [])]
        data = [one for name in node.input if not name.startswith("^") for one in read(name)]
        controls = [one for name in [*(name for name in node.input if name.startswith("^")), *added] for one in read(name)]
        del node.input[:]
        node.input.extend(data + list(dict.fromkeys(controls)))
    del graph_def.node[:]
    graph_def.node.extend(remaining)


def _drop_lost_colocations(graph_def: Any) -> None:
    """Inlining leaves colocations with nodes that are gone."""
    names = {node.name for node in graph_def.node}
    for node in graph_def.node:
        if "_class" in node.attr:
            keep_colocations(node, names)


def keep_colocations(node: Any, names: Any) -> None:
    """Drops a node's colocations with others than these."""
    kept = [value for value in node.attr["_class"].list.s if value.decode().removeprefix("loc:@") in names]
    del node.attr["_class"]
    if kept:
        node.attr["_class"].list.s.extend(kept)


def with_shapes(graph_def: Any) -> Any:
    """The graph with the shapes that TensorFlow infers in it."""
    for node in graph_def.node:
        if "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]
    graph = tf.Graph()
    private_hooks.import_into(graph, graph_def, {})
    return graph.as_graph_def(add_shapes=True)


def _check_calls(graph_def: Any) -> None:
    functions = {function.signature.name for function in graph_def.library.function}
    for node in graph_def.node:
        called = node.op if node.op in functions else node.attr["f"].func.name if node.op.endswith("PartitionedCall") else None
        if called is None:
            continue
        why = "which XLA must compile: leave jit_compile=True out there" if "_XlaMustCompile" in node.attr else "which cannot be inlined"
        raise CannotRewrite(f"the step calls {called} (op {node.name}), {why}")
