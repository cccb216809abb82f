"""What a session feeds, as far as its graph leaves the sizes open that this decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import tensorflow as tf

from .errors import UsageError
from .shapes import with_loop_shapes

#: Whole numbers that sizes are made of.
_NUMBERS = (tf.int32, tf.int64)


@dataclasses.dataclass(frozen=True)
class Fed:
    """What placeholders are fed.

    Attributes:
        batch_size: the size of what they leave open in their first dimension; None: it stays open.
        shapes: shapes of some, by tensor or name.
        values: numbers of which sizes are made, by tensor or name: a whole number, or several.
    """

    batch_size: int | None = None
    shapes: Mapping[Any, Any] | None = None
    values: Mapping[Any, Any] | None = None


def sized(graph: Any, fed: Fed) -> Any:
    """The GraphDef of a graph, with the shapes of its tensors as they follow from what is fed.

    Raises:
        UsageError: if a placeholder is not there, or cannot be fed that.
    """
    graph_def = graph.as_graph_def(add_shapes=True)
    placeholders = {node.name: node for node in graph_def.node if node.op == "Placeholder"}
    is_as_it_was = not fed.shapes and not fed.values
    for key, shape in (fed.shapes or {}).items():
        _declare(_placeholder(placeholders, key, "shapes"), shape)
    if fed.batch_size is not None:
        for node in placeholders.values():
            dimensions = node.attr["shape"].shape.dim if "shape" in node.attr else []
            if dimensions and dimensions[0].size == -1:
                dimensions[0].size = fed.batch_size
                is_as_it_was = False
    if is_as_it_was:
        return graph_def
    kept: dict[str, Any] = {}
    for key, value in (fed.values or {}).items():
        node = _placeholder(placeholders, key, "values")
        number = _number(node, value)
        _declare(node, number.tensor_shape)
        kept[node.name] = tf.compat.v1.NodeDef()
        kept[node.name].CopyFrom(node)
        # TensorFlow knows what follows from a constant.
        constant = tf.compat.v1.NodeDef(name=node.name, op="Const", device=node.device)
        constant.attr["dtype"].type = number.dtype
        constant.attr["value"].tensor.CopyFrom(number)
        node.CopyFrom(constant)
    inferred = with_loop_shapes(graph_def)
    for node in inferred.node:
        if node.name in kept:
            shapes = tf.compat.v1.AttrValue()
            shapes.CopyFrom(node.attr["_output_shapes"])
            node.CopyFrom(kept[node.name])
            node.attr["_output_shapes"].CopyFrom(shapes)
    return inferred


def _placeholder(placeholders: Mapping[str, Any], key: Any, argument: str) -> Any:
    name = key if isinstance(key, str) else getattr(key, "name", None)
    node = placeholders.get(str(name).removesuffix(":0"))
    if node is None:
        known = ", ".join(sorted(placeholders)[:8]) or "none"
        raise UsageError(f"{argument}: the default graph has no placeholder {name!r}; it has {known}")
    return node


def _declare(node: Any, given: Any) -> None:
    """Has a placeholder say a shape that fits what it says already."""
    try:
        shape = tf.TensorShape(given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"shapes: {given!r} of {node.name} is no shape; give whole numbers, such as (8, 224, 224, 3)") from error
    declared = tf.TensorShape(node.attr["shape"].shape) if "shape" in node.attr else tf.TensorShape(None)
    if not shape.is_fully_defined():
        raise UsageError(f"shapes: {given!r} of {node.name} leaves sizes open")
    if not declared.is_compatible_with(shape):
        raise UsageError(f"{node.name} has the shape {declared} and cannot be fed what has {shape}")
    node.attr["shape"].shape.CopyFrom(shape.as_proto())


def _number(node: Any, value: Any) -> Any:
    """A whole number, or several, as the tensor that a placeholder is fed."""
    several = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(number, Integral) and not isinstance(number, bool) for number in several):
        raise UsageError(f"values: {value!r} of {node.name} is no whole number, nor several")
    dtype = tf.as_dtype(node.attr["dtype"].type)
    if dtype not in _NUMBERS:
        raise UsageError(f"values: {node.name} takes {dtype.name}, and no whole numbers of 32 or 64 bits")
    if any(not dtype.min <= number <= dtype.max for number in several):
        raise UsageError(f"values: {value!r} of {node.name} does not fit in {dtype.name}")
    return tf.make_tensor_proto(several if isinstance(value, list | tuple) else several[0], dtype)
