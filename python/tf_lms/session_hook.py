"""`tf_lms.LMSHook`: large model support for sessions of version 1, and for Estimators."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from . import devices, private_hooks
from .calls import without_calls
from .errors import CannotRewrite, LMSError, UsageError
from .fed import Fed, sized
from .log import say, warn
from .options import Iterations, Options, iterations_of
from .planning import Task, plan
from .report import Report

#: What messages call it.
GRAPH = "the session's graph"


class LMSHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """A hook with which a session trains within a GPU's memory.

        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[tf_lms.LMSHook(gpu_memory="16GiB")]) as session: ...

    It changes the default graph before the session is made. Give the session `config=tf_lms.session_config()` for the same last bits.
    """

    def __init__(
        self,
        gpu_memory: Any = None,
        *,
        train_op: Any = None,
        memory_ratio: float | None = None,
        batch_size: int | None = None,
        shapes: Mapping[Any, Any] | None = None,
        values: Mapping[Any, Any] | None = None,
        iterations: Iterations = None,
        device_profile: str | None = None,
        strict: bool = False,
        cache_dir: Any = None,
    ) -> None:
        """The arguments are those of `tf_lms.function`, and what a graph may leave open.

        Args:
            train_op: the op or ops that a step is run for, or their names; None: those of the collection `train_op`, where optimizers
                put them.
            batch_size: the size of what placeholders leave open in their first dimension.
            shapes: the largest shapes that placeholders are fed, by tensor or name, where that is not enough.
            values: what placeholders of whole numbers are fed, by tensor or name, where sizes are made of it.
            iterations: how often loops run at most where the graph does not tell: a number for all, or for some by the names of their
                frames.

        Raises:
            UsageError: if an argument cannot be meant.
        """
        private_hooks.check_versions()
        self._options = Options(gpu_memory, memory_ratio, batch_size, device_profile, True, strict, False, cache_dir, iterations)
        self._fed = Fed(batch_size, shapes, values)
        self._train_op = train_op
        #: What was found out; None before the session is made.
        self.report: Report | None = None

    def begin(self) -> None:
        """Plans for the default graph, and changes it."""
        graph = tf.compat.v1.get_default_graph()
        if graph.finalized:
            raise UsageError("the graph is final, so it cannot be changed; give the hook to the first session that is made of it")
        names = self._train_ops(graph)
        try:
            graph_def = sized(graph, self._fed)
            flat = without_calls(graph_def, GRAPH) or graph_def
            rewritten, self.report = self._plan(flat, names)
            if rewritten is not None:
                change(graph, graph_def, tf.compat.v1.GraphDef.FromString(rewritten))
        except LMSError as error:
            if self._options.strict or not isinstance(error, CannotRewrite):
                raise
            warn(f"the session trains its graph as it is, without large model support: {error}")
            self.report = Report(data={}, original=str(error))
            return
        say(f"{GRAPH}: " + ", ".join(f"{label} {text}" for label, text in self.report.rows()))

    def _train_ops(self, graph: Any) -> list[str]:
        given = self._train_op
        if given is None:
            # An optimizer that updates within a branch leaves an op there, which is in a function's graph.
            given = [one for one in graph.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP) if getattr(one, "graph", graph) is graph]
            if not given:
                raise UsageError('no op of the graph is in the collection "train_op"; give the one that trains: LMSHook(train_op=...)')
        several = [given] if not isinstance(given, Sequence) or isinstance(given, str) else given
        names = [one if isinstance(one, str) else getattr(one, "op", one).name for one in several]
        known = {op.name for op in graph.get_operations()}
        for name in names:
            if name not in known:
                raise UsageError(
                    f"the default graph has no op {name!r}; give LMSHook the op that trains, of the graph that the session is made of"
                )
        return names

    def _plan(self, graph_def: Any, names: list[str]) -> tuple[bytes | None, Report]:
        options = self._options
        return plan(
            Task(
                graph=graph_def.SerializeToString(deterministic=True),
                name=GRAPH,
                train_ops=tuple(names),
                memory_bytes=devices.gpu_memory(options, {}).memory,
                profile=devices.profile(options),
                memory_ratio=options.memory_ratio,
                cache_dir=options.cache_dir,
                iterations=iterations_of(options.iterations),
            )
        )


def session_config(config: Any = None) -> Any:
    """A `tf.compat.v1.ConfigProto` without the graph optimizations that decide about the last bit or take memory that nobody planned.

    Args:
        config: one to start from; it is not changed.
    """
    made = tf.compat.v1.ConfigProto()
    if config is None:
        made.allow_soft_placement = True
    else:
        made.CopyFrom(config)
    private_hooks.turn_off(made.graph_options.rewrite_options)
    return made


def change(graph: Any, before: Any, after: Any) -> None:
    """Makes a graph that no session has run what it is after a rewrite.

    Args:
        graph: the `tf.Graph`.
        before: its GraphDef.
        after: the rewritten one: with more ops, and ops that read or wait for others.

    Raises:
        CannotRewrite: if more than that was changed.
    """
    old = {node.name: node for node in before.node}
    after = _beside_calls(old, after)
    added = [node for node in after.node if node.name not in old]
    waits: list[tuple[str, list[str]]] = []
    body = tf.compat.v1.GraphDef(versions=before.versions)
    for node in added:
        copy = body.node.add()
        copy.CopyFrom(node)
        controls = [name[1:] for name in node.input if name.startswith("^")]
        waits.append((node.name, controls))
        data = [name for name in node.input if not name.startswith("^")]
        del copy.input[:]
        copy.input.extend(data)
    outside = {name if ":" in name else f"{name}:0" for node in body.node for name in node.input if name.split(":")[0] in old}
    private_hooks.add_nodes(graph, body, {name: graph.get_tensor_by_name(name) for name in sorted(outside)})
    for node in after.node:
        if node.name in old:
            waits.append((node.name, _rewire(graph, old[node.name], node)))
    for name, others in waits:
        if others:
            private_hooks.add_control_inputs(graph.get_operation_by_name(name), [graph.get_operation_by_name(other) for other in others])


#: Calls of which a program has no handle: `tf.cond`, `tf.while_loop` and the like give out ops that read their results.
_CONTROL_FLOW = frozenset({"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"})


def _beside_calls(old: dict[str, Any], after: Any) -> Any:
    """A rewritten graph with other names for what has the names of calls, which stay in a session's graph where nobody runs them."""
    calls = {node.name: old[node.name].op for node in after.node if node.name in old and node.op != old[node.name].op}
    for name, op in calls.items():
        if op not in _CONTROL_FLOW:
            raise CannotRewrite(
                f"the program may hold what {name} ({op}) returns, a function that is made flat; call it without tf.function"
            )
    if not calls:
        return after
    taken = {node.name for node in after.node}
    names: dict[str, str] = {}
    for name in calls:
        names[name] = next(free for number in itertools.count() if (free := f"{name}/flat_{number}") not in taken)

    def renamed(read: str) -> str:
        control, read = ("^", read[1:]) if read.startswith("^") else ("", read)
        name, *output = read.split(":")
        return control + ":".join([names.get(name, name), *output])

    copy = tf.compat.v1.GraphDef()
    copy.CopyFrom(after)
    for node in copy.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [renamed(read) for read in node.input]
    return copy


def _rewire(graph: Any, before: Any, after: Any) -> list[str]:
    """Has an op read what it reads after a rewrite; returns what it is to wait for beside what it waits for already."""
    op = graph.get_operation_by_name(before.name)
    data = [[name for name in node.input if not name.startswith("^")] for node in (before, after)]
    if len(data[0]) != len(data[1]):
        raise CannotRewrite(f"the rewritten op {before.name} has {len(data[1])} inputs instead of {len(data[0])}")
    for index, (one, other) in enumerate(zip(*data, strict=True)):
        if one != other:
            private_hooks.set_input(op, index, graph.get_tensor_by_name(other if ":" in other else f"{other}:0"))
    if before.device != after.device:
        private_hooks.set_device(op, after.device)
    waited = {name for name in before.input if name.startswith("^")}
    return [name[1:] for name in after.input if name.startswith("^") and name not in waited]
