"""Trains an exported graph for some steps, from the file alone: proof that it works, and losses to compare with.

One thread and a fixed environment, so that a run repeats on one machine. On another processor the last digits may differ.
"""

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from . import RUN_ENVIRONMENT, feeds

tf1 = tf.compat.v1

FEED_SEED = 1


def one_thread():
    return tf1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True
    )


def feed_dict(manifest, step, seed=FEED_SEED):
    """What to feed at `step`, made from the manifest."""
    return {
        each["name"]: feeds.values(each, each["dtype"], each["feed_shape"], seed, k, step)
        for k, each in enumerate(manifest["inputs"])
    }


def load(path, manifest):
    """A session that holds the graph of a file (or directory) and is initialized as the manifest says."""
    path = pathlib.Path(path)
    session = tf1.Session(graph=tf.Graph(), config=one_thread())
    with session.graph.as_default():
        if manifest["format"] == "SavedModel":
            tf1.saved_model.load(session, manifest["tags"], str(path))
            return session
        kind = graph_pb2.GraphDef if manifest["format"] == "GraphDef" else meta_graph_pb2.MetaGraphDef
        message = kind()
        if manifest["encoding"] == "text":
            text_format.Parse(path.read_text(), message)
        else:
            message.ParseFromString(path.read_bytes())
        if manifest["format"] == "GraphDef":
            tf.import_graph_def(message, name="")
        else:
            tf1.train.import_meta_graph(message)
    session.run(manifest["init_op"])
    return session


def train(path, manifest, steps, seed=FEED_SEED):
    """The loss of each of `steps` steps."""
    fetches = [manifest["loss"]]
    if manifest["train_op"]:  # None where fetching the loss trains
        fetches.append(manifest["train_op"])
    with load(path, manifest) as session:
        losses = [session.run(fetches, feed_dict(manifest, step, seed))[0] for step in range(steps)]
    if not np.isfinite(losses).all():
        raise SystemExit(f"{path}: the losses are not finite: {losses}")
    return [np.float32(loss) for loss in losses]


def record(path, manifest, steps):
    """The manifest's entry `reference`."""
    losses = train(path, manifest, steps)
    return {
        "feed_seed": FEED_SEED,
        "environment": RUN_ENVIRONMENT,
        "losses": [float(str(loss)) for loss in losses],
        "loss_bits": [f"{loss.view(np.uint32):08x}" for loss in losses],
    }


if __name__ == "__main__":  # FILE STEPS, the manifest on standard input
    tf.get_logger().setLevel("ERROR")
    tf1.disable_eager_execution()
    json.dump(record(sys.argv[1], json.load(sys.stdin), int(sys.argv[2])), sys.stdout)
