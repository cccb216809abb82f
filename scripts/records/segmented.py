"""Images with masks, made into examples of the PASCAL VOC layout."""

import functools
import pathlib

import numpy as np
import tensorflow as tf

from . import indexed_png
from .shards import bytes_feature, int64_feature
from .sources import IMAGES, BadSource, is_jpeg, is_png, pairs, pixels
from .voc import IGNORED


def examples(options):
    """A function for each example; no text files go with them."""
    if options.classes > IGNORED:
        raise BadSource(f"--classes {options.classes}: a mask can tell at most {IGNORED} apart, and {IGNORED} itself")
    wanted = listed(options.only) if options.only else None
    found = pairs(options.images, IMAGES, options.masks, [".png"], "mask", wanted)
    return [functools.partial(example, image, mask, options.classes) for image, mask in found], {}


def listed(name):
    """The names in a list, one in a line."""
    path = pathlib.Path(name)
    if not path.is_file():
        raise BadSource(f"--only {name}: no such file")
    return list(dict.fromkeys(path.read_text().split()))


def classes_of(path, classes):
    """The class of each pixel of a mask."""
    data = path.read_bytes()
    if not is_png(data):
        raise BadSource(f"{path}: no PNG")
    try:
        data, step = indexed_png.as_gray(data)
    except ValueError as error:
        raise BadSource(f"{path}: {error}") from None
    values = pixels(path, data, channels=1) // step
    wrong = np.setdiff1d(values, [*range(classes), IGNORED])
    if wrong.size:
        raise BadSource(f"{path}: class {wrong[0]}, expected 0 to {classes - 1}, or {IGNORED} for what does not count")
    return values


def example(image_path, mask_path, classes):
    """The features of an image and its mask, under the names that DeepLab's records have."""
    data = image_path.read_bytes()
    height, width, channels = pixels(image_path, data).shape
    mask = classes_of(mask_path, classes)
    if tuple(mask.shape[:2]) != (height, width):
        raise BadSource(f"{mask_path}: {mask.shape[1]}x{mask.shape[0]} pixels, but {image_path} has {width}x{height}")
    return {
        "image/encoded": bytes_feature(data),
        "image/filename": bytes_feature(image_path.stem.encode()),
        "image/format": bytes_feature(b"jpeg" if is_jpeg(data) else b"png"),
        "image/height": int64_feature(height),
        "image/width": int64_feature(width),
        "image/channels": int64_feature(channels),
        "image/segmentation/class/encoded": bytes_feature(tf.io.encode_png(mask).numpy()),
        "image/segmentation/class/format": bytes_feature(b"png"),
    }
