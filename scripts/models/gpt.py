"""GPT-2: a decoder of transformer layers that says which token follows.

After Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). Tokens and positions are looked up as
its authors do, so that the gradient of a table lists the rows that were used: how many different ones these are only the
tokens tell. The logits share the tokens' table, whose gradient is then both kinds in one.
"""

import tensorflow as tf

from . import transformer
from .layers import cross_entropy, size_of
from .model import FREE, Input, Model
from .transformer import INITIALIZER

tf1 = tf.compat.v1

UNSEEN = -10000.0  # added to what a token is not to attend to; exp makes it 0


def inputs(options):
    feed = {"kind": "int", "lo": 0, "hi": options.vocabulary}
    shape = [options.static_batch, options.static_size]
    return [Input("tokens", tf.int32, shape, [options.feed_batch, options.feed_size], feed)]


def loss(net, batch, options):
    tokens = batch["tokens"]
    size = size_of(tokens, 1)
    words = net.variable("words", [options.vocabulary, options.hidden], INITIALIZER)
    places = net.variable("positions", [options.positions, options.hidden], INITIALIZER)
    numbers = tf.tile(tf.range(size)[tf.newaxis], [size_of(tokens, 0), 1])
    x = tf.nn.embedding_lookup(words, tokens) + tf.nn.embedding_lookup(places, numbers)
    x = tf.nn.dropout(tf.cast(tf.reshape(x, [-1, options.hidden]), net.dtype), rate=options.dropout)
    earlier = tf.range(size)[:, tf.newaxis] >= tf.range(size)
    seen = UNSEEN * (1.0 - tf.cast(earlier, net.dtype))
    for i in range(options.layers):
        x = transformer.layer(net, x, size, options, f"layer{i + 1}", seen)
    x = net.layer_norm(x, "norm")
    logits = tf.reshape(tf.matmul(x, tf.cast(words, net.dtype), transpose_b=True), [-1, size, options.vocabulary])
    return cross_entropy(logits[:, :-1], tokens[:, 1:])


def check(options):
    """A head has its part of the hidden values, and each token a position and one that follows."""
    size = MODEL.size if options.size == FREE else options.size
    if size > options.positions:
        return f"--positions {options.positions}: less than the length of a sequence, {size}"
    return transformer.check(options)


MODEL = Model(
    name="gpt",
    summary="GPT-2, a transformer decoder; its gradients of embeddings list the rows that were used",
    inputs=inputs,
    loss=loss,
    batch=8,
    size=1024,
    optimizer="adam",
    learning_rate=1e-4,
    flags={
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "intermediate": 3072,
        "vocabulary": 50257,
        "positions": 1024,
        "dropout": 0.1,
    },
    smallest=2,
    channels_first=False,
    check=check,
)
