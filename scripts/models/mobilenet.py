"""MobileNetV2: inverted residuals with depthwise convolutions.

After Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Model, class_labels, images

tf1 = tf.compat.v1

# Expansion, channels, how often, stride of the first.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
BLOCKS = [(expansion, channels, stride if i == 0 else 1) for expansion, channels, count, stride in STAGES for i in range(count)]
SMOOTH = tf1.variance_scaling_initializer(scale=1.0, mode="fan_avg")


def inputs(options):
    return [images(options, channels=3), class_labels(options)]


def norm(net, x, name):
    return net.batch_norm(x, name, momentum=0.9)


def block(net, x, expansion, channels, stride, name):
    """Widens the channels, looks around in each, and narrows them again; added to what it got where the shapes agree."""
    with tf1.variable_scope(name):
        y = x
        if expansion > 1:
            y = net.conv(y, expansion * net.channels(x), 1, "expand", bias=False)
            y = tf.nn.relu6(norm(net, y, "expand_norm"))
        y = net.depthwise(y, 3, "depthwise", stride=stride, initializer=SMOOTH)
        y = tf.nn.relu6(norm(net, y, "depthwise_norm"))
        y = norm(net, net.conv(y, channels, 1, "project", bias=False), "project_norm")
        return x + y if stride == 1 and net.channels(x) == channels else y


def loss(net, batch, options):
    x = net.conv(batch["images"], options.base_filters, 3, "stem", stride=2, bias=False)
    x = tf.nn.relu6(norm(net, x, "stem_norm"))
    for i, (expansion, channels, stride) in enumerate(BLOCKS[: options.blocks]):
        x = block(net, x, expansion, channels, stride, f"block{i + 1}")
    x = tf.nn.relu6(norm(net, net.conv(x, 4 * net.channels(x), 1, "head", bias=False), "head_norm"))
    return cross_entropy(net.dense(net.global_mean(x), options.classes, "logits"), batch["labels"])


def check(options):
    if options.blocks > len(BLOCKS):
        return f"--blocks {options.blocks}: the network has {len(BLOCKS)}"
    return None


MODEL = Model(
    name="mobilenet",
    summary="MobileNetV2: depthwise convolutions, much batch normalization",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1000,
    optimizer="momentum",
    learning_rate=0.01,
    flags={"blocks": len(BLOCKS), "base_filters": 32},
    records="imagenet",
    check=check,
    towers=True,
)
