"""Graphs of version 1 as their authors wrote the updates in them: `updates.py FOLDER` writes them."""

import pathlib
import sys

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()

BATCH = 64
WORDS = 32


def updated(total, number, value):
    """A running mean, as a batch norm has one."""
    mean = v1.get_variable(f"mean{number}", value.shape, initializer=v1.zeros_initializer(), trainable=False)
    total.append(v1.assign_sub(mean, 0.1 * (mean - value)))


def moving_averages():
    """The optimizer waits for all running means, and the averages of all weights for the optimizer, by way of constants."""
    x, updates = v1.placeholder(tf.float32, [BATCH, 256]), []
    for number in range(40):
        weights = v1.get_variable(f"weights{number}", [256, 256])
        x = tf.nn.relu(x @ weights)
        updated(updates, number, tf.reduce_mean(x, 0))
    loss = tf.reduce_mean(x) + 1e-4 * tf.add_n([tf.nn.l2_loss(weights) for weights in v1.trainable_variables()])
    steps = v1.train.get_or_create_global_step()
    with tf.control_dependencies(updates):
        train = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, steps)
    with tf.control_dependencies([train]):
        averages = v1.train.ExponentialMovingAverage(0.99, steps).apply(v1.trainable_variables())
    return averages, loss


def words_on_the_host():
    """Words are looked up on the host, where their shape is asked for too, and the gradient goes back there."""
    with tf.device("/cpu:0"):
        table = v1.get_variable("table", [1000, 128])
        words = tf.nn.embedding_lookup(table, v1.placeholder(tf.int32, [BATCH, WORDS]))
        x = tf.expand_dims(words, -1)
    found = []
    for width in (2, 3, 4):
        filters = v1.get_variable(f"filters{width}", [width, 128, 1, 32])
        y = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "VALID"))
        found.append(tf.reduce_max(y, [1, 2]))
    weights = v1.get_variable("weights", [3 * 32, 2])
    loss = tf.reduce_mean((tf.concat(found, 1) @ weights) ** 2)
    return v1.train.AdamOptimizer(0.001).minimize(loss), loss


def main(folder):
    for graph in (moving_averages, words_on_the_host):
        with tf.Graph().as_default():
            v1.set_random_seed(1)
            train, loss = graph()
            # The optimizer is in there by itself.
            v1.get_collection_ref(v1.GraphKeys.TRAIN_OP)[:] = [train]
            v1.add_to_collection(v1.GraphKeys.LOSSES, loss)
            v1.train.export_meta_graph(str(folder / f"{graph.__name__}.meta"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
