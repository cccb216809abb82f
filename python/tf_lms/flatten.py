"""From a traced function to a graph that can be planned for: flat, with the sizes of a batch."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from . import _native, private_hooks
from .compiled import without_xla
from .errors import CannotRewrite
from .shapes import as_traced, with_loop_shapes, with_shapes

#: Where a program's own devices are.
LOCAL_TASK = "/job:localhost/replica:0/task:0"

#: Where TensorFlow places what nobody did.
FIRST_GPU = "/device:GPU:0"

#: Ops that choose one of two branches. What comes out of them is on the first GPU, where TensorFlow puts what nobody placed, whatever was
#: on the host inside: so batches of a distributed dataset are there, on whichever GPU they are read.
CHOICES = ("If", "StatelessIf")

#: What works on variables of the host.
HOST = "/device:CPU:0"

#: Ops that lead a handle into branches and loops.
HANDS_ON = ("Identity", "Enter", "Switch")

#: Ops that know of their input's shape alone: TensorFlow places them where it is.
ASKS = ("Shape", "Size", "Rank")

#: Sizes that a trace leaves open: of which argument, in which dimension, how large.
Sizes = Mapping[tuple[int, int], int]

#: What marks arguments that lie on the GPU when a function is called: whoever calls holds them until it is done.
ON_GPU = "_lms_argument"

#: What marks all arguments, variables too. The parts of a function begin in another order than those of a session.
ARGUMENT = "_lms_function"

#: Of these no tensor is in a GPU's memory, whatever its device.
NEVER_ON_GPU = (tf.int32, tf.string, tf.resource, tf.variant)


@dataclasses.dataclass(frozen=True)
class Flat:
    """A traced function as a graph without calls.

    Attributes:
        graph: the GraphDef; arguments are placeholders, captured variables ops that hold them.
        inputs: of each tensor inside the function that stands for an argument or for what it captured, by name, the op that does so here.
        outputs: the ops of what is returned, in their order.
        train_op: the op that a step is run for: behind all that the function returns and does.
        held_bytes: what the captured variables and the arguments take on each device before the step, in bytes.
        without_xla: the functions in it that XLA would have compiled.
    """

    graph: Any
    inputs: dict[str, str]
    outputs: list[str]
    train_op: str
    held_bytes: dict[str, int]
    without_xla: tuple[str, ...]


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


def arguments_on_gpu(given: Sequence[Any]) -> dict[int, str]:
    """Of the arguments of a call that are in a GPU's memory the device, by their number.

    Of what a graph gives only the results of choices are known to be on one.
    """
    on_gpu = {number: _gpu_of(value) for number, value in enumerate(given) if tf.is_tensor(value) and value.dtype not in NEVER_ON_GPU}
    return {number: device for number, device in on_gpu.items() if device}


def _gpu_of(tensor: Any) -> str:
    if not tf.is_symbolic_tensor(tensor):
        return _local(tensor.device) if "GPU" in tensor.device else ""
    op = tensor.op
    while op.type == "Identity" and not op.device:
        op = op.inputs[0].op
    return FIRST_GPU if op.type in CHOICES and not op.device else ""


def flatten(concrete: Any, sizes: Sizes, weights_come: bool = False, given: Sequence[Any] = (), in_function: bool = False) -> Flat:
    """The graph of a traced function.

    Args:
        concrete: the ConcreteFunction.
        sizes: the largest sizes of what the trace leaves open.
        given: the arguments of a call, if they are known.
        weights_come: whether a plan decides when variables that are on the host come to the GPU. If not, they come when the step begins.
        in_function: whether another function calls it, as Keras has one around its step; Python, if not.

    Raises:
        CannotRewrite: if a function that it calls stays a call, or one cannot be made flat.
    """
    handles = _Handles(concrete, weights_come)
    graph_def, function = private_hooks.library(concrete)
    compiled = tuple(name for name in without_xla(graph_def) if name != function)
    _add_call(graph_def, function, concrete, handles)
    content, inputs, outputs, train_op, kept = _native.flatten("the step", graph_def.SerializeToString(), function)
    if kept:
        raise CannotRewrite(_why(*kept[0]))
    graph_def = tf.compat.v1.GraphDef.FromString(content)
    by_name = {node.name: node for node in graph_def.node}
    handles.hold_tensors(concrete, given, {tensor.name: by_name[name] for tensor, name in zip(concrete.inputs, inputs, strict=True)})
    for (number, dimension), size in sizes.items():
        by_name[inputs[number]].attr["shape"].shape.dim[dimension].size = size
    graph_def = with_loop_shapes(graph_def) if sizes else as_traced(graph_def) or with_shapes(graph_def)
    handles.place_readers(graph_def)
    graph_def = tf.compat.v1.GraphDef.FromString(_native.as_run("the step", graph_def.SerializeToString(), in_function))
    for node in graph_def.node:
        # Strategies name devices in full, and variables' are cut short: both are of this process.
        node.device = node.device.removeprefix(LOCAL_TASK)
        if "_gradient_op_type" in node.attr:
            # Whose gradient is whose: numbered through the whole program, and done with.
            del node.attr["_gradient_op_type"]
    named = dict(zip((tensor.name for tensor in concrete.inputs), inputs, strict=True))
    return Flat(graph_def, named, outputs, train_op, handles.held_bytes, compiled)


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
        self.tensors = {internal.name: external for external, internal in pairs if external.dtype != tf.resource}
        self.held_bytes: collections.Counter[str] = collections.Counter()
        self.from_host: set[str] = set()
        for name, known in self.types.items():
            if known is not None:
                self.held_bytes[self.devices[name]] += _size(tf.TensorShape(known[1]), tf.as_dtype(known[0]))

    def hold_tensors(self, concrete: Any, given: Sequence[Any], placeholders: Mapping[str, Any]) -> None:
        """Marks what stands for tensors that are on a GPU already, the arguments among `given` and what was captured."""
        outside = dict(zip((tensor.name for tensor in argument_tensors(concrete)), given, strict=False)) | self.tensors
        found = arguments_on_gpu(list(outside.values()))
        on_gpu = {name: found[number] for number, name in enumerate(outside) if number in found}
        for name, node in placeholders.items():
            node.attr[ARGUMENT].b = True
            if name not in on_gpu:
                node.attr.pop(ON_GPU, None)
                self.from_host.add(node.name)
                continue
            node.attr[ON_GPU].b = True
            node.device = on_gpu[name] if self.several else ""
            self.held_bytes[on_gpu[name]] += _size(outside[name].shape, outside[name].dtype)

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
        node.attr[ARGUMENT].b = True
        device = self.devices[name]
        # With one GPU most variables are there, and no op of the step says so either.
        node.device = device if self.several or "CPU" in device else ""
        return True

    def place_readers(self, graph_def: Any) -> None:
        """Places what works on variables of the host there, and what asks about arguments that are there."""
        on_host = {node.name for node in graph_def.node if node.op == "VarHandleOp" and "CPU" in node.device}
        for node in graph_def.node:
            inputs = {name.split(":")[0] for name in node.input if not name.startswith("^")}
            read = not on_host.isdisjoint(inputs)
            if not node.device and (read or (node.op in ASKS and not self.from_host.isdisjoint(inputs))):
                node.device = HOST
            if read and node.op in HANDS_ON:
                on_host.add(node.name)


def _size(shape: Any, dtype: Any) -> int:
    return (shape.num_elements() or 0) * int(dtype.size)


def _local(device: str) -> str:
    return device[device.index("/device:") :] if "/device:" in device else ""


def keep_colocations(node: Any, names: Any) -> None:
    """Drops a node's colocations with others than these."""
    kept = [value for value in node.attr["_class"].list.s if value.decode().removeprefix("loc:@") in names]
    del node.attr["_class"]
    if kept:
        node.attr["_class"].list.s.extend(kept)


def _why(node: str, function: str, why: str) -> str:
    """Why a call that stays one op is in the way."""
    what = "which XLA must compile, since it has ops of XLA alone" if "XLA" in why else f"which stays a call: {why}"
    return f"the step calls {function} (op {node}), {what}"
