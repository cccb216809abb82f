"""Trains a SavedModel of zoo_tf2.py in Python, and prints its losses: in_python.py FOLDER WORKERS RANK ADDRESS…

It is there until its input ends, since the other worker may still read what this one gave. With one worker the batch is that of all workers of two.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

STEPS = 4


def set_workers(step, number_of_workers):
    """As docs/data-parallel.md has it."""
    graph = step.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    with tf.device("/device:CPU:0"):
        for count in (node for node in nodes if node.name == "lms/parallel/count"):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[], shared_name=count.attr["shared_name"].s.decode())
            tf.raw_ops.AssignVariableOp(resource=handle, value=number_of_workers)


def data(rank):
    made = np.random.default_rng(rank)
    return made.normal(size=(8, 12)).astype(np.float32), made.integers(0, 10, 8).astype(np.int32)


def main(folder, workers, rank, *addresses):
    workers, rank = int(workers), int(rank)
    parts = [data(rank)]
    if workers > 1:
        task = {"type": "worker", "index": rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        tf.distribute.MultiWorkerMirroredStrategy()
    else:
        parts = [data(0), data(1)]
    loaded = tf.saved_model.load(folder)  # what nobody holds is gone, and its variables with it
    step = loaded.signatures["train"]
    if workers > 1:
        set_workers(step, workers)
    numbers, labels = (tf.constant(np.concatenate(each)) for each in zip(*parts))
    print(json.dumps([float(step(numbers=numbers, labels=labels)["loss"]) for _ in range(STEPS)]), flush=True)
    sys.stdin.read()
    os._exit(0)  # its server waits for the other's


if __name__ == "__main__":
    main(*sys.argv[1:])
