"""DeepLabv3+ for semantic segmentation: Xception-65, atrous spatial pyramid pooling, decoder.

After Chen et al., "Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation" (2018): the
backbone's last strides are replaced by atrous convolutions so that its features are 16 or 8 times smaller than the
image; all batch normalizations train ("fine-tuned batch norm"); PASCAL VOC's 21 classes, where label 255 marks pixels
that do not count.
"""

from dataclasses import dataclass

import tensorflow as tf

from .layers import size_of
from .model import Input, Model, images

tf1 = tf.compat.v1

IGNORED = 255
WEIGHT_DECAY = 4e-5
NORM_MOMENTUM = 0.9997
PYRAMID_RATES = {16: (6, 12, 18), 8: (12, 24, 36)}
LOW_LEVEL = "entry2"  # its second convolution has a quarter of the image's size


@dataclass(frozen=True)
class Block:
    """Three separable convolutions; `skip` is what is added to them: a 1x1 convolution, the input itself, nothing."""

    name: str
    filters: tuple
    skip: str | None
    stride: int = 1
    relu_inside: bool = False  # after each convolution, not before each separable one


def xception_blocks(middle):
    """The blocks of Xception; 16 in the middle make it Xception-65."""
    return [
        Block("entry1", (128, 128, 128), "conv", stride=2),
        Block("entry2", (256, 256, 256), "conv", stride=2),
        Block("entry3", (728, 728, 728), "conv", stride=2),
        *[Block(f"middle{i + 1}", (728, 728, 728), "sum") for i in range(middle)],
        Block("exit1", (728, 1024, 1024), "conv", stride=2),
        Block("exit2", (1536, 1536, 2048), None, relu_inside=True),
    ]


def inputs(options):
    image = images(options, channels=3)
    labels = Input(
        "labels",
        tf.int32,
        [*image.shape[:3], 1],
        [*image.feed_shape[:3], 1],
        {"kind": "int", "lo": 0, "hi": options.classes},
    )
    return [image, labels]


# --- convolutions ---------------------------------------------------------------------------------------------------


def norm(net, x, epsilon=1e-3):
    return net.batch_norm(x, momentum=NORM_MOMENTUM, epsilon=epsilon)


def pad(net, x, stride, rate=1):
    """Padding of a 3x3 convolution: one with stride pads alike on both sides, whatever the image's size."""
    if stride == 1:
        return x, "SAME"
    spatial = net.spatial_axes(x)
    return tf.pad(x, [[rate, rate] if axis in spatial else [0, 0] for axis in range(4)]), "VALID"


def conv(net, x, filters, kernel, name, stride=1, relu=True, epsilon=1e-3, stddev=0.09):
    """A convolution with batch normalization."""
    with tf1.variable_scope(name):
        x, padding = pad(net, x, stride if kernel > 1 else 1)
        initializer = tf1.truncated_normal_initializer(stddev=stddev)
        x = net.conv(x, filters, kernel, stride=stride, padding=padding, bias=False, initializer=initializer)
        x = norm(net, x, epsilon)
        return tf.nn.relu(x) if relu else x


def separable(net, x, filters, name, stride=1, rate=1, relu=False, epsilon=1e-3):
    """A 3x3 convolution in each channel, then a 1x1 over all, each with batch normalization."""
    with tf1.variable_scope(name):
        with tf1.variable_scope("depthwise"):
            x, padding = pad(net, x, stride, rate)
            initializer = tf1.truncated_normal_initializer(stddev=0.33)
            x = net.depthwise(x, 3, stride=stride, rate=rate, padding=padding, initializer=initializer)
            x = norm(net, x, epsilon)
            x = tf.nn.relu(x) if relu else x
        return conv(net, x, filters, 1, "pointwise", relu=relu, epsilon=epsilon, stddev=0.06)


# --- the three parts ------------------------------------------------------------------------------------------------


