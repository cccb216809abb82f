"""GoogLeNet (Inception v1) without its two auxiliary heads, as TensorFlow's CNN benchmarks train it.

After Szegedy et al., "Going Deeper with Convolutions" (2015). The last average covers the whole map, so that any crop
size works: the "enlarged" GoogLeNet of the articles is this one with `--size 2240`.
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Model, class_labels, images

tf1 = tf.compat.v1

WEIGHT_DECAY = 4e-5

# Filters: 1x1; 3x3 and the 1x1 before it; 5x5 and the 1x1 before it; the 1x1 after pooling. None: halve the map.
INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "pool3": None,
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "pool4": None,
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def inputs(options):
    return [images(options, channels=3), class_labels(options)]


def conv(net, x, filters, kernel, name, stride=1):
    return tf.nn.relu(net.conv(x, filters, kernel, name, stride))


def inception(net, x, filters, name):
    """Four ways through, joined."""
    one, before_three, three, before_five, five, pooled = filters
    with tf1.variable_scope(name):
        return net.concat(
            [
                conv(net, x, one, 1, "one"),
                conv(net, conv(net, x, before_three, 1, "before_three"), three, 3, "three"),
                conv(net, conv(net, x, before_five, 1, "before_five"), five, 5, "five"),
                conv(net, net.pool(x, "max", 3, stride=1), pooled, 1, "pooled"),
            ]
        )


def loss(net, batch, options):
    x = tf.cast(batch["images"], net.dtype)
    x = conv(net, x, 64, 7, "conv1", stride=2)
    x = net.pool(x, "max", 3, stride=2)
    x = conv(net, x, 64, 1, "conv2_reduce")
    x = conv(net, x, 192, 3, "conv2")
    x = net.pool(x, "max", 3, stride=2)
    for name, filters in INCEPTION.items():
        x = inception(net, x, filters, name) if filters else net.pool(x, "max", 3, stride=2)
    logits = net.dense(net.global_mean(x), options.classes, "logits")
    return cross_entropy(logits, batch["labels"]) + net.weight_decay(WEIGHT_DECAY)


MODEL = Model(
    name="googlenet",
    summary="GoogLeNet (Inception v1) of TensorFlow's CNN benchmarks",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1001,
    optimizer="momentum",
    learning_rate=5e-3,
    flags={"fp16": False, "loss_scale": 128.0},
    records="imagenet",
    towers=True,
)
