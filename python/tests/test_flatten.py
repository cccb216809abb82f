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