def xception_block(net, x, block, stride, rate):
    """The block's output, and what its second convolution made."""
    with tf1.variable_scope(block.name):
        y, between = x, None
        for i, filters in enumerate(block.filters):
            last = i == len(block.filters) - 1
            y = y if block.relu_inside else tf.nn.relu(y)
            name, step = f"sep{i + 1}", stride if last else 1
            y = separable(net, y, filters, name, step, rate, relu=block.relu_inside)
            between = between if last else y
        if block.skip == "conv":
            y += conv(net, x, block.filters[-1], 1, "shortcut", stride, relu=False)
        elif block.skip == "sum":
            y += x
        return y, between


def xception(net, x, blocks, output_stride):
    """Features `output_stride` times smaller than the image, and low-level ones of a quarter of its size."""
    x = conv(net, x, 32, 3, "conv1", stride=2)
    x = conv(net, x, 64, 3, "conv2")
    reached, rate, low_level = 2, 1, None
    for block in blocks:
        stride = block.stride if reached < output_stride else 1
        x, between = xception_block(net, x, block, stride, rate)
        reached *= stride
        rate *= block.stride // stride  # a stride left out spreads the convolutions that follow
        low_level = between if block.name == LOW_LEVEL else low_level
    return x, low_level


def pyramid(net, x, rates):
    """Atrous spatial pyramid pooling: the surroundings of each position at several distances, and the whole image."""
    with tf1.variable_scope("aspp"):
        pooled = conv(net, net.global_mean(x, keepdims=True), 256, 1, "image", epsilon=1e-5)
        branches = [resize_like(pooled, x), conv(net, x, 256, 1, "near", epsilon=1e-5)]
        for rate in rates:
            branches.append(separable(net, x, 256, f"rate{rate}", rate=rate, relu=True, epsilon=1e-5))
        x = conv(net, net.concat(branches), 256, 1, "projection", epsilon=1e-5)
        return tf.nn.dropout(x, rate=0.1, name="dropout")


def decoder(net, x, low_level):
    """Joins the features with the low-level ones, at a quarter of the image's size."""
    with tf1.variable_scope("decoder"):
        low_level = conv(net, low_level, 48, 1, "low_level", epsilon=1e-5)
        x = net.concat([resize_like(x, low_level), low_level])
        for i in range(2):
            x = separable(net, x, 256, f"sep{i + 1}", relu=True, epsilon=1e-5)
        return x


def resize_like(x, other):
    return tf1.image.resize_bilinear(x, [size_of(other, 1), size_of(other, 2)], align_corners=True)


def loss(net, batch, options):
    blocks = xception_blocks(options.middle_blocks)
    features, low_level = xception(net, batch["images"], blocks, options.output_stride)
    x = decoder(net, pyramid(net, features, PYRAMID_RATES[options.output_stride]), low_level)
    logits = net.conv(x, options.classes, 1, "logits", initializer=tf1.truncated_normal_initializer(stddev=0.01))
    logits = resize_like(logits, batch["images"])
    return pixel_loss(logits, batch["labels"], options.classes) + net.weight_decay(WEIGHT_DECAY)


def pixel_loss(logits, labels, classes):
    """Mean cross entropy over the pixels that count."""
    labels = tf.reshape(labels, [-1])
    counts = tf.cast(tf.not_equal(labels, IGNORED), tf.float32)
    losses = tf1.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.stop_gradient(tf.one_hot(labels, classes)), logits=tf.reshape(logits, [-1, classes])
    )
    return tf.reduce_sum(losses * counts) / tf.maximum(tf.reduce_sum(counts), 1.0)


MODEL = Model(
    name="deeplabv3plus",
    summary="DeepLabv3+ with Xception-65, for segmentation",
    inputs=inputs,
    loss=loss,
    batch=16,
    size=513,
    classes=21,
    optimizer="momentum",
    learning_rate=7e-3,
    flags={"output_stride": 16, "middle_blocks": 16},
    channels_first=False,
    schedule=lambda rate, step: tf1.train.polynomial_decay(rate, step, 30000, 0.0, power=0.9),
    records="voc",
    towers=True,
)
