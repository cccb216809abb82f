"""All that this package uses of TensorFlow and Keras beside what they document; of Keras 2 it is in `keras_2`. Nothing else does.

Each function says what it relies on. `tests/test_private_hooks.py` tries each of them; a version that is not among those below was
never tried, and `check_versions` says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from .errors import MissingTensorFlow, UnsupportedVersion

#: The first and the last version with which all of this was tried.
TENSORFLOW_VERSIONS = ((2, 16), (2, 21))
KERAS_VERSIONS = ((3, 5), (3, 15))
KERAS_2_VERSIONS = ((2, 16), (2, 21))

#: What Keras calls the function that runs one step on a batch, on all replicas.
KERAS_STEP = "one_step_on_data"

#: The graph optimizations that are off for a planned step, and how: they decide about the last bit where copies stand between ops, or take
#: memory that nobody planned, as folded constants do, and images that are turned at both ends of a copy. The memory optimizer takes sums of
#: three tensors or more apart where it estimates that a step fills four fifths of the GPU's memory (`SchedulingPass`), which a step that
#: is planned for does: in another order, and in memory of their own.
TURNED_OFF = {"arithmetic_optimization": "OFF", "constant_folding": "OFF", "layout_optimizer": "OFF", "memory_optimization": "NO_MEM_OPT"}


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _check(name: str, version: str, tried: tuple[tuple[int, int], tuple[int, int]]) -> None:
    first, last = tried
    if not first <= _minor(version) <= last:
        between = f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"
        raise UnsupportedVersion(
            f"{name} {version} was never tried with tf-lms, which uses parts of it that are not documented; install {between}, "
            "or a newer tf-lms"
        )


def check_versions() -> None:
    """Raises `UnsupportedVersion` for a version of TensorFlow that nobody tried."""
    _check("TensorFlow", tf.__version__, TENSORFLOW_VERSIONS)


def check_keras_2(keras: Any) -> None:
    """Raises `UnsupportedVersion` for a Keras 2 that nobody tried."""
    _check("tf_keras", keras.__version__, KERAS_2_VERSIONS)


def check_keras() -> Any:
    """Keras, if it is one that can be used.

    Raises:
        MissingTensorFlow: if it is not there, or computes with something else.
        UnsupportedVersion: if nobody tried it.
    """
    check_versions()
    try:
        import keras
    except ImportError as error:
        if importlib.util.find_spec("keras") is None:
            raise MissingTensorFlow("Keras is not installed; install it with: pip install keras") from error
        raise MissingTensorFlow(
            f"Keras cannot be imported ({error}); set KERAS_BACKEND=tensorflow if it is set to another backend"
        ) from error
    _check("Keras", keras.__version__, KERAS_VERSIONS)
    if keras.backend.backend() != "tensorflow":
        raise MissingTensorFlow(
            f"Keras computes with {keras.backend.backend()}, and tf-lms rewrites TensorFlow's graphs; set "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )
    return keras


# Functions: tf.function's own parts.


def trace(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The ConcreteFunction that a `tf.function` would run for these arguments; traced if it must be."""
    # The documented get_concrete_function keeps the graph alive for good.
    return function._get_concrete_function_garbage_collected(*args, **kwargs)


