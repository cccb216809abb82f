"""`tf_lms.rewrite_graph`: what the tools do, bytes in, bytes out. Needs no TensorFlow, unless a graph calls functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import UsageError
from .options import Iterations, Memory, Options, iterations_of, memory_bytes
from .planning import Task, plan
from .report import Report

#: What step times are predicted for, where nothing is said about the GPU.
DEFAULT_PROFILE = "v100-pcie3"

#: What messages call it.
GRAPH = "the graph"


def rewrite_graph(
    graph_def: Any,
    *,
    gpu_memory: Memory,
    train_op: str | Sequence[str] | None = None,
    memory_ratio: float | None = None,
    iterations: Iterations = None,
    device_profile: str = DEFAULT_PROFILE,
    swap_weights: bool = False,
    cache_dir: Any = None,
) -> tuple[Any, Report]:
    """Rewrites a graph so that a step of it fits into a GPU's memory, and proves that it computes the same.

    The calls at the top level of a GraphDef or MetaGraphDef that is a message are made flat, as `tf.cond` and `tf.while_loop` leave them.

    Args:
        graph_def: a GraphDef, MetaGraphDef or SavedModel: the message, or its bytes. Its tensors must have shapes, as
            `graph.as_graph_def(add_shapes=True)` and exported MetaGraphDefs have them.
        gpu_memory: the memory of each GPU, as bytes or `"16GiB"`.
        train_op: the name of the op, or of the ops, that a step is run for; None: the collection `train_op` of a MetaGraphDef.
        iterations: how often loops run at most where the graph does not tell: a number for all, or for some by the names of their frames.
        memory_ratio, device_profile, swap_weights, cache_dir: as of `tf_lms.function`.

    Returns:
        The rewritten graph, as a message or bytes as it was given, and the report. What fits as it is comes back as it was.

    Raises:
        UsageError: if an argument cannot be meant, or there is no such op.
        InvalidGraph: if it is no graph.
        AlreadyRewritten: if it was rewritten before.
        DoesNotFit: if no plan was found.
        CannotRewrite: if it cannot be planned for, as where sizes are unknown.
    """
    options = Options(gpu_memory, memory_ratio, None, device_profile, True, True, swap_weights, cache_dir, iterations)
    if isinstance(graph_def, bytes | bytearray | memoryview):
        content = bytes(graph_def)
    elif hasattr(graph_def, "SerializeToString"):
        content = _without_calls(graph_def).SerializeToString(deterministic=True)
    else:
        raise UsageError(f"rewrite_graph takes a GraphDef, MetaGraphDef or SavedModel or its bytes, not {type(graph_def).__name__}")
    names = [train_op] if isinstance(train_op, str) else list(train_op or [])
    task = Task(
        graph=content,
        name=GRAPH,
        train_ops=tuple(names),
        memory_bytes=tuple(memory_bytes(gpu_memory)),
        profile=device_profile,
        memory_ratio=options.memory_ratio,
        swap_weights=swap_weights,
        cache_dir=cache_dir,
        iterations=iterations_of(options.iterations),
    )
    rewritten, report = plan(task)
    if rewritten is None:
        return graph_def, report
    if isinstance(graph_def, bytes | bytearray | memoryview):
        return rewritten, report
    return type(graph_def).FromString(rewritten), report


def _without_calls(message: Any) -> Any:
    """A GraphDef or MetaGraphDef whose graph calls nothing at its top level; another message as it is."""
    is_meta_graph = message.DESCRIPTOR.name == "MetaGraphDef"
    if not is_meta_graph and message.DESCRIPTOR.name != "GraphDef":
        return message
    graph_def = message.graph_def if is_meta_graph else message
    if not graph_def.library.function:
        return message
    # Whoever has such a message has TensorFlow.
    from .calls import without_calls

    flat = without_calls(graph_def, GRAPH)
    if flat is None or not is_meta_graph:
        return flat or message
    whole = type(message)()
    whole.CopyFrom(message)
    whole.graph_def.CopyFrom(flat)
    return whole
