"""Graphs of version 1 with loops that train: `while_loops.py FOLDER` writes them."""

import pathlib
import sys

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()


def dense(x, width, name):
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [x.shape[-1], width])
        return x @ weights + v1.get_variable("bias", [width])


def few_iterations():
    """Large tensors, few of them."""
    x = tf.nn.relu(dense(v1.placeholder(tf.float32, [2048, 64]), 128, "begin"))
    weights = v1.get_variable("weights", [128, 128])
    _, x = v1.while_loop(lambda i, x: i < 6, lambda i, x: (i + 1, tf.tanh(x @ weights)), [tf.constant(0), x])
    return dense(x, 10, "end")


def attention():
    """What it looks at is expanded to another shape in each iteration, under which a stack keeps it."""
    places, width, units = 40, 32, 64
    x = v1.placeholder(tf.float32, [64, places, width])
    read = v1.TensorArray(tf.float32, places).unstack(tf.transpose(x, [1, 0, 2]))
    query = v1.get_variable("query", [units, width])
    weights = v1.get_variable("weights", [units + width, units])

    def body(i, state, written):
        scores = tf.nn.softmax(tf.reduce_sum(x * (state @ query)[:, None], -1))
        seen = read.read(i) + tf.reduce_sum(scores[:, :, None] * x, 1)
        state = tf.tanh(tf.concat([state, seen], 1) @ weights)
        return i + 1, state, written.write(i, state)

    begin = [tf.constant(0), tf.zeros([64, units]), v1.TensorArray(tf.float32, places)]
    _, state, written = v1.while_loop(lambda i, *_: i < places, body, begin)
    return dense(state + tf.reduce_mean(written.stack(), 0), 10, "end")


def recurrent():
    """An LSTM: what it carries begins as zeros, and the gradients of its weights add up."""
    times, width, units = 40, 64, 64
    x = dense(v1.placeholder(tf.float32, [64 * times, 16]), width, "begin")
    read = v1.TensorArray(tf.float32, times).unstack(tf.reshape(x, [times, 64, width]))
    weights = v1.get_variable("weights", [units + width, 4 * units])

    def body(i, state, memory, written):
        gates = tf.split(tf.concat([state, read.read(i)], 1) @ weights, 4, 1)
        forget, enter, show = (tf.sigmoid(gate) for gate in gates[:3])
        memory = forget * memory + enter * tf.tanh(gates[3])
        state = show * tf.tanh(memory)
        return i + 1, state, memory, written.write(i, state)

    zeros = tf.zeros([64, units])
    begin = [tf.constant(0), zeros, zeros, v1.TensorArray(tf.float32, times)]
    *_, written = v1.while_loop(lambda i, *_: i < times, body, begin)
    return dense(tf.reduce_mean(written.stack(), 0), 10, "end")


def branch_by_turns():
    """One side keeps what the other made in the iteration before."""
    x = tf.nn.relu(dense(v1.placeholder(tf.float32, [2048, 64]), 128, "begin"))
    weights = v1.get_variable("weights", [128, 128])

    def body(i, x):
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: tf.tanh(x @ weights), lambda: tf.nn.relu(x) * 0.9)

    _, x = v1.while_loop(lambda i, x: i < 6, body, [tf.constant(0), x])
    return dense(x, 10, "end")


def write(make, folder):
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        loss = tf.reduce_mean(tf.square(make()))
        train = v1.train.AdamOptimizer(1e-3).minimize(loss, v1.train.get_or_create_global_step())
        v1.add_to_collection("train_op", train)
        v1.add_to_collection("losses", loss)
        v1.train.Saver()
        v1.train.export_meta_graph(str(folder / f"{make.__name__}.meta"))


if __name__ == "__main__":
    for make in (few_iterations, attention, recurrent, branch_by_turns):
        write(make, pathlib.Path(sys.argv[1]))
