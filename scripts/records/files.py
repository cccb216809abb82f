"""Which files a data set consists of, and whether they hold what a graph wants."""

import glob
import os

import tensorflow as tf
from google.protobuf.message import DecodeError

from .layout import WrongRecord, check_features

SPLIT = "train"  # of a folder's files, where they are named after their splits


def find(place):
    """The files of a folder or of a pattern, in order. Ends the program where there are none."""
    if os.path.isdir(place):
        # A part of the path that looks like a pattern is none.
        folder = glob.escape(place)
        for pattern in [f"{SPLIT}-*", "*.tfrecord*"]:
            found = files_of(os.path.join(folder, pattern))
            if found:
                return found
        raise SystemExit(f"--data {place}: no {SPLIT}-* and no *.tfrecord* in this folder; or give a pattern")
    found = files_of(place)
    if not found:
        raise SystemExit(f"--data {place}: no such file or folder, and no file that matches it as a pattern")
    return found


def files_of(pattern):
    return sorted(path for path in glob.glob(pattern) if os.path.isfile(path) and not path.endswith(".tmp"))


def check(files, layout, form):
    """Ends the program unless the first record fits the layout and the graph."""
    for path in files:
        data = first_record(path)
        if data is None:
            continue
        try:
            example = tf.train.Example.FromString(data)
        except DecodeError:
            raise SystemExit(f"{path}: record 1 is no tf.train.Example") from None
        try:
            check_features(example, layout)
            layout.examine(example, form)
        except WrongRecord as error:
            raise SystemExit(f"{path}: record 1: {error}") from None
        return
    raise SystemExit(f"{files[0]}: no record in {'it' if len(files) == 1 else f'any of the {len(files)} files'}")


def first_record(path):
    """The first record of a file; none if the file is empty."""
    if not os.path.getsize(path):
        return None
    try:
        return next(tf.compat.v1.io.tf_record_iterator(path))
    except (tf.errors.DataLossError, StopIteration):  # TensorFlow takes less than the head of a record for an end
        raise SystemExit(f"{path}: no TFRecord file, or its first record is broken") from None
    except tf.errors.OpError as error:
        raise SystemExit(f"{path}: {error.message}") from None
