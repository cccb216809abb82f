"""Trains an exported graph for some steps, from the file alone: proof that it works, and losses to compare with.

One thread and a fixed environment, so that a run repeats on one machine. On another the last digits may differ.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from . import RUN_ENVIRONMENT, feeds, files

tf1 = tf.compat.v1

FEED_SEED = 1
SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def one_thread():
    return tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True)


def feed_dict(manifest, step, seed=FEED_SEED):
    """What to feed at `step`, made from the manifest."""
    return {
        each["name"]: feeds.values(each, each["dtype"], each["feed_shape"], seed, k, step)
        for k, each in enumerate(manifest["inputs"])
    }


def read(path, manifest):
    """The protobuf message in a file, or the first graph of a SavedModel."""
    path = pathlib.Path(path)
    if manifest["format"] == "SavedModel":
        return files.read_saved_model(path).meta_graphs[0]
    message = graph_pb2.GraphDef() if manifest["format"] == "GraphDef" else meta_graph_pb2.MetaGraphDef()
    if manifest["encoding"] == "text":
        return text_format.Parse(path.read_text(), message)
    message.ParseFromString(path.read_bytes())
    return message


def load(path, manifest):
    """A session that holds the graph of a file (or directory) and is initialized as the manifest says."""
    session = tf1.Session(graph=tf.Graph(), config=one_thread())
    with session.graph.as_default():
        if manifest["format"] == "SavedModel":
            tf1.saved_model.load(session, manifest["tags"], str(path))
            return session
        if manifest["format"] == "GraphDef":
            tf.import_graph_def(read(path, manifest), name="")
        else:
            tf1.train.import_meta_graph(read(path, manifest))
    if manifest["init_op"]:
        session.run(manifest["init_op"])
    return session


def turns(manifest):
    """The steps that are run in turn, as dictionaries with the names of loss and train op: usually one."""
    return manifest.get("turns") or [{"loss": manifest["loss"], "train_op": manifest["train_op"]}]


def train(path, manifest, steps, seed=FEED_SEED):
    """The loss of each of `steps` steps; where several are run in turn, each step is the next one's turn."""
    # There is no train op where fetching the loss trains.
    fetches = [[turn["loss"], *([turn["train_op"]] if turn["train_op"] else [])] for turn in turns(manifest)]
    with load(path, manifest) as session:
        losses = [
            session.run(fetches[step % len(fetches)], feed_dict(manifest, step, seed))[0] for step in range(steps)
        ]
    if not np.isfinite(losses).all():
        raise SystemExit(f"{path}: the losses are not finite: {losses}")
    return losses


def record(path, manifest, steps):
    """The manifest's entry `reference`, from a process of its own: nothing but file and manifest goes into it."""
    run = subprocess.run(
        [sys.executable, "-m", "exporting.reference", pathlib.Path(path).resolve(), str(steps)],
        input=json.dumps(manifest),
        # In the current directory, for the graph may read files from there; modules come from the scripts alone.
        env={**os.environ, **RUN_ENVIRONMENT, "PYTHONPATH": str(SCRIPTS), "PYTHONSAFEPATH": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"{path}: does not train; see above")
    losses = [np.float32(loss) for loss in json.loads(run.stdout)]
    return {
        "feed_seed": FEED_SEED,
        "environment": RUN_ENVIRONMENT,
        "losses": [float(str(loss)) for loss in losses],
        "loss_bits": [f"{loss.view(np.uint32):08x}" for loss in losses],
    }


if __name__ == "__main__":  # FILE STEPS, the manifest on standard input, the losses on standard output
    tf.get_logger().setLevel("ERROR")
    tf1.disable_eager_execution()
    found = train(sys.argv[1], json.load(sys.stdin), int(sys.argv[2]))
    json.dump([float(loss) for loss in found], sys.stdout)
