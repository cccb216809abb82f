"""Two convolutions and two dense layers for digits of 28x28 pixels: the smallest whole training graph."""

import tensorflow as tf

from . import mnist_cnn_tf2
from .layers import cross_entropy, flatten
from .model import Model, class_labels, images


def inputs(options):
    return [images(options, channels=1), class_labels(options)]


def loss(net, batch, options):
    filters = options.base_filters
    x = batch["images"]
    x = tf.nn.relu(net.conv(x, filters, 5, "conv1"))
    x = net.pool(x, "max", 2)
    x = tf.nn.relu(net.conv(x, 2 * filters, 5, "conv2"))
    x = net.pool(x, "max", 2)
    x = tf.nn.relu(net.dense(flatten(x), 32 * filters, "dense1"))
    x = tf.nn.dropout(x, rate=0.5, name="dropout")
    logits = net.dense(x, options.classes, "dense2")
    return cross_entropy(logits, batch["labels"])


MODEL = Model(
    name="mnist_cnn",
    summary="two convolutions, two dense layers, dropout",
    inputs=inputs,
    loss=loss,
    batch=8,
    size=28,
    classes=10,
    optimizer="adam",
    learning_rate=1e-4,
    flags={"base_filters": 32},
    free_size=False,
    smallest=4,
    tf2_training_step=mnist_cnn_tf2.training_step,
    wraps_too=True,
    records="imagenet",
    towers=True,
)
