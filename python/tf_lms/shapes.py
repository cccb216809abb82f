"""The shapes of a graph's tensors, loops included, where a trace leaves sizes open and they are given now.

TensorFlow infers nothing through the head of a loop, and of what is read from a list it knows only what it knew when the loop was traced.
So it is assumed that what is carried through a loop has the shape with which it comes in, and what is read from a list that of what is
written to it. Then TensorFlow infers the rest, and each assumption is held against what is carried and written: if all hold, they hold in
every iteration, by induction. Those that do not are dropped.
"""

from __future__ import annotations

import collections
from typing import Any

import tensorflow as tf

from . import private_hooks

#: The sizes of a tensor, None for open ones; None for an open number of them.
Shape = tuple[int | None, ...] | None

#: Ops that hand a list on, or make another of the same elements.
_SAME_ELEMENTS = ("Enter", "Exit", "Identity", "Merge", "NextIteration", "RefEnter", "Switch", "AddN", "ZerosLike")

#: Ops whose outputs have sizes that no trace knows.
_DECIDED_BY_VALUES = ("BroadcastGradientArgs",)

#: Ops whose result has the shape that an input says in numbers, and which input that is.
_SHAPED_BY = {
    "BroadcastTo": 1,
    "Conv2DBackpropInput": 0,
    "Conv3DBackpropInputV2": 0,
    "DepthwiseConv2dNativeBackpropInput": 0,
    "Fill": 0,
    "Reshape": 1,
    "StridedSliceGrad": 0,
}

#: Ops without outputs that are added where functions are made flat.
_NOTHING_OUT = ("NoOp",)

#: Ops that make lists without elements.
_EMPTY = ("EmptyTensorList", "TensorListReserve")

#: Ops that hand the list of their first input on with another element, and which input that is.
_WRITES = {"TensorListPushBack": 1, "TensorListSetItem": 2}

#: Ops that read elements from a list: which output has them, and before how many of its dimensions.
_READS = {"TensorListGetItem": (0, 0), "TensorListPopBack": (1, 0), "TensorListStack": (0, 1)}


def with_shapes(graph_def: Any) -> Any:
    """The graph with the shapes that it says, and what TensorFlow infers of the others."""
    for node in graph_def.node:
        if node.op == "Placeholder" and "_output_shapes" in node.attr:
            # What is given for it is in another attribute.
            del node.attr["_output_shapes"]
    graph = tf.Graph()
    private_hooks.import_into(graph, graph_def, {})
    return graph.as_graph_def(add_shapes=True)


def as_traced(graph_def: Any) -> Any:
    """The same graph as `with_shapes` makes, where its nodes say their shapes already; else None.

    A trace in which no size is open says them. Asking TensorFlow again takes as long as the rest of what is done to a graph.
    """
    shapes: dict[str, list[Any]] = {}
    for node in graph_def.node:
        if node.op == "NextIteration":
            return None
        if "_output_shapes" in node.attr:
            shapes[node.name] = list(node.attr["_output_shapes"].list.shape)
            if node.op not in _DECIDED_BY_VALUES and any(map(_says_too_little, shapes[node.name])):
                return None
            if not shapes[node.name]:
                # Ops without outputs say nothing.
                del node.attr["_output_shapes"]
    added = [node for node in graph_def.node if node.name not in shapes and node.op not in _NOTHING_OUT]
    for node in added:
        # What handing functions' arguments and returns on takes: the shape is the input's.
        source, output = _parts(node.input[0]) if node.op == "Identity" else ("", 0)
        if output >= len(shapes.get(source, [])):
            return None
        shapes[node.name] = [shapes[source][output]]
        node.attr["_output_shapes"].list.shape.extend(shapes[node.name])
    _order_waits(graph_def)
    return graph_def


def _says_too_little(shape: Any) -> bool:
    return shape.unknown_rank or any(dim.size < 0 for dim in shape.dim)


def _order_waits(graph_def: Any) -> None:
    """Orders what each node waits for by its name, as TensorFlow does when it imports a graph."""
    for node in graph_def.node:
        waits = [name for name in node.input if name.startswith("^")]
        if len(waits) > 1:
            data = [name for name in node.input if not name.startswith("^")]
            node.input[:] = [*data, *sorted(waits)]