def with_defaults(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call of a `tf.function` with its defaults for what was left out."""
    from tensorflow.python.eager.polymorphic_function import function_type_utils

    bound = function_type_utils.bind_function_inputs(args, kwargs, function._function_type, function._default_values)
    return bound.args, bound.kwargs


def is_tf_function(function: Any) -> bool:
    """Whether this is what `tf.function` makes."""
    return hasattr(function, "_get_concrete_function_garbage_collected")


def flat_arguments(concrete: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that a ConcreteFunction is given for these arguments, in the order of its inputs."""
    return list(concrete.function_type.unpack_inputs(concrete.function_type.bind(*args, **kwargs)))


def call(concrete: Any, flat: Sequence[Any]) -> Any:
    """Runs a ConcreteFunction on such tensors, and packs what it returns."""
    return concrete._call_flat(list(flat), captured_inputs=concrete.captured_inputs)


def captures(concrete: Any) -> list[tuple[Any, Any]]:
    """What a function captured: pairs of the tensor outside and the one inside."""
    return [(external, internal) for external, internal in concrete.graph.captures]


def deferred_captures(concrete: Any) -> list[tuple[Any, Any, Any]]:
    """What a function asks for at each call: the key, how it is asked for, and the tensor inside."""
    both = concrete.graph._function_captures
    # By key: the two dictionaries are ordered differently.
    return [(key, both.by_ref_external[key], internal) for key, internal in both.by_ref_internal.items()]


def variable_type(handle: Any) -> tuple[int, Any] | None:
    """The dtype (its number in protobufs) and shape (a proto) of the variable that a handle is of; None if it is of something else."""
    data = getattr(handle, "_handle_data", None)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return data.shape_and_type[0].dtype, data.shape_and_type[0].shape


def library(concrete: Any) -> tuple[Any, str]:
    """A function with all that it calls, as the library of a GraphDef, with the shapes of their tensors; and its name there."""
    graph = tf.Graph()
    concrete.add_to_graph(graph)
    graph_def = graph.as_graph_def(add_shapes=True)
    return graph_def, concrete.function_def.signature.name


def has_kernel(op: str) -> bool:
    """Whether TensorFlow has a kernel of its own for an op, on whatever device. Those of XLA's ops only hand them on to it."""
    from tensorflow.python.framework import kernels

    return not op.startswith("Xla") and bool(kernels.get_registered_kernels_for_op(op).kernel)


def import_into(graph: Any, graph_def: Any, input_map: Mapping[str, Any]) -> None:
    """Adds nodes to a graph under their own names. `input_map` has tensors for names such as `a:0`, each of which somebody reads.

    Relies on what TensorFlow's own importer does by the C API and then, for each op, in Python: of the latter only the op itself is made
    here. Asking each op for its colocations and applying the scopes that are open takes as long again, and there is neither here: a
    node that is to be where others are gets their device.
    """
    from tensorflow.python.client import pywrap_tf_session as session
    from tensorflow.python.framework import c_api_util, errors, importer

    if graph_def.library.function:
        with graph.as_default():
            importer.import_graph_def(graph_def, input_map=dict(input_map), name="")
        return
    scoped = c_api_util.ScopedTFImportGraphDefOptions()
    session.TF_ImportGraphDefOptionsSetUniquifyNames(scoped.options, False)
    for name, tensor in input_map.items():
        op, _, output = name.rpartition(":")
        session.TF_ImportGraphDefOptionsAddInputMapping(scoped.options, op, int(output), tensor._as_tf_output())
    with graph._mutation_lock():
        with c_api_util.tf_buffer(graph_def.SerializeToString()) as content, graph._c_graph.get() as c_graph:
            try:
                results = session.TF_GraphImportGraphDefWithResults(c_graph, content, scoped.options)
            except errors.InvalidArgumentError as error:
                raise ValueError(str(error)) from error
        c_api_util.ScopedTFImportGraphDefResults(results)
        _place_with_colocated(graph_def, {op.name: op for op in graph._add_new_tf_operations(compute_devices=False)}, graph)


def _place_with_colocated(graph_def: Any, new: Mapping[str, Any], graph: Any) -> None:
    """Places ops that were imported where those are that they are colocated with, as TensorFlow's importer does."""
    colocated: dict[str, list[str]] = {}
    for node in graph_def.node:
        if "_class" in node.attr:
            names = [value.decode() for value in node.attr["_class"].list.s]
            others = [name.removeprefix("loc:@") for name in names if name.startswith("loc:@") and name != f"loc:@{node.name}"]
            if others:
                colocated[node.name] = others
                new[node.name]._set_device("")
    if not colocated:
        return
    known = {op.name: op for op in graph.get_operations()}
    for name in (name for name in new if name in colocated):
        device = next((known[other].device for other in colocated[name] if other in known and known[other].device), None)
        if device:
            new[name]._set_device(device)


def add_nodes(graph: Any, graph_def: Any, input_map: Mapping[str, Any]) -> None:
    """As `import_into`, of nodes that are to be placed where others of the graph are."""
    from tensorflow.python.framework import importer

    with graph.as_default():
        importer._import_graph_def_internal(graph_def, input_map=dict(input_map), name="", validate_colocation_constraints=False)


def new_function_graph(name: str) -> Any:
    """An empty graph of a function."""
    from tensorflow.python.framework import func_graph

    return func_graph.FuncGraph(name)


def capture_deferred(graph: Any, key: Any, ask: Any, internal: Any) -> Any:
    """Has a function's graph ask for a value at each call, as the function did that it stands for."""
    return graph.capture_call_time_value(ask, tf.TensorSpec(internal.shape, internal.dtype), key=key)


def function_like(concrete: Any, graph: Any, inputs: list[Any], outputs: list[Any], controls: list[Any]) -> Any:
    """A ConcreteFunction with a graph of ours that is called, and returns, as another is. It is not marked to be compiled by XLA."""
    from tensorflow.python.eager.polymorphic_function import concrete_function

    original = concrete.graph
    graph.inputs = inputs + list(graph.deferred_internal_captures)
    graph.outputs = outputs
    graph.control_outputs = controls
    graph._weak_variables = list(original._weak_variables)
    graph.structured_input_signature = original.structured_input_signature
    graph.structured_outputs = original.structured_outputs
    return concrete_function.ConcreteFunction.from_func_graph(graph, concrete.function_type, {})


@contextlib.contextmanager
def exact_calls() -> Iterator[None]:
    """While this is open, functions that this thread calls are optimized without what is in `TURNED_OFF`."""
    from tensorflow.python.eager import context

    ours = context.context()
    before = ours.function_call_options
    ours.function_call_options = _exact(before)
    try:
        yield
    finally:
        ours.function_call_options = before


def turn_off(options: Any) -> None:
    """Has a `RewriterConfig` leave out what is in `TURNED_OFF`."""
    for name, value in TURNED_OFF.items():
        setattr(options, name, getattr(options, value))


_exact_of: dict[Any, Any] = {}


def _exact(options: Any) -> Any:
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    key = (options.config_proto_serialized, options.executor_type)
    if key not in _exact_of:
        config = config_pb2.ConfigProto.FromString(options.config_proto_serialized)
        turn_off(config.graph_options.rewrite_options)
        _exact_of[key] = context.FunctionCallOptions(executor_type=options.executor_type, config_proto=config)
    return _exact_of[key]


# Devices.


def gpu_memory_limits() -> list[int]:
    """What TensorFlow's allocator may use of each logical GPU, in bytes. The devices are set up by this, if they were not."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session as session
    from tensorflow.python.eager import context

    ours = context.context()
    ours.ensure_initialized()
    devices = pywrap_tfe.TFE_ContextListDevices(ours._handle)
    numbers = range(session.TF_DeviceListCount(devices))
    return [session.TF_DeviceListMemoryBytes(devices, n) for n in numbers if session.TF_DeviceListType(devices, n) == "GPU"]


# Keras.


def make_keras_step(model: Any, make: Callable[[], None], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Has Keras make its training function, with `wrap` in place of the `tf.function` of its step.

    Relies on Keras making that one by `tf.function` of a function of the name KERAS_STEP.

    Returns:
        Whether there was such a function.
    """
    original, found = tf.function, []

    def function(python_function: Any = None, **options: Any) -> Any:
        if getattr(python_function, "__name__", None) != KERAS_STEP:
            return original(python_function, **options)
        found.append(python_function)
        return wrap(original(python_function, **options))

    tf.function = function
    try:
        make()
    finally:
        tf.function = original
    return bool(found)


def runs_all_replicas(one_step: Any) -> bool:
    """Whether Keras' step runs all replicas, as it does in Keras 3.8, or each replica runs it, as in Keras 3.5."""
    # Keras' own function is in AutoGraph's wrapper of it.
    return "distribute_strategy" in inspect.unwrap(one_step.python_function).__code__.co_names


def fit_batch_size(depth: int = 1) -> int | None:
    """The batch size of the data that the calling `fit` trains on; None if nobody calls `fit`, or its data does not say."""
    frame = sys._getframe(depth)
    while frame is not None:
        adapter = _adapter(frame.f_locals) if frame.f_code.co_name == "fit" else None
        if adapter is not None:
            size = adapter.batch_size
            # Keras 2 has a method where Keras 3 has a property.
            return (size() if callable(size) else size) or dataset_batch_size(getattr(adapter, "_dataset", None))
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _adapter(local: Mapping[str, Any]) -> Any:
    """What brings the batches, of the variables of a `fit`; None if it is no Keras' one."""
    found = getattr(local.get("epoch_iterator"), "data_adapter", None)
    return found or getattr(local.get("data_handler"), "_adapter", None)


def iterator_batch_size(iterator: Any) -> int | None:
    """The batch size of the dataset that an iterator is of; None if it cannot be seen."""
    return dataset_batch_size(getattr(iterator, "_dataset", None))


def dataset_batch_size(dataset: Any) -> int | None:
    """The last `batch` of a dataset, seen through what does not change it."""
    while dataset is not None:
        if hasattr(dataset, "_batch_size"):
            size = tf.get_static_value(dataset._batch_size)
            return None if size is None else int(size)
        changes = type(dataset).__name__ in ("_MapDataset", "_ParallelMapDataset", "_UnbatchDataset", "_FlatMapDataset", "_RebatchDataset")
        sources = dataset._inputs() if hasattr(dataset, "_inputs") else []
        # A map may change the batch, and mostly does not: its own spec tells where it is known.
        if len(sources) != 1 or (changes and "Map" not in type(dataset).__name__) or "FlatMap" in type(dataset).__name__:
            return None
        dataset = sources[0]
    return None


# Graphs of version 1.


def set_input(op: Any, index: int, tensor: Any) -> None:
    """Has an op of a graph that no session has run yet read another tensor."""
    op._update_input(index, tensor)


def set_device(op: Any, device: str) -> None:
    """Has an op of such a graph run elsewhere."""
    op._set_device(device)


def add_control_inputs(op: Any, others: Sequence[Any]) -> None:
    """Has an op of such a graph wait for others."""
    op._add_control_inputs(list(others))
