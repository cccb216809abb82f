"""3D U-Net for the segmentation of medical volumes: 4 modalities in, 3 overlapping classes out, dice loss.

After Çiçek et al., "3D U-Net: Learning Dense Volumetric Segmentation from Sparse Annotation" (2016), in the form
common for brain tumours: a level has two convolutions, the second twice as wide; each level down halves the volume;
the way up either repeats voxels or learns a transposed convolution, and joins what the same level had on the way
down.
"""

import tensorflow as tf

from .model import Input, Model, images

tf1 = tf.compat.v1

MODALITIES = 4
SMOOTHING = 1.0


def inputs(options):
    truth = images(options, options.classes, name="truth", dimensions=3)
    binary = {"kind": "int", "lo": 0, "hi": 2}
    return [
        images(options, MODALITIES, name="volumes", dimensions=3),
        Input(truth.name, truth.dtype, truth.shape, truth.feed_shape, binary),
    ]


def conv_relu(net, x, filters, name):
    return tf.nn.relu(net.conv(x, filters, 3, name, initializer=tf1.glorot_uniform_initializer()))


def loss(net, batch, options):
    x, skips = batch["volumes"], []
    for level in range(options.depth):
        with tf1.variable_scope(f"down{level + 1}"):
            filters = options.base_filters * 2**level
            x = conv_relu(net, x, filters, "conv1")
            x = conv_relu(net, x, 2 * filters, "conv2")
            if level < options.depth - 1:
                skips.append(x)
                x = net.pool(x, "max", 2)
    for level in reversed(range(options.depth - 1)):
        with tf1.variable_scope(f"up{level + 1}"):
            skip = skips.pop()
            filters = net.channels(skip)
            x = net.conv_transpose(x, net.channels(x), 2, "grow") if options.deconvolution else net.repeat(x)
            x = net.concat([x, skip])
            x = conv_relu(net, x, filters, "conv1")
            x = conv_relu(net, x, filters, "conv2")
    logits = net.conv(x, options.classes, 1, "logits", initializer=tf1.glorot_uniform_initializer())
    return dice_loss(tf.sigmoid(logits), batch["truth"])


def dice_loss(predicted, truth):
    """Minus the overlap of two sets of voxels, over the whole batch: -1 where they agree."""
    predicted, truth = tf.reshape(predicted, [-1]), tf.reshape(truth, [-1])
    both = tf.reduce_sum(predicted * truth)
    return -(2.0 * both + SMOOTHING) / (tf.reduce_sum(predicted) + tf.reduce_sum(truth) + SMOOTHING)


def check(options):
    """A level down halves the volume, and the way up must meet the same sizes again."""
    multiple = 2 ** (options.depth - 1)
    if isinstance(options.size, int) and options.size % multiple:
        return f"--size {options.size}: {options.model} with --depth {options.depth} needs a multiple of {multiple}"
    return None


MODEL = Model(
    name="unet3d",
    summary="3D U-Net with dice loss, for segmentation of volumes",
    inputs=inputs,
    loss=loss,
    batch=1,
    size=128,
    classes=3,
    optimizer="adam",
    learning_rate=1e-4,
    flags={"depth": 4, "base_filters": 32, "deconvolution": False},
    check=check,
    records="volumes",
    towers=True,
)
