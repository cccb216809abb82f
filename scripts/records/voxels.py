"""Volumes with their truth, made into examples of the layout `volumes`."""

import functools

import numpy as np

from .shards import bytes_feature, int64_feature
from .sources import BadSource, pairs
from .volumes import RANK, SHAPES, TRUTH, VOLUME


def examples(options):
    """A function for each example; no text files go with them."""
    found = pairs(options.volumes, [".npy"], options.truths, [".npy"], "truth")
    return [functools.partial(example, volume, truth) for volume, truth in found], {}


def array(path):
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadSource(f"{path}: no array: {error}") from None
    if not isinstance(values, np.ndarray) or values.ndim != RANK or values.dtype.kind not in "fiub":
        raise BadSource(f"{path}: expected one array of numbers of shape [depth, height, width, channels]")
    if not np.isfinite(values).all():
        raise BadSource(f"{path}: holds values that are not finite")
    return np.ascontiguousarray(values, "<f4")


def example(volume_path, truth_path):
    volume, truth = array(volume_path), array(truth_path)
    if volume.shape[:3] != truth.shape[:3]:
        raise BadSource(f"{truth_path}: {list(truth.shape[:3])} voxels, but {volume_path} has {list(volume.shape[:3])}")
    if not np.isin(truth, [0, 1]).all():
        raise BadSource(f"{truth_path}: expected 0 or 1 in each channel, one channel for each class")
    return {
        VOLUME: bytes_feature(volume.tobytes()),
        TRUTH: bytes_feature(truth.tobytes()),
        SHAPES[VOLUME]: int64_feature(*volume.shape),
        SHAPES[TRUTH]: int64_feature(*truth.shape),
    }
