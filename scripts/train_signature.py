#!/usr/bin/env python3
"""Trains a SavedModel of TensorFlow 2 by its signature in Python; `train_signature.py --help` says how.

The SavedModel, rewritten or not, is loaded by `tf.saved_model.load`, and its signature is called step by step with the same made-up batch.
Prints one line of JSON: the losses, what the variables hold at the end, and what the software GPU counted in the last step.
"""

import argparse
import hashlib
import json
import os
import pathlib

from softgpu import SoftGpu

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

# What changes the last bits where copies stand between the ops that it would join, and what keeps constants on the GPU.
EXACT = {"arithmetic_optimization": False, "constant_folding": False, "layout_optimizer": False}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path, help="a SavedModel's folder")
    parser.add_argument("--signature", help="the signature; by default the only one that takes arguments")
    parser.add_argument("--softgpu", help="libsoftgpu.so, to train on the software GPU; else on the GPUs that TensorFlow finds")
    parser.add_argument("--memory", default="16GiB", help="the software GPU's memory, as 200MiB")
    parser.add_argument("--allocator", choices=["bfc", "exact"], default="bfc", help="the software GPU's allocator")
    parser.add_argument("--grappler", choices=["exact", "default"], default="exact", help="exact: without what changes the last bits")
    parser.add_argument("--batch", type=int, default=8, help="size of the dimensions that the signature leaves free")
    parser.add_argument("--largest-integer", type=int, default=9, help="integers are made up between 0 and this")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def made_up(spec, args, random):
    """A value for an argument of a signature."""
    shape = [args.batch if size is None else size for size in spec.shape.as_list()]
    if spec.dtype.is_integer:
        return random.integers(0, args.largest_integer, shape, endpoint=True).astype(spec.dtype.as_numpy_dtype)
    return random.random(shape).astype(spec.dtype.as_numpy_dtype)


def training_signature(loaded):
    """The only signature that takes arguments."""
    fed = [name for name, step in loaded.signatures.items() if step.structured_input_signature[1]]
    if len(fed) != 1:
        raise SystemExit(f"choose one with --signature: {', '.join(fed)}")
    return fed[0]


def main():
    args = arguments()
    os.environ["SOFTGPU_MEMORY"] = args.memory  # before TensorFlow is there

    import numpy
    import tensorflow as tf

    gpu = SoftGpu(args.softgpu, args.memory, args.allocator) if args.softgpu else None
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    if args.grappler == "exact":
        tf.config.optimizer.set_experimental_options(EXACT)
    report = {"losses": []}
    try:
        loaded = tf.saved_model.load(str(args.model))
        step = loaded.signatures[args.signature or training_signature(loaded)]
        random = numpy.random.default_rng(args.seed)
        specs = sorted(step.structured_input_signature[1].items())
        feeds = {name: tf.constant(made_up(spec, args, random)) for name, spec in specs}
        before = {"in_bytes": 0, "out_bytes": 0}
        for _ in range(args.steps):
            if gpu:
                gpu.reset()
                before = gpu.counters()
            result = step(**feeds)
            after = gpu.counters() if gpu else None
            report["losses"].append(float(next(iter(result.values())).numpy()))
        if gpu:
            copied = {name: after[name] - before[name] for name in ["in_bytes", "out_bytes"]}
            report |= {"live_bytes": before["live_bytes"], "peak_bytes": after["peak_bytes"], **copied}
        values = hashlib.sha256()
        for variable in step.variables:
            values.update(variable.numpy().tobytes())
        report |= {"variables": len(step.variables), "sha256": values.hexdigest()}
    except tf.errors.ResourceExhaustedError as error:
        report["out_of_memory"] = error.message.splitlines()[0]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
