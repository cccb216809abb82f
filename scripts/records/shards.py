"""Writes examples into a number of files that appear complete or not at all."""

import contextlib
import os
import random

import tensorflow as tf

from .sources import BadSource


def bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def int64_feature(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write(makers, output, split, count, seed):
    """Writes what each of the functions `makers` returns, a dictionary of features; returns how many there are."""
    makers = list(makers)
    if not makers:
        raise BadSource("nothing to make records of")
    if count > len(makers):
        raise BadSource(f"--shards {count}: there are only {len(makers)} examples")
    random.Random(seed).shuffle(makers)
    names = [f"{split}-{shard:05d}-of-{count:05d}" for shard in range(count)]
    output.mkdir(parents=True, exist_ok=True)
    others = sorted(path.name for path in output.glob(f"{split}-*") if path.name not in names)
    if others:
        raise BadSource(f"{output}: {others[0]} is from another run; remove it, or name a new folder")
    drafts = [output / f"{name}.tmp" for name in names]
    try:
        for shard, draft in enumerate(drafts):
            with tf.io.TFRecordWriter(str(draft)) as writer:
                for make in makers[shard::count]:
                    example = tf.train.Example(features=tf.train.Features(feature=make()))
                    writer.write(example.SerializeToString(deterministic=True))
        for draft, name in zip(drafts, names):
            os.replace(draft, output / name)
    finally:
        for draft in drafts:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
    return len(makers)
