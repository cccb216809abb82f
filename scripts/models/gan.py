"""A generator of images and a discriminator that tells them from others, trained in turn.

After Goodfellow et al., "Generative Adversarial Networks" (2014), with the layers of Radford et al., "Unsupervised
Representation Learning with Deep Convolutional Generative Adversarial Networks" (2015). Each has a loss and an optimizer of its own, which
updates its variables alone; both steps compute much of the same graph.
"""

import tensorflow as tf

from .layers import flatten, size_of
from .model import Input, Model, Turn, images

tf1 = tf.compat.v1

LEVELS = 2  # each of twice the size of the one before
SLOPE = 0.2


def inputs(options):
    noise = Input(
        "noise",
        tf.float32,
        [options.static_batch, options.latent],
        [options.feed_batch, options.latent],
        {"kind": "normal"},
    )
    return [images(options, channels=3), noise]


def generator(net, noise, options):
    """Images of noise."""
    side, filters = options.size >> LEVELS, options.base_filters << LEVELS
    x = tf.reshape(net.dense(noise, side * side * filters, "seed"), [-1, side, side, filters])
    x = tf.nn.relu(net.batch_norm(x, "norm0"))
    for level in range(1, LEVELS):
        x = net.conv_transpose(x, filters >> level, 2, f"up{level}")
        x = tf.nn.relu(net.batch_norm(x, f"norm{level}"))
    return tf.tanh(net.conv_transpose(x, 3, 2, "image"))


def discriminator(net, x, options):
    """A number for each image, above zero for those that it takes for real."""
    for level in range(LEVELS):
        x = net.conv(x, options.base_filters << level, 3, f"down{level + 1}", stride=2)
        x = tf.nn.leaky_relu(x, SLOPE)
    return net.dense(flatten(x), 1, "verdict")


def verdict_loss(logits, is_real):
    """How far the verdicts are from the truth."""
    truth = tf.ones_like(logits) if is_real else tf.zeros_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=logits))


def turns(net, batch, options):
    """The discriminator's step, then the generator's."""
    with tf1.variable_scope("generator"):
        fake = generator(net, batch["noise"], options)
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    with tf1.variable_scope("discriminator"):
        of_real = discriminator(net, batch["images"], options)
    with tf1.variable_scope("discriminator", reuse=True):
        of_fake = discriminator(net, fake, options)
    told = verdict_loss(of_real, True) + verdict_loss(of_fake, False)
    return [
        Turn("d", told, tf1.trainable_variables("discriminator/"), []),
        Turn("g", verdict_loss(of_fake, True), tf1.trainable_variables("generator/"), updates),
    ]


def check(options):
    if options.size % (1 << LEVELS):
        return f"--size {options.size}: expected a multiple of {1 << LEVELS}"
    return None


MODEL = Model(
    name="gan",
    summary="a generative adversarial network: two steps, each with variables of its own, run in turn",
    inputs=inputs,
    turns=turns,
    batch=64,
    size=64,
    optimizer="adam",
    learning_rate=2e-4,
    flags={"base_filters": 32, "latent": 100},
    free_size=False,
    channels_first=False,
    check=check,
)
