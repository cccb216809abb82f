"""The PASCAL VOC layout, as TensorFlow's DeepLab writes it: an image, and a PNG of its size with a class for each pixel.

As DeepLab does, an image smaller than the size is filled up with gray to the right and below, where pixels do not
count, and of a larger one a part is taken: the middle, or with augmentation any. Augmentation also scales by 0.5, 0.75,
… or 2 and mirrors every other image.
"""

import tensorflow as tf

from .layout import Layout, WrongRecord, decode, decoded, require, scaled, value

IMAGE = "image/encoded"
MASK = "image/segmentation/class/encoded"
SIDES = ["image/height", "image/width"]
IGNORED = 255  # the class of pixels that do not count
SCALES = [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]


def examine(example, form):
    image = decoded(value(example, IMAGE), IMAGE, form.channels)
    mask = decoded(value(example, MASK), MASK, 1)
    sides = tuple(value(example, name) for name in SIDES)
    if image.shape[:2] != mask.shape[:2]:
        raise WrongRecord(f"the image has {image.shape[:2]} pixels, its mask {mask.shape[:2]}")
    if image.shape[:2] != sides:
        raise WrongRecord(f"the image has {image.shape[:2]} pixels, but {' and '.join(SIDES)} say {sides}")
    classes = mask[mask != IGNORED]
    if classes.size and classes.max() >= form.classes:
        raise WrongRecord(f"class {classes.max()}, but the graph has {form.classes} classes, from 0: see --classes")


def prepare(features, number, form):
    image = scaled(decode(features[IMAGE], form.channels))
    mask = tf.io.decode_png(features[MASK], channels=1)
    highest = tf.reduce_max(tf.where(tf.equal(mask, IGNORED), tf.zeros_like(mask), mask))
    with require(highest < form.classes, f"class above {form.classes - 1} in a mask:", highest):
        mask = tf.cast(mask, tf.float32)
    if form.augment:
        image, mask = random_scale(image, mask, number, form)
    # One tensor is cut and mirrored. Where nothing is, it holds zeros: gray, and a mask that does not count.
    both = cut(tf.concat([image, mask - IGNORED], 2), number, form)
    if form.augment:
        both = tf.image.stateless_random_flip_left_right(both, seed=[form.seed + 1, number])
    both.set_shape([form.size, form.size, form.channels + 1])
    return {"images": both[..., :-1], "labels": tf.cast(both[..., -1:] + IGNORED, tf.int32)}


def random_scale(image, mask, number, form):
    chosen = tf.random.stateless_uniform([], [form.seed + 2, number], 0, len(SCALES), tf.int32)
    scale = tf.gather(tf.constant(SCALES), chosen)
    sides = tf.cast(tf.cast(tf.shape(image)[:2], tf.float32) * scale, tf.int32)
    sides = tf.maximum(sides, 1)
    return tf.image.resize(image, sides), tf.image.resize(mask, sides, "nearest")


def cut(both, number, form):
    """A square of the wanted size."""
    sides = tf.maximum(tf.shape(both)[:2], form.size)
    both = tf.image.pad_to_bounding_box(both, 0, 0, sides[0], sides[1])
    spare = sides - form.size
    begin = spare // 2
    if form.augment:
        anywhere = tf.random.stateless_uniform([2], [form.seed + 3, number])
        begin = tf.cast(tf.floor(anywhere * tf.cast(spare + 1, tf.float32)), tf.int32)
        begin = tf.minimum(begin, spare)  # rounding
    return tf.image.crop_to_bounding_box(both, begin[0], begin[1], form.size, form.size)


LAYOUT = Layout(
    name="voc",
    features={
        IMAGE: tf.io.FixedLenFeature([], tf.string),
        MASK: tf.io.FixedLenFeature([], tf.string),
        **{side: tf.io.FixedLenFeature([], tf.int64) for side in SIDES},
    },
    prepare=prepare,
    examine=examine,
)
