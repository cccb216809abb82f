"""A language model of LSTMs, all steps of which are in the graph: `tf.compat.v1.nn.static_rnn`.

After Zaremba et al., "Recurrent Neural Network Regularization" (2014).
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Input, Model
from .recurrent import LstmCell

tf1 = tf.compat.v1


def inputs(options):
    def numbers(name):
        feed = {"kind": "int", "lo": 0, "hi": options.vocabulary}
        shape = [options.static_batch, options.static_size]
        return Input(name, tf.int32, shape, [options.feed_batch, options.feed_size], feed)

    return [numbers("tokens"), numbers("next_tokens")]


def loss(net, batch, options):
    table = net.variable("words", [options.vocabulary, options.units], tf1.random_uniform_initializer(-0.1, 0.1))
    x = tf.unstack(tf.nn.embedding_lookup(table, batch["tokens"]), axis=1)
    for layer in range(options.layers):
        with tf1.variable_scope(f"layer{layer + 1}"):
            cell = LstmCell(net, options.units, options.units, "cell")
            x, _ = tf1.nn.static_rnn(cell, [tf.nn.dropout(step, rate=options.dropout) for step in x], dtype=tf.float32)
    x = tf.reshape(tf.stack(x, axis=1), [-1, options.units])
    logits = net.dense(x, options.vocabulary, "logits")
    return cross_entropy(logits, tf.reshape(batch["next_tokens"], [-1]))


def check(options):
    if not 0 <= options.dropout < 1:
        return f"--dropout {options.dropout}: expected 0 or more, and less than 1"
    return None


MODEL = Model(
    name="static_lstm",
    summary="language model of LSTMs, unrolled: each step has its own ops",
    inputs=inputs,
    loss=loss,
    batch=20,
    size=35,
    optimizer="sgd",
    learning_rate=1.0,
    flags={"layers": 2, "units": 650, "vocabulary": 10000, "dropout": 0.5},
    free_size=False,
    smallest=2,
    channels_first=False,
    check=check,
)
