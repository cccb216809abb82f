"""A classifier of texts: words from a table, an LSTM or a GRU over each text's length, a class from its last state.

The loop is `tf.compat.v1.nn.dynamic_rnn`'s: TensorArrays go in and out, and what its backward pass reads is on stacks. How often it
runs the longest text of a batch tells.
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Input, Model, class_labels
from .recurrent import CELLS

tf1 = tf.compat.v1


def inputs(options):
    tokens = Input(
        "tokens",
        tf.int32,
        [options.static_batch, options.static_size],
        [options.feed_batch, options.feed_size],
        {"kind": "int", "lo": 0, "hi": options.vocabulary},
    )
    lengths = Input(
        "lengths",
        tf.int32,
        [options.static_batch],
        [options.feed_batch],
        {"kind": "int", "lo": 1, "hi": options.feed_size + 1},
    )
    return [tokens, lengths, class_labels(options)]


def loss(net, batch, options):
    table = net.variable("words", [options.vocabulary, options.units], tf1.random_uniform_initializer(-0.1, 0.1))
    cell = CELLS[options.cell](net, options.units, options.units, "cell")
    x = tf.nn.embedding_lookup(table, batch["tokens"])
    outputs, state = tf1.nn.dynamic_rnn(cell, x, batch["lengths"], dtype=tf.float32)
    last = state[0] if isinstance(state, tuple) else state
    x = tf.concat([last, tf.reduce_max(outputs, 1)], 1)
    return cross_entropy(net.dense(x, options.classes, "logits"), batch["labels"])


MODEL = Model(
    name="dynamic_rnn",
    summary="LSTM or GRU over texts of any length: a while loop with TensorArrays and stacks, over an embedding",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=200,
    classes=2,
    optimizer="adam",
    learning_rate=1e-3,
    flags={"units": 256, "vocabulary": 20000, "cell": "lstm"},
    channels_first=False,
)