def with_loop_shapes(graph_def: Any) -> Any:
    """The same, also of what loops carry and lists hold."""
    inferred = with_shapes(graph_def)
    if not any(node.op == "NextIteration" for node in inferred.node):
        return inferred
    known, refuted = inferred, set[str]()
    assumed: dict[str, Shape] = {}
    while True:
        found = _Loops(inferred)
        wrong = {name for name, shape in assumed.items() if not found.holds(name, shape)}
        new = {} if wrong else found.assumptions(refuted)
        if wrong:
            refuted |= wrong
            assumed, inferred = {}, known
            continue
        if not new:
            return inferred
        assumed |= new
        declared = tf.compat.v1.GraphDef.FromString(inferred.SerializeToString())
        _declare(declared, new)
        try:
            inferred = with_shapes(declared)
        except ValueError:
            # They contradict each other: nothing is assumed of these any more.
            refuted |= new.keys()
            assumed, inferred = {}, known


def _declare(graph_def: Any, shapes: dict[str, Shape]) -> None:
    """Writes shapes of tensors, by name, into a graph that has shapes."""
    nodes = {node.name: node for node in graph_def.node}
    for name, shape in shapes.items():
        node, output = _parts(name)
        declared = nodes[node].attr["_output_shapes"].list.shape[output]
        declared.CopyFrom(tf.TensorShape(shape).as_proto())


def _parts(tensor: str) -> tuple[str, int]:
    node, _, output = tensor.partition(":")
    return node, int(output or 0)


def _is_open(shape: Shape) -> bool:
    return shape is None or None in shape


def _filled(shape: Shape, other: Shape) -> Shape:
    """A shape with the sizes of another where it is open; as it was if they contradict each other."""
    if shape is None or other is None:
        return shape if other is None else other
    if len(shape) != len(other):
        return shape
    return tuple(theirs if size is None else size for size, theirs in zip(shape, other, strict=True))


def _permuted(shape: Shape, source: Shape) -> Shape:
    """A shape whose sizes are those of another in some order, with the one that is open, if one alone is; None if they are not those."""
    if shape is None or source is None or _is_open(source) or shape.count(None) > 1:
        return shape
    left = collections.Counter(source)
    left.subtract(size for size in shape if size is not None)
    found = list(left.elements())
    if len(shape) != len(source) or len(found) != shape.count(None):
        return None
    return tuple(found[0] if size is None else size for size in shape)


def _has(shape: Shape, assumed: Shape) -> bool:
    """Whether a shape has all sizes that were assumed of it."""
    if shape is None or assumed is None or len(shape) != len(assumed):
        return assumed is None
    return all(size is None or size == other for size, other in zip(assumed, shape, strict=True))


