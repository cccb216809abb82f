"""What a model is: the inputs that it wants and the loss that it makes of them.

A model knows nothing of placeholders, optimizers or files. `inputs` says what a batch consists of, `loss` builds the
graph from tensors of that form, wherever these come from, so that a pipeline may take the place of the placeholders,
or several towers share the variables.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

FREE = "free"  # a batch or a size that stays unknown in the graph


@dataclass(frozen=True)
class Input:
    """One tensor of a batch.

    `shape` has `None` where it is free, `feed_shape` numbers everywhere. `feed` says which values to feed for a test
    run; see `exporting.feeds`. `make`, where given, makes the tensor in place of a plain placeholder.
    """

    name: str
    dtype: tf.DType
    shape: list
    feed_shape: list
    feed: dict
    make: Callable | None = None

    def placeholder(self):
        """The tensor to feed."""
        return self.make() if self.make else tf.compat.v1.placeholder(self.dtype, self.shape, self.name)

    def times(self, towers):
        """The same input for several towers: their batches in one."""

        def enlarged(shape):
            return [shape[0] and shape[0] * towers, *shape[1:]]

        return replace(self, shape=enlarged(self.shape), feed_shape=enlarged(self.feed_shape))


@dataclass(frozen=True)
class Turn:
    """One of several steps that are run in turn: its name, its loss, the variables it trains, and what else it updates."""

    name: str
    loss: tf.Tensor
    variables: list
    updates: list


@dataclass(frozen=True)
class Model:
    """One model of the table in `models/__init__.py`.

    A model that trains in several steps has `turns` in place of `loss`; they are run one after the other.
    `batch` to `classes` are defaults of the command line; without `classes` the model has none. `flags` are the flags that only some models have, with this
    model's default for each. `smallest` is the least size that survives the model's pooling; `check` returns an error
    message for options that do not go together. `schedule` makes the learning rate from the given one and the global
    step. `tf2_training_step` builds the same model anew as a `tf.Module`, with another optimizer and in other steps than `loss`;
    without it `loss` is wrapped, and `wraps_too` says that it can be all the same. `records` is the layout of the records that
    the model can read (see `records`), `towers` says that it can be built several times with the same variables.
    """

    name: str
    summary: str
    inputs: Callable[[Any], list[Input]]
    batch: int
    size: int
    optimizer: str
    learning_rate: float
    loss: Callable[[Any, dict, Any], tf.Tensor] | None = None
    turns: Callable[[Any, dict, Any], list[Turn]] | None = None
    classes: int | None = None
    flags: dict = field(default_factory=dict)
    free_size: bool = True
    channels_first: bool = True
    resource_variables_only: bool = False
    smallest: int = 1
    check: Callable | None = None
    schedule: Callable | None = None
    tf2_training_step: Callable | None = None
    wraps_too: bool = False
    records: str | None = None
    towers: bool = False


def images(options, channels, name="images", dimensions=2):
    """The usual first input: a batch of images, or volumes."""

    def shape(batch, size):
        space = [size] * dimensions
        if options.data_format == "channels_first":
            return [batch, channels, *space]
        return [batch, *space, channels]

    return Input(
        name,
        tf.float32,
        shape(options.static_batch, options.static_size),
        shape(options.feed_batch, options.feed_size),
        {"kind": "normal"},
    )


def class_labels(options):
    """The usual second input: one class for each image."""
    return Input(
        "labels",
        tf.int32,
        [options.static_batch],
        [options.feed_batch],
        {"kind": "int", "lo": 0, "hi": options.classes},
    )


def condition(name, cycle, make=None):
    """A boolean that the graph branches on; step `s` of a test run feeds `cycle[s % len(cycle)]`."""
    return Input(name, tf.bool, [], [], {"kind": "bool", "cycle": cycle}, make)
