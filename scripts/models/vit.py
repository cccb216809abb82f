"""A vision transformer: an image in patches, each of them a token, and one more token that tells the class.

After Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020). With `--fp16` it computes in half precision, and with
`--dynamic-loss-scale` it trains as mixed precision usually does: see `exporting.step`.
"""

import tensorflow as tf

from . import transformer
from .layers import cross_entropy, size_of
from .model import Model, class_labels, images
from .transformer import INITIALIZER

tf1 = tf.compat.v1


def inputs(options):
    return [images(options, channels=3), class_labels(options)]


def embed(net, x, options):
    """A row for each patch of each image, after one for the class, with the place of each added; and how many rows an image has."""
    with tf1.variable_scope("embeddings"):
        x = net.conv(tf.cast(x, net.dtype), options.hidden, options.patch, "patches", stride=options.patch, padding="VALID")
        count = (options.size // options.patch) ** 2
        kind = net.weights("class", [1, 1, options.hidden], INITIALIZER)
        places = net.weights("positions", [count + 1, options.hidden], INITIALIZER)
        x = tf.reshape(x, [-1, count, options.hidden])
        x = tf.concat([tf.tile(kind, [size_of(x, 0), 1, 1]), x], 1) + places
        return tf.nn.dropout(tf.reshape(x, [-1, options.hidden]), rate=options.dropout), count + 1


def loss(net, batch, options):
    x, size = embed(net, batch["images"], options)
    for i in range(options.layers):
        x = transformer.layer(net, x, size, options, f"layer{i + 1}")
    kind = tf.reshape(net.layer_norm(x, "norm"), [-1, size, options.hidden])[:, 0]
    return cross_entropy(transformer.dense(net, kind, options.classes, "logits"), batch["labels"])


def check(options):
    """Patches that cover the image, and what holds for all transformers."""
    if options.size % options.patch:
        return f"--size {options.size}: expected a multiple of --patch {options.patch}"
    return transformer.check(options)


MODEL = Model(
    name="vit",
    summary="vision transformer; in half precision, with a loss scale and no update where it was too large",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1000,
    optimizer="adam",
    learning_rate=1e-4,
    flags={
        "patch": 16,
        "layers": 12,
        "hidden": 768,
        "heads": 12,
        "intermediate": 3072,
        "dropout": 0.1,
        "fp16": False,
        "loss_scale": 2.0**15,
        "dynamic_loss_scale": False,
    },
    free_size=False,
    channels_first=False,
    check=check,
    records="imagenet",
)
