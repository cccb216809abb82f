"""Graphs of version 1 with branches that are fed or left to chance: `branches.py FOLDER` writes them."""

import pathlib
import sys

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()


def dense(x, width, name, act=None):
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [x.shape[-1], width])
        y = x @ weights + v1.get_variable("bias", [width])
    return act(y) if act else y


def convolution(x, channels, name):
    weights = v1.get_variable(name, [3, 3, x.shape[-1], channels])
    return tf.nn.conv2d(x, weights, 1, "SAME")


def norm(x, trains, name):
    """A batch norm that is in the graph twice."""
    with v1.variable_scope(name):
        scale, offset, mean, variance = (
            v1.get_variable(of, x.shape[-1:], initializer=v1.ones_initializer(), trainable=of in ("scale", "offset"))
            for of in ("scale", "offset", "mean", "variance")
        )
    as_trained = lambda: v1.nn.fused_batch_norm(x, scale, offset)[0]  # noqa: E731
    as_used = lambda: v1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]  # noqa: E731
    return v1.cond(trains, as_trained, as_used)


def fed_norms():
    trains, x = v1.placeholder_with_default(True, []), v1.placeholder(tf.float32, [16, 32, 32, 3])
    for number in range(5):
        x = tf.nn.relu(norm(convolution(x, 32, f"convolution{number}"), trains, f"norm{number}"))
    return dense(tf.reduce_mean(x, [1, 2]), 10, "end")


def fed_dropouts():
    trains, x = v1.placeholder_with_default(True, []), v1.placeholder(tf.float32, [1024, 256])
    for number in range(5):
        x = dense(x, 256, f"layer{number}", tf.nn.relu)
        x = v1.cond(trains, lambda x=x: v1.nn.dropout(x, rate=0.3), lambda x=x: x)
    return dense(x, 10, "end")


def left_out():
    """Blocks that are left out by chance: here none is."""
    x = dense(v1.placeholder(tf.float32, [1024, 256]), 256, "begin")
    for number in range(5):

        def block(x=x, number=number):
            return x + dense(dense(x, 256, f"first{number}", tf.nn.relu), 256, f"second{number}")

        x = v1.cond(v1.random_uniform([]) < 2.0, block, lambda x=x: x)
    return dense(x, 10, "end")


def two_sides():
    x = v1.placeholder(tf.float32, [1024, 256])
    weights = v1.get_variable("weights", [256, 256])
    x = dense(x, 256, "begin", tf.nn.relu)
    layers = lambda: tf.tanh(tf.tanh(x @ weights) @ weights)  # noqa: E731
    return dense(v1.cond(tf.reduce_sum(x) > -1e9, layers, lambda: x * 2.0), 10, "end")


def main(folder):
    for build in (fed_norms, fed_dropouts, left_out, two_sides):
        with v1.Graph().as_default():
            v1.set_random_seed(1)
            loss = tf.reduce_mean(tf.square(build()))
            v1.add_to_collection("losses", loss)
            v1.add_to_collection("train_op", v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss))
            v1.train.export_meta_graph(str(pathlib.Path(folder) / f"{build.__name__}.meta"))


main(*sys.argv[1:])