class _Loops:
    """What is carried through the loops of a graph with shapes, and written to its lists."""

    def __init__(self, graph_def: Any) -> None:
        self.nodes = {node.name: node for node in graph_def.node}
        self._elements: dict[str, list[tuple[str, int]] | None] = {}
        #: Of sums the ops that bring them into the shape of what was broadcast.
        self._reshaped = {node.input[0]: node.name for node in graph_def.node if node.op == "Reshape"}

    def shape(self, tensor: str) -> Shape:
        node, output = _parts(tensor)
        shapes = self.nodes[node].attr["_output_shapes"].list.shape
        if output >= len(shapes) or shapes[output].unknown_rank:
            return None
        return tuple(None if dim.size < 0 else dim.size for dim in shapes[output].dim)

    def assumptions(self, refuted: set[str]) -> dict[str, Shape]:
        """What more than is known may be assumed of tensors, by name, but for some."""
        made: dict[str, Shape] = {}
        for node in self.nodes.values():
            name, before, sources = self._sources(node)
            if name is None or name in refuted:
                continue
            shape = filled = self.shape(name)
            if node.op == "Transpose":
                filled = _permuted(shape, self.shape(node.input[0])) or shape
            if not _is_open(shape):
                continue
            for source, skipped in sources[:1] if node.op == "Merge" else sources:
                filled = _filled(filled, self._of_element(shape, before, source, skipped))
            if filled != shape:
                made[name] = filled
        return made

    def holds(self, tensor: str, assumed: Shape) -> bool:
        """Whether all that a tensor may be has the shape that was assumed of it."""
        node = self.nodes[_parts(tensor)[0]]
        if node.op == "Transpose":
            return _permuted(assumed, self.shape(node.input[0])) == assumed
        _, before, sources = self._sources(node)
        return bool(sources) and all(_has(self._of_element(assumed, before, source, skipped), assumed) for source, skipped in sources)

    def _of_element(self, whole: Shape, before: int, source: str, skipped: int) -> Shape:
        """The shape of a source without its first dimensions, behind the first of another."""
        shape = self.shape(source)
        if shape is None or len(shape) < skipped or (before and whole is None):
            return None
        return (*(whole or ())[:before], *shape[skipped:])

    def _sources(self, node: Any) -> tuple[str | None, int, list[tuple[str, int]]]:
        """A tensor of a node of which something may be assumed, how many of its dimensions are its own, and what it may be: tensors,
        each without its first so many dimensions.
        """
        if node.op == "Merge" and node.attr["T"].type != tf.variant.as_datatype_enum:
            data = [name for name in node.input if not name.startswith("^")]
            carried = [self.nodes[_parts(name)[0]].op for name in data]
            if carried == ["Enter", "NextIteration"]:
                # What leads in and around has the shapes of before and behind it.
                return node.name, 0, [(self.nodes[_parts(name)[0]].input[0], 0) for name in data]
        if node.op in ("Enter", "NextIteration") and node.attr["T"].type != tf.variant.as_datatype_enum:
            return node.name, 0, [(node.input[0], 0)]
        if node.op in _SHAPED_BY:
            return node.name, 0, [(like, 0) for like in self._shaped_like(node.input[_SHAPED_BY[node.op]])]
        if node.op == "Sum" and node.attr["keep_dims"].b and node.name in self._reshaped:
            # It has as many elements as then, and as many dimensions as its input.
            return node.name, 0, [(self._reshaped[node.name], 0)]
        if node.op == "Transpose":
            # The order of its dimensions may be read from a list.
            return node.name, 0, []
        if node.op in _READS:
            output, before = _READS[node.op]
            elements = self._written(node.input[0])
            if elements:
                return (f"{node.name}:{output}" if output else node.name), before, elements
        return None, 0, []

    def _shaped_like(self, tensor: str) -> list[str]:
        """The tensors of which one has the shape that another says in numbers; none where that is not known."""
        name, output = _parts(tensor)
        node = self.nodes[name]
        if node.op == "Shape":
            return [node.input[0]]
        if node.op in ("Identity", "Enter"):
            return self._shaped_like(node.input[0])
        if node.op not in ("TensorListGetItem", "TensorListPopBack") or output != _READS[node.op][0]:
            return []
        found: list[str] = []
        for element, skipped in self._written(node.input[0]) or []:
            # A list of them is not written from another such list.
            writer = self.nodes[_parts(element)[0]]
            like = self._shaped_like(element) if skipped == 0 and writer.op in ("Shape", "Identity", "Enter") else []
            if not like:
                return []
            found += like
        return found

    def _written(self, tensor: str) -> list[tuple[str, int]] | None:
        """All that a list may hold: tensors, each without its first so many dimensions. None where that is not known."""
        if tensor in self._elements:
            return self._elements[tensor]
        found: list[tuple[str, int]] = []
        seen, open_lists = set[str](), [tensor]
        while open_lists:
            name = _parts(open_lists.pop())[0]
            if name in seen:
                continue
            seen.add(name)
            node = self.nodes[name]
            data = [one for one in node.input if not one.startswith("^")]
            if node.op in _WRITES:
                found.append((data[_WRITES[node.op]], 0))
                open_lists.append(data[0])
            elif node.op == "TensorListFromTensor":
                found.append((data[0], 1))
            elif node.op in ("TensorListPopBack", "TensorListResize"):
                open_lists.append(data[0])
            elif node.op in _SAME_ELEMENTS:
                open_lists += data[:1] if node.op == "Switch" else data
            elif node.op not in _EMPTY:
                self._elements[tensor] = None
                return None
        self._elements[tensor] = found
        return found
