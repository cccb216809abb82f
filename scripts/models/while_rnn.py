"""A film classifier: convolutions over all frames at once, then an LSTM over the frames in a v1 `tf.while_loop`.

The convolutions' activations are large and live across the whole loop, so they are worth swapping; the loop's own are
on TensorFlow's stacks (`StackPushV2`, `StackPopV2`) and in frames of their own, where swapping needs care.
"""

import tensorflow as tf

from .layers import cross_entropy, flatten
from .model import Input, Model, class_labels, images
from .recurrent import lstm_step

tf1 = tf.compat.v1

UNITS = 32


def inputs(options):
    """Frames are images with the time in front: [batch, steps, height, width, 1]."""
    image = images(options, channels=1)
    frames = Input(
        "frames",
        image.dtype,
        [image.shape[0], options.steps, *image.shape[1:]],
        [image.feed_shape[0], options.steps, *image.feed_shape[1:]],
        image.feed,
    )
    return [frames, class_labels(options)]


def features(net, frames):
    """[batch, steps, …] to [steps, batch, features]; the convolutions see batch * steps images."""
    steps = frames.shape[1]
    x = tf.reshape(frames, [-1, *frames.shape[2:]])
    x = tf.nn.relu(net.conv(x, 16, 3, "conv1"))
    x = net.pool(x, "max", 2)
    x = tf.nn.relu(net.conv(x, 32, 3, "conv2"))
    x = net.pool(x, "max", 2)
    x = tf.nn.relu(net.dense(flatten(x), UNITS, "embed"))
    return tf.transpose(tf.reshape(x, [-1, steps, UNITS]), [1, 0, 2])


def loss(net, batch, options):
    sequence = features(net, batch["frames"])
    with tf1.variable_scope("lstm"):
        kernel = net.weights("kernel", [2 * UNITS, 4 * UNITS], tf1.glorot_uniform_initializer())
        bias = net.weights("bias", [4 * UNITS], tf1.zeros_initializer())

    def step(time, hidden, cell, total):
        hidden, cell = lstm_step(tf.gather(sequence, time), hidden, cell, kernel, bias)
        return time + 1, hidden, cell, total + hidden

    zeros = tf.zeros_like(sequence[0])
    _, _, _, total = tf1.while_loop(
        lambda time, *_: time < options.steps,
        step,
        [tf.constant(0), zeros, zeros, zeros],
        name="time_loop",
    )
    logits = net.dense(total / options.steps, options.classes, "logits")
    return cross_entropy(logits, batch["labels"])


MODEL = Model(
    name="while_rnn",
    summary="convolutions over frames, LSTM in a v1 while loop (Enter, Exit, NextIteration)",
    inputs=inputs,
    loss=loss,
    batch=4,
    size=16,
    classes=10,
    optimizer="adam",
    learning_rate=1e-3,
    flags={"steps": 6},
    free_size=False,
    smallest=4,
    channels_first=False,
)
