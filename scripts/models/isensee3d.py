"""The 3D network of Isensee et al. for brain tumours: the "3D U-Net" of the articles.

After Isensee et al., "Brain Tumor Segmentation and Radiomics Survival Prediction: Contribution to the BRATS 2017
Challenge" (2017): on the way down a level has a residual block with spatial dropout in it; on the way up voxels are
repeated and joined with what the same level had on the way down; the three finest levels each say what they see, and
the sum counts. Instance normalization and leaky rectifiers, as its Keras implementation makes them.
"""

import tensorflow as tf

from . import unet3d
from .layers import size_of
from .model import Model, condition

tf1 = tf.compat.v1

DROPOUT = 0.3
SLOPE = 0.3
SMOOTHING = 1e-5
SEGMENTED_LEVELS = 3


def inputs(options):
    tensors = unet3d.inputs(options)
    if options.dynamic_learning_phase:
        tensors.append(condition("keras_learning_phase", [True], make=learning_phase))
    return tensors


def learning_phase():
    return tf1.placeholder_with_default(False, [], name="keras_learning_phase")


def block(net, x, filters, name, kernel=3, stride=1):
    """A convolution, normalized and rectified."""
    with tf1.variable_scope(name):
        x = net.conv(x, filters, kernel, stride=stride, initializer=tf1.glorot_uniform_initializer())
        return tf.nn.leaky_relu(net.instance_norm(x), SLOPE)


def spatial_dropout(net, x, training):
    """Drops whole channels. With a tensor for `training`, a v1 condition chooses."""

    def drop():
        spatial = net.spatial_axes(x)
        shape = [1 if axis in spatial else size_of(x, axis) for axis in range(x.shape.rank)]
        kept = tf.floor(tf.random.uniform(shape) + (1 - DROPOUT))
        return x / (1 - DROPOUT) * kept

    return drop() if training is True else tf1.cond(training, drop, lambda: tf.identity(x))


def context(net, x, filters, training):
    """The residual block of a level."""
    y = spatial_dropout(net, block(net, x, filters, "context1"), training)
    return x + block(net, y, filters, "context2")


def loss(net, batch, options):
    training = batch.get("keras_learning_phase", True)
    filters = [options.base_filters * 2**level for level in range(options.depth)]
    x, levels = batch["volumes"], []
    for level in range(options.depth):
        with tf1.variable_scope(f"down{level + 1}"):
            x = block(net, x, filters[level], "shrink", stride=2 if level else 1)
            x = context(net, x, filters[level], training)
            levels.append(x)
    seen = None
    for level in reversed(range(options.depth - 1)):
        with tf1.variable_scope(f"up{level + 1}"):
            x = block(net, net.repeat(x), filters[level], "grow")
            x = net.concat([levels[level], x])
            x = block(net, x, filters[level], "join")
            x = block(net, x, filters[level], "mix", kernel=1)
            if level < SEGMENTED_LEVELS:
                segmented = block(net, x, options.classes, "segment", kernel=1)
                seen = segmented if seen is None else net.repeat(seen) + segmented
    return dice_loss(net, tf.sigmoid(seen), batch["truth"])


def dice_loss(net, predicted, truth):
    """Minus the mean overlap of the classes."""
    spatial = net.spatial_axes(predicted)
    both = tf.reduce_sum(truth * predicted, spatial)
    total = tf.reduce_sum(truth, spatial) + tf.reduce_sum(predicted, spatial)
    return -tf.reduce_mean(2.0 * (both + SMOOTHING / 2) / (total + SMOOTHING))


MODEL = Model(
    name="isensee3d",
    summary="3D U-Net of Isensee et al. (BraTS 2017), for segmentation of volumes",
    inputs=inputs,
    loss=loss,
    batch=1,
    size=128,
    classes=3,
    optimizer="adam",
    learning_rate=5e-4,
    flags={"depth": 5, "base_filters": 16, "dynamic_learning_phase": False},
    check=unet3d.check,
)
