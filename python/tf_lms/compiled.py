"""Functions inside a step that XLA compiles. A plan needs their ops one by one, so TensorFlow's own kernels run them in a planned step."""

from __future__ import annotations

from typing import Any

from . import private_hooks

#: What has XLA compile a function, and what else is said of such a one, so that nobody takes it apart.
COMPILED, WHOLE = "_XlaMustCompile", "_noinline"


def without_xla(graph_def: Any) -> tuple[str, ...]:
    """Has TensorFlow run what XLA was to compile, in a graph and its functions, but for what has ops that XLA alone knows.

    Returns:
        The names of the functions that are no longer compiled.
    """
    functions = {function.signature.name: function for function in graph_def.library.function}
    marked = {name for name, function in functions.items() if _is_marked(function.attr)}
    calls = [node for body in _bodies(graph_def) for node in body if _is_marked(node.attr)]
    marked |= {_callee(node) for node in calls} & functions.keys()
    freed = {name for name in marked if not _only_xla(functions[name], functions)}
    for name in freed:
        _unmark(functions[name].attr)
    for node in calls:
        if _callee(node) in freed:
            _unmark(node.attr)
    return tuple(sorted(freed))


def _bodies(graph_def: Any) -> list[Any]:
    return [graph_def.node, *(function.node_def for function in graph_def.library.function)]


def _callee(node: Any) -> str:
    """The function that a node calls, by its attribute or as if it were an op."""
    # Asking for an attribute that is not there would add it.
    return str(node.attr["f"].func.name if "f" in node.attr else node.op)


def _is_marked(attr: Any) -> bool:
    return COMPILED in attr and attr[COMPILED].b


def _unmark(attr: Any) -> None:
    for name in (COMPILED, WHOLE):
        attr.pop(name, None)


def _only_xla(function: Any, functions: dict[str, Any]) -> bool:
    """Whether a function, or what it calls, has an op for which TensorFlow has no kernel."""
    seen, open_ = {function.signature.name}, [function]
    while open_:
        for node in open_.pop().node_def:
            if node.op not in functions and not private_hooks.has_kernel(node.op):
                return True
            called = [value.func.name for value in node.attr.values() if value.HasField("func")] + [node.op]
            called += [func.name for value in node.attr.values() for func in value.list.func]
            new = {name for name in called if name in functions} - seen
            seen |= new
            open_ += [functions[name] for name in new]
    return False
