"""Each thing that is used of TensorFlow and Keras beside what they document, so that a new version fails here and not in training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_lms import keras_2, private_hooks


def test_functions_are_traced_bound_and_called():
    function = tf.function(lambda x, y=2.0: {"z": x * y})
    args, kwargs = private_hooks.with_defaults(function, (tf.constant(3.0),), {})
    concrete = private_hooks.trace(function, args, kwargs)
    assert private_hooks.is_tf_function(function) and not private_hooks.is_tf_function(len)
    assert private_hooks.trace(function, args, kwargs) is concrete
    flat = private_hooks.flat_arguments(concrete, args, kwargs)
    assert float(private_hooks.call(concrete, flat)["z"]) == 6.0


def test_captures_and_the_types_of_variables():
    variable, table = tf.Variable(tf.ones([2, 3])), tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    concrete = tf.function(lambda: (variable + 1.0, table.size())).get_concrete_function()
    types = [private_hooks.variable_type(external) for external, _ in private_hooks.captures(concrete)]
    assert next(known for known in types if known)[0] == tf.float32.as_datatype_enum
    assert sorted(known is None for known in types) == [False, True]


def test_functions_come_with_all_that_they_call_and_with_shapes():
    inner = tf.function(lambda x: x * 2.0)
    concrete = tf.function(lambda x: inner(x) + 1.0).get_concrete_function(tf.TensorSpec([2]))
    library, name = private_hooks.library(concrete)
    functions = {function.signature.name: function for function in library.library.function}
    assert len(functions) == 2 and name in functions
    ops = [node for function in functions.values() for node in function.node_def if node.op in ("Mul", "AddV2")]
    assert len(ops) == 2
    assert all([dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim] == [2] for node in ops)


def test_kernels_of_ops():
    assert private_hooks.has_kernel("Conv2D") and private_hooks.has_kernel("PartitionedCall")
    assert not private_hooks.has_kernel("XlaDot") and not private_hooks.has_kernel("NoSuchOp")


def test_functions_are_called_without_what_decides_about_the_last_bit():
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.eager import context

    def told():
        config = config_pb2.ConfigProto.FromString(context.context().function_call_options.config_proto_serialized)
        return [getattr(config.graph_options.rewrite_options, name) for name in private_hooks.TURNED_OFF]

    before = told()
    with private_hooks.exact_calls():
        assert told() == [rewriter_config_pb2.RewriterConfig.OFF] * 3 + [rewriter_config_pb2.RewriterConfig.NO_MEM_OPT]
    assert told() == before


def test_keras_makes_its_step_by_tf_function():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    wrapped = []

    def wrap(step):
        wrapped.append(step)
        return step

    original = tf.function
    assert private_hooks.make_keras_step(model, lambda: model.make_train_function(force=True), wrap)
    assert tf.function is original and len(wrapped) == 1
    assert private_hooks.runs_all_replicas(wrapped[0]) == (private_hooks._minor(keras.__version__) >= (3, 8))
    assert not private_hooks.make_keras_step(model, lambda: None, wrap)


def test_keras_2_makes_one_function_of_a_step_that_takes_its_batch_from_an_iterator():
    keras = pytest.importorskip("tf_keras")
    model = keras.Sequential([keras.layers.Dense(1)])
    assert keras_2.is_model(model) and not keras_2.is_compiled(model) and not keras_2.is_model(keras)
    model.compile("sgd", "mse")
    wrapped = []

    def wrap(step):
        wrapped.append(step)
        return step

    private_hooks.check_keras_2(keras)
    assert keras_2.is_compiled(model)
    assert keras_2.make_step(model, lambda: model.make_train_function(force=True), wrap)
    x = np.ones([8, 2], "float32")
    model.fit(x, x[:, :1], batch_size=4, verbose=0)
    # Once more where it made variables.
    assert len(wrapped) == 1 and wrapped[0].experimental_get_tracing_count() in (1, 2)
    assert not keras_2.make_step(model, lambda: setattr(model, "train_function", lambda _: None), wrap)


@pytest.mark.parametrize("drop", [True, False])
def test_batch_sizes_of_datasets(drop):
    dataset = tf.data.Dataset.range(20).batch(8, drop_remainder=drop)
    mapped = dataset.map(lambda x: x + 1).prefetch(2)
    for one in (dataset, mapped, dataset.repeat(), dataset.cache()):
        assert private_hooks.dataset_batch_size(one) == 8
        assert private_hooks.iterator_batch_size(iter(one)) == 8
    assert private_hooks.dataset_batch_size(dataset.unbatch()) is None
    assert private_hooks.dataset_batch_size(dataset.rebatch(3)) in (3, None)
    assert private_hooks.dataset_batch_size(tf.data.Dataset.range(3)) is None


@pytest.mark.parametrize("module", ["keras", "tf_keras"])
def test_the_batch_size_that_fit_was_given(module):
    keras, seen = pytest.importorskip(module), []

    class Seeing(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.append(private_hooks.fit_batch_size())

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones([5, 2]), np.ones([5, 1])
    model.fit(x, y, batch_size=2, verbose=0, callbacks=[Seeing()])
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4).prefetch(1), verbose=0, callbacks=[Seeing()])
    assert seen == [2, 2, 2, 4, 4] and private_hooks.fit_batch_size() is None


def test_graphs_of_version_1_are_changed():
    with tf.Graph().as_default() as graph:
        a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
        c, d = tf.add(a, 0.0, name="c"), tf.no_op(name="d")
        private_hooks.set_input(c.op, 0, b)
        private_hooks.add_control_inputs(c.op, [d])
        private_hooks.set_device(c.op, "/device:CPU:0")
        assert c.op.inputs[0] is b or c.op.inputs[0].name == "b:0"
        assert [op.name for op in c.op.control_inputs] == ["d"] and c.op.device == "/device:CPU:0"
        body = tf.compat.v1.GraphDef()
        node = body.node.add(name="e", op="Identity", input=["c:0"])
        node.attr["T"].type = tf.float32.as_datatype_enum
        node.attr["_class"].list.s.append(b"loc:@b")
        private_hooks.add_nodes(graph, body, {"c:0": c})
        with tf.compat.v1.Session() as session:
            assert session.run("e:0") == 2.0


def test_graphs_are_imported_as_tensorflow_does_it():
    def made():
        graph, body = tf.Graph(), tf.compat.v1.GraphDef()
        with graph.as_default():
            x = tf.compat.v1.placeholder(tf.float32, [2, None], name="x")
        for name, inputs, device, beside in (
            # Not in the order of their inputs, and where others are.
            ("b", ["a", "^c"], "/device:CPU:1", ["loc:@a"]),
            ("a", ["given:0"], "/job:localhost/replica:0/task:0/device:GPU:0", []),
            ("c", ["given:0"], "", ["loc:@b", "loc:@c"]),
            ("d", ["a"], "/device:CPU:0", ["loc:@d"]),
        ):
            node = body.node.add(name=name, op="Identity", input=inputs, device=device)
            node.attr["T"].type = tf.float32.as_datatype_enum
            if beside:
                node.attr["_class"].list.s.extend(text.encode() for text in beside)
        return graph, body, {"given:0": x}

    graph, body, given = made()
    private_hooks.import_into(graph, body, given)
    other, body, given = made()
    with other.as_default():
        tf.graph_util.import_graph_def(body, input_map=given, name="")
    assert graph.as_graph_def(add_shapes=True) == other.as_graph_def(add_shapes=True)
    assert [op.name for op in graph.get_operations()] == [op.name for op in other.get_operations()]
    assert graph.get_tensor_by_name("d:0").shape.as_list() == [2, None] and graph.get_operation_by_name("b").device
    with pytest.raises(ValueError, match="nobody"):
        private_hooks.import_into(graph, tf.compat.v1.GraphDef(node=[{"name": "e", "op": "NoOp", "input": ["^nobody"]}]), {})


def test_memory_of_gpus_is_asked_for():
    assert private_hooks.gpu_memory_limits() == []
