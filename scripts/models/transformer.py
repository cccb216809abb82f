"""What the transformers have in common: attention, dense layers and their initial values.

Activations are matrices with a row for each token, so that all dense layers are plain products. They are [batch, heads,
size, size] where each token attends to each other, the most of the memory of long sequences.
"""

import tensorflow as tf

tf1 = tf.compat.v1

INITIALIZER = tf1.truncated_normal_initializer(stddev=0.02)


def dense(net, x, units, name):
    return net.dense(x, units, name, initializer=INITIALIZER)


def gelu(x):
    """The Gaussian error linear unit."""
    return 0.5 * x * (1.0 + tf.math.erf(x * 0.5**0.5))


def attention(net, x, size, options, seen=None):
    """Each token's mean of all values, weighted by how well its query meets their keys, in several heads.

    `seen`, where given, is added to the scores: very negative for what a token is not to attend to.
    """
    depth = options.hidden // options.heads

    def project(name):
        y = tf.reshape(dense(net, x, options.hidden, name), [-1, size, options.heads, depth])
        return tf.transpose(y, [0, 2, 1, 3])

    with tf1.variable_scope("attention"):
        query, key, value = project("query") * depth**-0.5, project("key"), project("value")
        scores = tf.matmul(query, key, transpose_b=True)
        if seen is not None:
            scores += seen
        weights = tf.nn.dropout(tf.nn.softmax(scores), rate=options.dropout)
        y = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return dense(net, tf.reshape(y, [-1, options.hidden]), options.hidden, "output")


def layer(net, x, size, options, name, seen=None):
    """A layer as GPT-2 and the vision transformer have it: each half normalizes what it gets, and adds to it."""
    with tf1.variable_scope(name):
        y = attention(net, net.layer_norm(x, "attention_norm"), size, options, seen)
        x += tf.nn.dropout(y, rate=options.dropout)
        y = gelu(dense(net, net.layer_norm(x, "output_norm"), options.intermediate, "intermediate"))
        return x + tf.nn.dropout(dense(net, y, options.hidden, "output"), rate=options.dropout)


def check(options):
    """What is wrong with the flags of any transformer."""
    if options.hidden % options.heads:
        return f"--hidden {options.hidden}: expected a multiple of --heads {options.heads}"
    if not 0 <= options.dropout < 1:
        return f"--dropout {options.dropout}: expected 0 or more, and less than 1"
    return None
