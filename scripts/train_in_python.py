#!/usr/bin/env python3
"""Trains a graph in a TensorFlow session of Python, as a program of your own would; `train_in_python.py --help` says how.

The graph, rewritten or not, is one of `export_models.py`, whose manifest says what to feed and to run.
"""

import argparse
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

GRAPPLER = {
    "off": "place only what a step runs, which has TensorFlow leave Grappler out: what lms-train does",
    "no-folding": "all of Grappler but constant folding",
    "on": "TensorFlow's default",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path, help="a MetaGraphDef")
    parser.add_argument("--manifest", type=pathlib.Path, help="what the model's export wrote beside it; by default MODEL with .json")
    parser.add_argument("--softgpu", help="libsoftgpu.so, to train on the software GPU; else on the GPUs that TensorFlow finds")
    parser.add_argument("--memory", help="the software GPU's memory, as 200MiB")
    parser.add_argument(
        "--grappler", choices=GRAPPLER, default="off", help="; ".join(f"{name}: {what}" for name, what in GRAPPLER.items())
    )
    parser.add_argument("--steps", type=int, default=3)
    return parser.parse_args()


def session_config(tf, grappler):
    """How the session is set up: the part to copy."""
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    if grappler == "off":
        config.graph_options.place_pruned_graph = True
    elif grappler == "no-folding":
        config.graph_options.rewrite_options.constant_folding = 2  # RewriterConfig.OFF
    return config


def without_saver(meta_graph):
    """Without the saver's ops: these name the CPU, and where all of a graph is placed they drag its variables there."""
    graph = meta_graph.graph_def
    kept = [node for node in graph.node if not node.name.startswith("save/")]
    del graph.node[:]
    graph.node.extend(kept)
    meta_graph.ClearField("saver_def")


def main():
    args = arguments()
    if args.memory:
        os.environ["SOFTGPU_MEMORY"] = args.memory

    import tensorflow as tf  # reads the environment
    from tensorflow.python.framework import load_library

    from exporting import reference

    manifest = json.loads((args.manifest or args.model.with_suffix(".json")).read_text())
    meta_graph = reference.read(args.model, manifest)
    config = session_config(tf, args.grappler)
    config.inter_op_parallelism_threads = config.intra_op_parallelism_threads = 1
    if args.softgpu:
        load_library.load_pluggable_device_library(args.softgpu)
        config.pluggable_device_options.per_process_gpu_memory_fraction = 1.0
    if args.grappler != "off":
        without_saver(meta_graph)
    tf.compat.v1.disable_eager_execution()
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        with session.graph.as_default():
            tf.compat.v1.train.import_meta_graph(meta_graph)
        try:
            session.run(manifest["init_op"])
            for step in range(args.steps):
                loss, _ = session.run([manifest["loss"], manifest["train_op"]], reference.feed_dict(manifest, step))
                print(f"step {step + 1}: loss {loss:.6f}", flush=True)
        except tf.errors.ResourceExhaustedError as error:
            raise SystemExit(f"out of memory: {error.message.splitlines()[0]}") from error


if __name__ == "__main__":
    main()
