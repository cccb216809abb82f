"""What a layout of examples is, and what all layouts have in common."""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Form:
    """What a graph wants of each example."""

    size: int  # height and width, and depth of a volume
    channels: int
    classes: int
    augment: bool
    seed: int


@dataclass(frozen=True)
class Layout:
    """The examples of one kind of data set.

    `features` are those that each example must have. `prepare` makes the tensors of one example, by the names of the
    model's inputs and with the channels last, from its features, its number in the training run and the form.
    `examine` looks at the first example before there is a graph and raises a `WrongRecord` where it does not fit.
    """

    name: str
    features: dict
    prepare: Callable[[dict, tf.Tensor, Form], dict]
    examine: Callable[[tf.train.Example, Form], None]
    augments: bool = True


class WrongRecord(Exception):
    """An example that is not as its layout, or the graph, wants it."""


KINDS = {tf.string: "bytes_list", tf.int64: "int64_list", tf.float32: "float_list"}


def check_features(example, layout):
    """That an example has all features, each with as many values of the type as the layout says."""
    found = example.features.feature
    for name, wanted in layout.features.items():
        if name not in found:
            there = ", ".join(sorted(found)[:12]) or "none"
            raise WrongRecord(f"no feature {name}, which the {layout.name} layout has; its features are: {there}")
        kind = found[name].WhichOneof("kind")
        if kind != KINDS[wanted.dtype]:
            raise WrongRecord(f"{name} is a {kind or 'feature without a kind'}, expected {KINDS[wanted.dtype]}")
        count, expected = len(getattr(found[name], kind).value), tf.TensorShape(wanted.shape).num_elements()
        if count != expected:
            raise WrongRecord(f"{name} has {count} values, expected {expected}")


def value(example, name):
    """The value of a feature, or the first of several."""
    feature = example.features.feature[name]
    return getattr(feature, feature.WhichOneof("kind")).value[0]


def decoded(data, name, channels):
    """The pixels of an encoded image, outside of any graph that is being built."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        try:
            return session.run(tf.io.decode_image(data, channels, expand_animations=False))
        except tf.errors.InvalidArgumentError as error:
            raise WrongRecord(f"{name} is no image: {error.message.splitlines()[0]}") from None


def decode(data, channels):
    """The pixels of a JPEG or PNG as a tensor of a known number of channels."""
    image = tf.io.decode_image(data, channels, expand_animations=False)
    image.set_shape([None, None, channels])
    return image


def scaled(image):
    """From 0…255 to -1…1."""
    return tf.cast(image, tf.float32) / 127.5 - 1.0


def require(condition, message, *values):
    """Stops the pipeline with a message where a scalar is false."""
    return tf.control_dependencies([tf.debugging.Assert(condition, [message, *values])])
