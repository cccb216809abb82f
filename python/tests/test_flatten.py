"""A traced step as a graph without calls. Nothing is run."""

import tensorflow as tf

from tf_lms.flatten import HOST, flatten


def test_variables_are_where_they_lie_also_those_that_are_only_written_to():
    counter = tf.Variable(0.0)

    @tf.function
    def step():
        counter.assign_add(1.0)

    flat = flatten(step.get_concrete_function(), {})
    nodes = {node.op: node for node in flat.graph.node}
    assert nodes["VarHandleOp"].device == nodes["AssignAddVariableOp"].device == HOST
    assert flat.held_bytes == {HOST: 4}


def test_what_asks_about_an_argument_is_where_it_lies():
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def step(x):
        return tf.shape(x)[0], tf.shape(tf.nn.relu(x))[0]

    flat = flatten(step.get_concrete_function(), {})
    places = {node.input[0]: node.device for node in flat.graph.node if node.op == "Shape"}
    assert places == {flat.inputs[step.get_concrete_function().inputs[0].name]: HOST, "Relu": ""}
