"""From a traced function to a graph that can be planned for: flat, with the sizes of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from . import _native, private_hooks
from .errors import CannotRewrite
from .shapes import as_traced, with_loop_shapes, with_shapes

#: Where a program's own devices are.
LOCAL_TASK = "/job:localhost/replica:0/task:0"

#: What works on variables of the host.
HOST = "/device:CPU:0"

#: Ops that lead a handle into branches and loops.
HANDS_ON = ("Identity", "Enter", "Switch")

#: Sizes that a trace leaves open: of which argument, in which dimension, how large.
Sizes = Mapping[tuple[int, int], int]

#: What marks arguments that lie on the GPU when a function is called. Those of Keras' steps come from the host, and so all count here.
ON_GPU = "_lms_argument"


@dataclasses.dataclass(frozen=True)
class Flat:
    """A traced function as a graph without calls.

    Attributes:
        graph: the GraphDef; arguments are placeholders, captured variables ops that hold them.
        inputs: of each tensor inside the function that stands for an argument or for what it captured, by name, the op that does so here.
        outputs: the ops of what is returned, in their order.
        train_op: the op that a step is run for: behind all that the function returns and does.
        variable_bytes: what the captured variables take on each device, in bytes.
    """

    graph: Any
    inputs: dict[str, str]
    outputs: list[str]
    train_op: str
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
        CannotRewrite: if a function that it calls stays a call, or one cannot be made flat.
    """
    handles = _Handles(concrete, weights_come)
    graph_def, function = private_hooks.library(concrete)
    _add_call(graph_def, function, concrete, handles)
    content, inputs, outputs, train_op, kept = _native.flatten("the step", graph_def.SerializeToString(), function)
    if kept:
        raise CannotRewrite(_why(*kept[0]))
    graph_def = tf.compat.v1.GraphDef.FromString(content)
    _bypass_identities(graph_def)
    _stop_unread(graph_def, {*inputs, *outputs, train_op})
    by_name = {node.name: node for node in graph_def.node}
    for name in inputs:
        by_name[name].attr.pop(ON_GPU, None)
    for (number, dimension), size in sizes.items():
        by_name[inputs[number]].attr["shape"].shape.dim[dimension].size = size
    graph_def = with_loop_shapes(graph_def) if sizes else as_traced(graph_def) or with_shapes(graph_def)
    handles.place_readers(graph_def)
    for node in graph_def.node:
        # Strategies name devices in full, and variables' are cut short: both are of this process.
        node.device = node.device.removeprefix(LOCAL_TASK)
        if "_gradient_op_type" in node.attr:
            # Whose gradient is whose: numbered through the whole program, and done with.
            del node.attr["_gradient_op_type"]
    named = dict(zip((tensor.name for tensor in concrete.inputs), inputs, strict=True))
    return Flat(graph_def, named, outputs, train_op, handles.variable_bytes)


def _add_call(graph_def: Any, function: str, concrete: Any, handles: _Handles) -> None:
    """Adds a call of the function, which says what its arguments are: placeholders, and ops that hold variables."""
    call = graph_def.node.add(name=function, op="StatefulPartitionedCall")
    call.attr["f"].func.name = function
    for number, tensor in enumerate(concrete.inputs):
        node = graph_def.node.add(name=f"{function}/{number}", op="Placeholder")
        call.attr["Tin"].list.type.append(tensor.dtype.as_datatype_enum)
        if not handles.hold(node, tensor.op.name):
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())
        # By the name that it has now.
        call.input.append(node.name)
    call.attr["Tout"].list.type.extend(tensor.dtype.as_datatype_enum for tensor in concrete.outputs)


