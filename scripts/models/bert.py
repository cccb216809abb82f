"""BERT, pre-trained: an encoder of transformer layers that names masked tokens and tells whether two sentences follow.

After Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" (2018), whose
layers are the encoder's of Vaswani et al., "Attention Is All You Need" (2017). A sequence is two sentences, `segments`
says which a token belongs to, and token 0 fills up what is shorter. The logits of the masked tokens share the table of
the embeddings.
"""

import tensorflow as tf

from . import transformer
from .layers import cross_entropy, rows, size_of
from .model import FREE, Input, Model, class_labels
from .transformer import INITIALIZER, attention, dense, gelu

tf1 = tf.compat.v1

PADDING = 0
SEGMENTS = 2
MASKED = 0.15  # of the tokens of a sequence
UNSEEN = -10000.0  # added to what a token is not to attend to; exp makes it 0
EPSILON = 1e-12


def inputs(options):
    masked = max(1, int(MASKED * options.feed_size))

    def numbers(name, static, fed, below):
        feed = {"kind": "int", "lo": 0, "hi": below}
        return Input(name, tf.int32, [options.static_batch, static], [options.feed_batch, fed], feed)

    return [
        numbers("tokens", options.static_size, options.feed_size, options.vocabulary),
        numbers("segments", options.static_size, options.feed_size, SEGMENTS),
        numbers("masked_positions", masked, masked, options.feed_size),
        numbers("masked_tokens", masked, masked, options.vocabulary),
        class_labels(options),
    ]


def norm(net, x, name):
    return net.layer_norm(x, name, epsilon=EPSILON)


# --- the encoder ----------------------------------------------------------------------------------------------------


def embed(net, words, batch, options):
    """The first layer's input: token, segment and position, each from a table, as a sum."""
    with tf1.variable_scope("embeddings"):
        segments = net.weights("segments", [SEGMENTS, options.hidden], INITIALIZER)
        positions = net.weights("positions", [options.positions, options.hidden], INITIALIZER)
        x = rows(words, batch["tokens"]) + rows(segments, batch["segments"])
        x += positions[: size_of(batch["tokens"], 1)]
        x = norm(net, tf.reshape(x, [-1, options.hidden]), "norm")
        return tf.nn.dropout(x, rate=options.dropout)


def layer(net, x, seen, size, options, name):
    """Attention, then two dense layers for each token by itself; either is added to what it got, and normalized."""
    with tf1.variable_scope(name):
        y = tf.nn.dropout(attention(net, x, size, options, seen), rate=options.dropout)
        x = norm(net, x + y, "attention_norm")
        y = dense(net, gelu(dense(net, x, options.intermediate, "intermediate")), options.hidden, "output")
        return norm(net, x + tf.nn.dropout(y, rate=options.dropout), "output_norm")


# --- the two tasks --------------------------------------------------------------------------------------------------


def masked_loss(net, x, words, batch, size, options):
    """How well the masked tokens are named."""
    with tf1.variable_scope("masked"):
        positions = batch["masked_positions"]
        starts = tf.range(size_of(positions, 0)) * size
        x = rows(x, tf.reshape(positions + starts[:, tf.newaxis], [-1]))
        x = norm(net, gelu(dense(net, x, options.hidden, "transform")), "norm")
        logits = net.bias(tf.matmul(x, words, transpose_b=True))
        return cross_entropy(logits, tf.reshape(batch["masked_tokens"], [-1]))


def sentence_loss(net, x, batch, size, options):
    """How well the first token of each sequence tells whether its second sentence follows its first one."""
    with tf1.variable_scope("sentences"):
        first = tf.reshape(x, [-1, size, options.hidden])[:, 0]
        pooled = tf.tanh(dense(net, first, options.hidden, "pooler"))
        return cross_entropy(dense(net, pooled, options.classes, "logits"), batch["labels"])


def loss(net, batch, options):
    tokens = batch["tokens"]
    size = size_of(tokens, 1)
    words = net.weights("words", [options.vocabulary, options.hidden], INITIALIZER)
    x = embed(net, words, batch, options)
    seen = UNSEEN * tf.cast(tf.equal(tokens, PADDING), net.dtype)[:, tf.newaxis, tf.newaxis]
    for i in range(options.layers):
        x = layer(net, x, seen, size, options, f"layer{i + 1}")
    return masked_loss(net, x, words, batch, size, options) + sentence_loss(net, x, batch, size, options)


def check(options):
    """A head has its part of the hidden values, and each token a position."""
    size = MODEL.size if options.size == FREE else options.size
    if size > options.positions:
        return f"--positions {options.positions}: less than the length of a sequence, {size}"
    return transformer.check(options)


MODEL = Model(
    name="bert",
    summary="BERT, a transformer encoder, pre-trained on masked tokens and pairs of sentences",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=512,
    classes=2,
    optimizer="adam",
    learning_rate=1e-4,
    flags={
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "intermediate": 3072,
        "vocabulary": 30522,
        "positions": 512,
        "dropout": 0.1,
    },
    channels_first=False,
    check=check,
    towers=True,
)
