"""Shapes in loops, where a trace leaves the batch open. Nothing is run."""

import pytest
import tensorflow as tf

from tf_lms.flatten import flatten
from tf_lms.shapes import Shape, _is_open, _Loops, as_traced, with_shapes


def shapes(step, *specs, batch=4) -> list[tuple[str, Shape]]:
    """Each op of a flat step with the shape of its first output."""
    concrete = tf.function(step).get_concrete_function(*specs)
    graph_def = flatten(concrete, {(number, 0): batch for number in range(len(specs))}).graph
    found = _Loops(graph_def)
    return [(node.op, found.shape(node.name)) for node in graph_def.node if node.attr["_output_shapes"].list.shape]


def of_op(found, op):
    return {shape for name, shape in found if name == op}


def test_what_a_loop_carries_has_the_batch_with_which_it_comes_in():
    def step(x):
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]

    assert of_op(shapes(step, tf.TensorSpec([None, 3])), "Tanh") == {(4, 3)}


def test_what_a_list_holds_has_the_shape_of_what_is_written_to_it():
    def step(x):
        array = tf.TensorArray(tf.float32, 5, element_shape=[None, 3])
        array = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a.write(i, tf.exp(x))), (0, array))[1]
        return tf.reduce_sum(tf.sinh(array.stack())) + tf.reduce_sum(tf.cosh(array.read(2)))

    found = shapes(step, tf.TensorSpec([None, 3]))
    assert of_op(found, "Sinh") == {(5, 4, 3)} and of_op(found, "Cosh") == {(4, 3)}


def test_gradients_of_loops_are_known_too():
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y) * x), (0, x))[1]
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, x)

    found = shapes(step, tf.TensorSpec([None, 3]))
    assert of_op(found, "TanhGrad") == {(4, 3)} and (4, 3) in of_op(found, "Reshape")
    assert not any(_is_open(shape) for op, shape in found if op not in ("BroadcastGradientArgs", "Size"))


def test_what_a_list_of_shapes_says_is_known():
    """Gates of a GRU are parts of a product; a ConvLSTM has convolutions in its loop."""

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)

            def body(i, y):
                images = tf.nn.conv2d(tf.reshape(y, [-1, 2, 2, 3]), tf.ones([1, 1, 3, 3]), 1, "SAME")
                y = tf.reshape(images, tf.shape(y))
                return i + 1, tf.concat([tf.tanh(y[:, :4]), y[:, 4:]], 1)

            loss = tf.reduce_sum(tf.while_loop(lambda i, y: i < 5, body, (0, x))[1])
        return tape.gradient(loss, x)

    found = shapes(step, tf.TensorSpec([None, 12]))
    assert of_op(found, "StridedSliceGrad") == {(4, 12)} and of_op(found, "Conv2DBackpropInput") == {(4, 2, 2, 3)}


def test_what_grows_in_a_loop_is_not_assumed_to_stay():
    def step(x):
        shape = (tf.TensorShape([]), tf.TensorShape([None, 3]))
        grow = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.sin(tf.concat([y, x], 0))), (0, x), shape_invariants=shape)[1]
        return tf.cos(grow)

    found = shapes(step, tf.TensorSpec([None, 3]))
    assert of_op(found, "Sin") == {(None, 3)} and of_op(found, "Cos") == {(None, 3)}


def test_a_list_of_different_shapes_says_nothing():
    def step(x):
        array = tf.TensorArray(tf.float32, 2, element_shape=[None, 3], infer_shape=False)
        array = array.write(0, x).write(1, tf.concat([x, x], 0))
        # A loop, without which nothing is looked for.
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y + 1.0), (0, tf.reduce_sum(tf.sin(array.read(1)))))[1]

    assert of_op(shapes(step, tf.TensorSpec([None, 3])), "Sin") == {(None, 3)}


@pytest.mark.parametrize("drop", [True, False])
def test_what_a_branch_makes_is_inferred(drop):
    def step(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x if drop else tf.sin(x + 1.0))

    assert of_op(shapes(step, tf.TensorSpec([None, 3])), "Sin") == {(4, 3)}


def test_what_a_trace_says_is_what_tensorflow_infers_in_its_order(monkeypatch):
    variables = [tf.Variable(tf.ones([3, 4])), tf.Variable(tf.ones([4, 2])), tf.Variable(0.0)]

    @tf.function
    def scaled(x):
        return x * 2.0

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            # What is broadcast has a gradient whose sizes only a step knows.
            loss = tf.reduce_sum(tf.square(tf.nn.relu(x @ variables[0]) @ variables[1] - tf.reduce_mean(x, 0, keepdims=True)[:, :2]))
        total = scaled(loss) + tf.reduce_sum(y)
        for variable, gradient in zip(variables, tape.gradient(loss, variables[:2]), strict=False):
            variable.assign_sub(gradient)
        variables[2].assign_add(1.0)
        return total

    concrete = step.get_concrete_function(tf.TensorSpec([8, 3]), tf.TensorSpec([8, 2]))
    asked = []
    monkeypatch.setattr("tf_lms.flatten.with_shapes", lambda graph_def: asked.append(with_shapes(graph_def)) or asked[-1])
    told = flatten(concrete, {}).graph
    assert not asked
    monkeypatch.setattr("tf_lms.flatten.as_traced", lambda graph_def: None)
    inferred = flatten(concrete, {}).graph
    assert asked and [node.name for node in told.node] == [node.name for node in inferred.node]
    for one, other in zip(told.node, inferred.node, strict=True):
        assert (one.op, one.device, list(one.input)) == (other.op, other.device, list(other.input))
        assert one.attr["_output_shapes"] == other.attr["_output_shapes"], one.name
        # TensorFlow adds what ops have by default, of those that were added here.
        assert all(other.attr[name] == value for name, value in one.attr.items())


def test_tensorflow_is_asked_where_a_trace_leaves_something_open():
    def step(x):
        return tf.reduce_sum(tf.boolean_mask(x, x > 0.0))

    def looped(x):
        return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]

    graphs = []
    for function in (step, looped, tf.sin):
        concrete = tf.function(function).get_concrete_function(tf.TensorSpec([4]))
        graphs.append(as_traced(flatten(concrete, {}).graph) is None)
    assert graphs == [True, True, False]