class _Handles:
    """What a function captured, as ops of the flat graph."""

    def __init__(self, concrete: Any, weights_come: bool) -> None:
        pairs = private_hooks.captures(concrete)
        self.types = {
            internal.op.name: private_hooks.variable_type(external) for external, internal in pairs if external.dtype == tf.resource
        }
        self.devices = {internal.op.name: _local(getattr(external, "device", "") or "") for external, internal in pairs}
        if weights_come:
            # The plan says which of them are there, as it would of variables of the GPU.
            self.devices = dict.fromkeys(self.devices, "")
        self.several = len({device for device in self.devices.values() if "GPU" in device}) > 1
        self.variable_bytes: dict[str, int] = {}
        for name, known in self.types.items():
            if known is not None:
                size = (tf.TensorShape(known[1]).num_elements() or 0) * tf.as_dtype(known[0]).size
                self.variable_bytes[self.devices[name]] = self.variable_bytes.get(self.devices[name], 0) + size

    def hold(self, node: Any, name: str) -> bool:
        """Makes an op that holds the variable of what stands for a handle in a function; False if there is none."""
        known = self.types.get(name)
        if known is None:
            return False
        node.op = "VarHandleOp"
        # Plans name ops: their names are to be the same in each process.
        node.name = name
        node.attr["dtype"].type = known[0]
        node.attr["shape"].shape.CopyFrom(known[1])
        node.attr["container"].s = b""
        node.attr["shared_name"].s = name.encode()
        node.attr["_output_shapes"].list.shape.add()
        device = self.devices[name]
        # With one GPU most variables are there, and no op of the step says so either.
        node.device = device if self.several or "CPU" in device else ""
        return True

    def place_readers(self, graph_def: Any) -> None:
        """Places what works on variables of the host there."""
        on_host = {node.name for node in graph_def.node if node.op == "VarHandleOp" and "CPU" in node.device}
        if not on_host:
            return
        for node in graph_def.node:
            read = any(name.split(":")[0] in on_host for name in node.input if not name.startswith("^"))
            if not node.device and read:
                node.device = HOST
            if read and node.op in HANDS_ON:
                on_host.add(node.name)


def _local(device: str) -> str:
    return device[device.index("/device:") :] if "/device:" in device else ""


def _bypass_identities(graph_def: Any) -> None:
    """Takes out ops that pass several tensors on, as TensorFlow's optimizer does before it runs a step.

    Custom gradients and optimizers leave them. They would have all of the tensors wait for the last one, and stay in memory meanwhile.
    """
    passed = {node.name: list(node.input) for node in graph_def.node if node.op == "IdentityN"}

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


def _stop_unread(graph_def: Any, kept: set[str]) -> None:
    """Makes ops that others only wait for ops that do nothing, as TensorFlow's optimizer does before it runs a step.

    The gradients of version 1 wait for each other, also for those that nobody reads. What is not computed takes no memory, and what is
    not read need not come back from the host.
    """
    nodes = {node.name: node for node in graph_def.node}
    readers = dict.fromkeys(nodes, 0)
    for node in graph_def.node:
        for name in node.input:
            if not name.startswith("^"):
                readers[name.split(":", maxsplit=1)[0]] += 1
    unread = [node for node in graph_def.node if not readers[node.name]]
    while unread:
        node = unread.pop()
        if node.name in kept or node.op == "NoOp" or not private_hooks.may_be_left_out(node.op):
            continue
        sources = [name.split(":", maxsplit=1)[0] for name in node.input if not name.startswith("^")]
        waits = [*(f"^{name}" for name in sources), *(name for name in node.input if name.startswith("^"))]
        node.op = "NoOp"
        node.attr.clear()
        del node.input[:]
        node.input.extend(dict.fromkeys(waits))
        for name in sources:
            readers[name] -= 1
            if not readers[name]:
                unread.append(nodes[name])


def keep_colocations(node: Any, names: Any) -> None:
    """Drops a node's colocations with others than these."""
    kept = [value for value in node.attr["_class"].list.s if value.decode().removeprefix("loc:@") in names]
    del node.attr["_class"]
    if kept:
        node.attr["_class"].list.s.extend(kept)


def _why(node: str, function: str, why: str) -> str:
    """Why a call that stays one op is in the way."""
    what = "which XLA must compile: leave jit_compile=True out there" if "XLA" in why else f"which stays a call: {why}"
    return f"the step calls {function} (op {node}), {what}"
