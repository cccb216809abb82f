"""ResNet50 as keras_applications has it, built by tf_keras in graph mode.

The top is a dense layer on the global average, which is what `include_top=True` makes too; made here so that the
image size can stay free.
"""

from functools import partial

import tensorflow as tf
import tf_keras as keras

from . import keras3
from .layers import cross_entropy
from .model import Model, class_labels, condition, images


def inputs(options):
    tensors = [images(options, channels=3), class_labels(options)]
    if options.dynamic_learning_phase:
        # Keras makes this placeholder itself, and builds a tf.cond on it into each batch normalization.
        tensors.append(condition("keras_learning_phase", [True], make=keras.backend.learning_phase))
    return tensors


def loss(net, batch, options):
    keras.utils.set_random_seed(options.seed)  # the seeds that Keras' initializers put into the graph come from here
    tf.compat.v1.set_random_seed(options.seed)
    keras.backend.set_image_data_format(options.data_format)
    if not options.dynamic_learning_phase:
        keras.backend.set_learning_phase(1)
    backbone = keras.applications.ResNet50(include_top=False, weights=None, input_tensor=batch["images"], pooling="avg")
    for update in backbone.updates:
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)
    logits = keras.layers.Dense(options.classes, name="predictions")(backbone.output)
    return cross_entropy(logits, batch["labels"])


MODEL = Model(
    name="resnet50",
    summary="ResNet50 of keras_applications",
    inputs=inputs,
    loss=loss,
    batch=32,
    size=224,
    classes=1000,
    optimizer="rmsprop",
    learning_rate=1e-3,
    flags={"dynamic_learning_phase": False},
    smallest=32,
    resource_variables_only=True,
    tf2_training_step=partial(keras3.TrainingStep, keras3.resnet50),
    records="imagenet",
)
