"""Volumes: arrays of 32-bit floats, little-endian, with their shapes; the truth has a channel of 0 or 1 for each class.

Of a larger volume the middle is taken, a smaller one is surrounded by zeros. Values are taken as they are.
"""

import math

import tensorflow as tf

from .layout import Layout, WrongRecord, value

VOLUME = "volume/raw"
TRUTH = "truth/raw"
SHAPES = {VOLUME: "volume/shape", TRUTH: "truth/shape"}  # depth, height, width, channels
RANK = 4
FLOAT_BYTES = 4


def examine(example, form):
    shapes = {}
    for name, shape_name in SHAPES.items():
        shape = list(example.features.feature[shape_name].int64_list.value)
        size = len(value(example, name))
        if min(shape) < 1 or size != FLOAT_BYTES * math.prod(shape):
            raise WrongRecord(f"{name} has {size} bytes, but {shape_name} says {shape} of 32-bit floats")
        shapes[name] = shape
    if shapes[VOLUME][:3] != shapes[TRUTH][:3]:
        raise WrongRecord(f"the volume has {shapes[VOLUME][:3]} voxels, its truth {shapes[TRUTH][:3]}")
    for name, wanted in [(VOLUME, form.channels), (TRUTH, form.classes)]:
        if shapes[name][3] != wanted:
            raise WrongRecord(f"{name} has {shapes[name][3]} channels, the graph wants {wanted}")


def prepare(features, number, form):
    del number
    return {
        "volumes": middle(features, VOLUME, form.size, form.channels),
        "truth": middle(features, TRUTH, form.size, form.classes),
    }


def middle(features, name, size, channels):
    """The cube in the middle of a volume, or around it."""
    volume = tf.reshape(tf.io.decode_raw(features[name], tf.float32), features[SHAPES[name]])
    sides = tf.shape(volume)[:3]
    missing = tf.maximum(size - sides, 0)
    before = missing // 2
    paddings = tf.concat([tf.stack([before, missing - before], 1), [[0, 0]]], 0)
    begin = tf.maximum(sides - size, 0) // 2
    return tf.ensure_shape(
        tf.slice(tf.pad(volume, paddings), tf.concat([begin, [0]], 0), [size, size, size, -1]),
        [size, size, size, channels],
    )


LAYOUT = Layout(
    name="volumes",
    features={
        **{name: tf.io.FixedLenFeature([], tf.string) for name in SHAPES},
        **{name: tf.io.FixedLenFeature([RANK], tf.int64) for name in SHAPES.values()},
    },
    prepare=prepare,
    examine=examine,
    augments=False,
)
