"""The ImageNet layout, as TensorFlow's benchmarks read it: a JPEG and its class.

As these do, the ordinary way takes the middle of an image and scales it to the size, and the augmented way takes a
random part (5% to all of the area, sides in a ratio of 3:4 to 4:3) and mirrors every other image.
"""

import tensorflow as tf

from .layout import Layout, WrongRecord, decode, decoded, require, scaled, value

IMAGE = "image/encoded"
LABEL = "image/class/label"


def examine(example, form):
    label = value(example, LABEL)
    if not 0 <= label < form.classes:
        raise WrongRecord(f"class {label}, but the graph has {form.classes} classes, from 0: see --classes")
    decoded(value(example, IMAGE), IMAGE, form.channels)


def prepare(features, number, form):
    image = decode(features[IMAGE], form.channels)
    image = random_part(image, number, form) if form.augment else middle(image)
    image = tf.image.resize(tf.cast(image, tf.float32), [form.size, form.size])
    label = tf.cast(features[LABEL], tf.int32)
    with require((label >= 0) & (label < form.classes), f"class outside of 0…{form.classes - 1}:", label):
        return {"images": scaled(image), "labels": tf.identity(label)}


def middle(image):
    """The largest square in the middle."""
    height, width = tf.unstack(tf.shape(image)[:2])
    side = tf.minimum(height, width)
    return tf.image.crop_to_bounding_box(image, (height - side) // 2, (width - side) // 2, side, side)


def random_part(image, number, form):
    everything = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image), everything, seed=[form.seed, number], area_range=[0.05, 1.0], aspect_ratio_range=[0.75, 1.33]
    )
    image = tf.slice(image, begin, size)
    image.set_shape([None, None, form.channels])
    return tf.image.stateless_random_flip_left_right(image, seed=[form.seed + 1, number])


LAYOUT = Layout(
    name="imagenet",
    features={IMAGE: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)},
    prepare=prepare,
    examine=examine,
)
