"""EfficientNet-B0: inverted residuals that also weigh their channels, and the swish activation.

After Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019).
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Model, class_labels, images

tf1 = tf.compat.v1

# Expansion, channels, how often, stride of the first, kernel.
STAGES = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
]
BLOCKS = [
    (expansion, channels, stride if i == 0 else 1, kernel)
    for expansion, channels, count, stride, kernel in STAGES
    for i in range(count)
]
NARROWER = 4  # how many times the weights of the channels come through fewer channels than a block gets
SMOOTH = tf1.variance_scaling_initializer(scale=1.0, mode="fan_avg")


def inputs(options):
    return [images(options, channels=3), class_labels(options)]


def norm(net, x, name):
    return net.batch_norm(x, name, momentum=0.9)


def weighed(net, x, channels):
    """Each channel times a weight that all positions have decided."""
    y = net.global_mean(x, keepdims=True)
    y = tf.nn.silu(net.conv(y, channels, 1, "squeeze"))
    return x * tf.sigmoid(net.conv(y, net.channels(x), 1, "excite"))


def block(net, x, expansion, channels, stride, kernel, name):
    with tf1.variable_scope(name):
        y = x
        if expansion > 1:
            y = net.conv(y, expansion * net.channels(x), 1, "expand", bias=False)
            y = tf.nn.silu(norm(net, y, "expand_norm"))
        y = net.depthwise(y, kernel, "depthwise", stride=stride, initializer=SMOOTH)
        y = tf.nn.silu(norm(net, y, "depthwise_norm"))
        y = weighed(net, y, max(1, net.channels(x) // NARROWER))
        y = norm(net, net.conv(y, channels, 1, "project", bias=False), "project_norm")
        return x + y if stride == 1 and net.channels(x) == channels else y


def loss(net, batch, options):
    x = net.conv(batch["images"], options.base_filters, 3, "stem", stride=2, bias=False)
    x = tf.nn.silu(norm(net, x, "stem_norm"))
    for i, (expansion, channels, stride, kernel) in enumerate(BLOCKS[: options.blocks]):
        x = block(net, x, expansion, channels, stride, kernel, f"block{i + 1}")
    x = tf.nn.silu(norm(net, net.conv(x, 4 * net.channels(x), 1, "head", bias=False), "head_norm"))
    x = tf.nn.dropout(net.global_mean(x), rate=options.dropout)
    return cross_entropy(net.dense(x, options.classes, "logits"), batch["labels"])


def check(options):
    if options.blocks > len(BLOCKS):
        return f"--blocks {options.blocks}: the network has {len(BLOCKS)}"
    if not 0 <= options.dropout < 1:
        return f"--dropout {options.dropout}: expected 0 or more, and less than 1"
    return None


MODEL = Model(
    name="efficientnet",
    summary="EfficientNet-B0: depthwise convolutions, weighed channels, swish",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1000,
    optimizer="rmsprop",
    learning_rate=1e-3,
    flags={"blocks": len(BLOCKS), "base_filters": 32, "dropout": 0.2},
    records="imagenet",
    check=check,
    towers=True,
)
