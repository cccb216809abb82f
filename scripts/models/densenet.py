"""DenseNet: each layer reads what all layers of its block before it made.

After Huang et al., "Densely Connected Convolutional Networks" (2017).
"""

import tensorflow as tf

from .layers import cross_entropy
from .model import Model, class_labels, images

# How many layers each block has, by the layers of the whole network.
BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


def inputs(options):
    return [images(options, channels=3), class_labels(options)]


def normalized(net, x, name):
    return tf.nn.relu(net.batch_norm(x, name, momentum=0.9))


def layer(net, x, growth, name):
    """A few channels more, of all that there are."""
    with tf.compat.v1.variable_scope(name):
        y = net.conv(normalized(net, x, "norm1"), 4 * growth, 1, "conv1", bias=False)
        y = net.conv(normalized(net, y, "norm2"), growth, 3, "conv2", bias=False)
        return net.concat([x, y])


def transition(net, x, name):
    """Half the channels, of half the height and width."""
    with tf.compat.v1.variable_scope(name):
        y = net.conv(normalized(net, x, "norm"), net.channels(x) // 2, 1, "conv", bias=False)
        return net.pool(y, "avg", 2)


def loss(net, batch, options):
    x = net.conv(batch["images"], options.base_filters, 7, "stem", stride=2, bias=False)
    x = net.pool(normalized(net, x, "stem_norm"), "max", 3, stride=2)
    blocks = BLOCKS[options.layers]
    for i, count in enumerate(blocks):
        for j in range(count):
            x = layer(net, x, options.base_filters // 2, f"block{i + 1}_layer{j + 1}")
        if i + 1 < len(blocks):
            x = transition(net, x, f"transition{i + 1}")
    x = net.global_mean(normalized(net, x, "head_norm"))
    return cross_entropy(net.dense(x, options.classes, "logits"), batch["labels"])


def check(options):
    if options.layers not in BLOCKS:
        return f"--layers {options.layers}: one of {', '.join(map(str, BLOCKS))}"
    return None


MODEL = Model(
    name="densenet",
    summary="DenseNet: each layer reads what all before it made",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1000,
    optimizer="momentum",
    learning_rate=0.01,
    flags={"layers": 121, "base_filters": 64},
    records="imagenet",
    check=check,
    towers=True,
)
