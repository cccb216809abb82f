"""Training steps that are functions of TensorFlow 2, with what is hard to train on several workers: zoo_tf2.py FOLDER

Each is a SavedModel FOLDER/NAME with a signature `train`, of an open batch dimension.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import tensorflow as tf


class Step(tf.Module):
    """A Keras model and its optimizer, trained by a function."""

    def __init__(self, model, optimizer):
        super().__init__()
        self.model, self.optimizer = model, optimizer
        optimizer.build(model.trainable_variables)
        numbers = tf.TensorSpec([None, 12], tf.float32, "numbers")
        labels = tf.TensorSpec([None], tf.int32, "labels")
        self.train = tf.function(self.step, input_signature=[numbers, labels])

    def step(self, numbers, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(self.model(numbers, training=True), tf.float32)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(each)
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return {"loss": loss}


def dense(dtype):
    """Two layers; in 16 bits where that is asked for."""
    first = keras.layers.Dense(16, activation="relu", kernel_initializer=keras.initializers.RandomNormal(0, 0.3, seed=5), dtype=dtype)
    second = keras.layers.Dense(10, kernel_initializer=keras.initializers.RandomNormal(0, 0.3, seed=6), dtype=dtype)
    model = keras.Sequential([keras.Input([12]), first, second])
    return model


def skipping(inner):
    """Steps whose gradients overflow in 16 bits train nothing, and make the scale smaller: one of the first does."""
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**17, dynamic_growth_steps=2)


MODELS = {
    "adam": lambda: Step(dense("float32"), keras.optimizers.Adam(0.01)),
    "momentum": lambda: Step(dense("float32"), keras.optimizers.SGD(0.1, momentum=0.9)),
    "clip_global": lambda: Step(dense("float32"), keras.optimizers.Adam(0.01, global_clipnorm=0.1)),
    "half": lambda: Step(dense("mixed_float16"), skipping(keras.optimizers.Adam(0.01))),
    "half_sgd": lambda: Step(dense("mixed_float16"), skipping(keras.optimizers.SGD(0.1, momentum=0.9))),
}


def main(folder):
    for name, make in MODELS.items():
        keras.utils.set_random_seed(7)
        step = make()
        tf.saved_model.save(step, str(pathlib.Path(folder) / name), signatures={"train": step.train})


if __name__ == "__main__":
    main(sys.argv[1])
