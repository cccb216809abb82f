"""A residual network that decides at run time: v1 `tf.cond`, so `Switch` and `Merge`, forward and backward.

Two boolean placeholders, and conditions nested in each other: `deep` chooses between a residual block and a plain 1x1
convolution, `training` chooses in each batch normalization and each dropout, also inside the branches of `deep`. A
branch not taken is dead, and so is its gradient: the hard case for whoever adds control edges to a graph.
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Model, class_labels, condition, images

tf1 = tf.compat.v1


def inputs(options):
    return [
        images(options, channels=3),
        class_labels(options),
        condition("training", [True]),
        condition("deep", [True, False]),
    ]


def norm_relu(net, x, training, name):
    return tf.nn.relu(net.batch_norm(x, name, training=training, momentum=0.9))


def residual(net, x, filters, training):
    y = norm_relu(net, net.conv(x, filters, 3, "conv1", bias=False), training, "norm1")
    y = norm_relu(net, net.conv(y, filters, 3, "conv2", bias=False), training, "norm2")
    y = tf1.cond(training, lambda: tf.nn.dropout(y, rate=0.25), lambda: tf.identity(y))
    return x + y


def block(net, x, filters, training, deep, name):
    """Halves the image, then either a residual block or a 1x1 convolution."""
    with tf1.variable_scope(name):
        x = norm_relu(net, net.conv(x, filters, 3, "shrink", stride=2, bias=False), training, "norm")
        return tf1.cond(
            deep,
            lambda: residual(net, x, filters, training),
            lambda: tf.nn.relu(net.conv(x, filters, 1, "shallow")),
        )


def loss(net, batch, options):
    training, deep = batch["training"], batch["deep"]
    filters = options.base_filters
    x = norm_relu(net, net.conv(batch["images"], filters, 3, "stem", bias=False), training, "stem_norm")
    for i in range(options.depth):
        x = block(net, x, filters * 2**i, training, deep, f"block{i + 1}")
    return cross_entropy(net.dense(net.global_mean(x), options.classes, "logits"), batch["labels"])


MODEL = Model(
    name="cond_cnn",
    summary="residual blocks inside v1 tf.cond (Switch, Merge)",
    inputs=inputs,
    loss=loss,
    batch=4,
    size=32,
    classes=10,
    optimizer="momentum",
    learning_rate=0.01,
    flags={"depth": 3, "base_filters": 16},
    records="imagenet",
)
