#!/usr/bin/env python3
"""Odd training steps as functions: `make` writes each as a SavedModel, `measure` trains them.

`odd_steps.py` and `odd_networks.py` have them.

    odd_functions.py make FOLDER                             # FOLDER/dense, FOLDER/scan, …
    odd_functions.py make FOLDER --only scan,foldl
    odd_functions.py measure FOLDER --softgpu libsoftgpu.so  # prints a line of JSON; FOLDER/scan_lms is trained beside FOLDER/scan
"""

import argparse
import gc
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

import odd_networks  # noqa: E402, F401
import odd_steps  # noqa: E402
from odd_steps import BATCH, STEPS, WIDTH, Step  # noqa: E402
from softgpu import SoftGpu  # noqa: E402
from train_signature import EXACT  # noqa: E402

tf = None  # TensorFlow, once the software GPU is there


def make(args):
    for name, build in STEPS.items():
        if not args.only or name in args.only:
            step = Step(name)
            module = step.signature(build)
            # TensorFlow cannot save what some of them differentiate by.
            options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
            tf.saved_model.save(module, str(args.folder / name), signatures={"train": module.step}, options=options)


def trained(folder, steps, gpu):
    """What losses and variables are after some steps, and what these took, the first aside, and copied."""
    import numpy

    gc.collect()
    idle_bytes = gpu.counters()["live_bytes"]
    loaded = tf.saved_model.load(str(folder))
    step = loaded.signatures["train"]
    random = numpy.random.default_rng(5)
    losses, most = [], {}
    for number in range(steps):
        x = tf.constant(random.standard_normal([BATCH, WIDTH]).astype("float32"))
        words = tf.constant(random.integers(0, 10, [BATCH]).astype("int32"))
        gpu.reset()
        before = gpu.counters()
        result = step(x=x, words=words)
        after = gpu.counters()
        losses.append(float(result["loss"].numpy()))
        del result
        took = {name: after[name] - before[name] for name in ["in_bytes", "out_bytes"]}
        took |= {"peak_bytes": after["peak_bytes"] - idle_bytes, "live_bytes": before["live_bytes"] - idle_bytes}
        if number > 0:
            most = {name: max(bytes, most.get(name, 0)) for name, bytes in took.items()}
    return losses, [variable.numpy().tobytes() for variable in loaded.all], most


def measure(args, gpu):
    report = {}
    for folder in sorted(args.folder.iterdir()):
        name = folder.name
        if not folder.is_dir() or name.endswith("_lms") or args.only and name not in args.only:
            continue
        began = time.monotonic()
        try:
            losses, values, report[name] = trained(folder, args.steps, gpu)
            rewritten = folder.with_name(name + "_lms")
            if rewritten.exists():
                losses_after, values_after, after = trained(rewritten, args.steps, gpu)
                report[name] |= {
                    "losses_are_same": losses == losses_after,
                    "losses_differ_by_step": len(set(losses)) == len(losses),
                    "variables": len(values),
                    "different": [i for i, pair in enumerate(zip(values, values_after)) if pair[0] != pair[1]],
                    "rewritten_peak_bytes": after["peak_bytes"],
                    "more_out_bytes": after["out_bytes"] - report[name]["out_bytes"],
                    "more_in_bytes": after["in_bytes"] - report[name]["in_bytes"],
                }
        except (tf.errors.OpError, ValueError) as error:
            report[name] = {"error": str(error).splitlines()[0]}
        report[name]["seconds"] = time.monotonic() - began
    print(json.dumps(report))


def main():
    global tf
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["make", "measure"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=lambda names: names.split(","), help="these steps, by name, as scan,foldl")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--softgpu", help="libsoftgpu.so, for measure")
    args = parser.parse_args()
    gpu = SoftGpu(args.softgpu, "1GiB", "exact") if args.what == "measure" else None
    import tensorflow

    tf = odd_steps.tf = tensorflow
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options(EXACT)
    make(args) if args.what == "make" else measure(args, gpu)


if __name__ == "__main__":
    main()
