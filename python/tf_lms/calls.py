"""A graph that calls functions, as one that calls none: what branches and loops of TensorFlow 2 are in a session's graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import _native
from .errors import CannotRewrite
from .shapes import with_loop_shapes


def without_calls(graph_def: Any, name: str) -> Any | None:
    """The GraphDef with all that is called at its top level made flat, and with the shapes of that; None if there is nothing to make flat.

    No file says the shapes of what branches save for their gradients, nor those of what functional loops carry: TensorFlow is asked.

    Args:
        graph_def: the GraphDef, with shapes.
        name: what messages call it.
    """
    if not graph_def.library.function:
        return None
    try:
        content = _native.without_calls(name, graph_def.SerializeToString(deterministic=True))
    except CannotRewrite:
        # It may be a call that no step runs. If one does, whoever plans says why.
        return None
    if content is None:
        return None
    flat = tf.compat.v1.GraphDef.FromString(content)
    # TensorFlow orders the nodes anew; here they stay as they are.
    shapes = {node.name: node.attr["_output_shapes"] for node in with_loop_shapes(tf.compat.v1.GraphDef.FromString(content)).node}
    for node in flat.node:
        if shapes[node.name].list.shape:
            node.attr["_output_shapes"].CopyFrom(shapes[node.name])
    return flat
