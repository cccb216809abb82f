"""LSTMs of Keras 3, in loops of TensorFlow 2: `While`, and lists of tensors for what the gradient needs. There is no graph of version 1."""

from functools import partial

import tensorflow as tf

from . import keras3
from .model import Input, Model, class_labels


def inputs(options):
    shape = [options.static_batch, options.static_size, options.features]
    feed_shape = [options.feed_batch, options.feed_size, options.features]
    return [Input("frames", tf.float32, shape, feed_shape, {"kind": "normal"}), class_labels(options)]


def check(options):
    return None if options.tf2_saved_model else "keras_lstm is a function: give --tf2-saved-model DIR"


MODEL = Model(
    name="keras_lstm",
    summary="LSTMs of Keras 3 in while loops; as a function alone",
    inputs=inputs,
    tf2_training_step=partial(keras3.TrainingStep, keras3.lstm),
    batch=32,
    size=24,
    classes=10,
    optimizer="momentum",
    learning_rate=1e-2,
    flags={"layers": 2, "units": 64, "features": 16},
    free_size=False,
    smallest=2,
    channels_first=False,
    resource_variables_only=True,
    check=check,
)
