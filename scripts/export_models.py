#!/usr/bin/env python3
"""Exports TensorFlow training graphs; `export_models.py --help` says how."""

import os
import pathlib
import shlex
import sys
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # graphs are made, and tried, on the CPU

import tensorflow as tf  # noqa: E402

from exporting import check, files, manifest, options, reference, testdata, training, wrapped  # noqa: E402
from models import MODELS  # noqa: E402

tf1 = tf.compat.v1


def main(arguments):
    chosen = options.parse(arguments)
    tf.get_logger().setLevel("ERROR")
    warnings.filterwarnings("ignore", module="tf_keras")  # its advice to leave graph mode
    if chosen.check:
        check.folder(chosen.check)
    elif chosen.testdata:
        testdata.make(chosen.testdata, chosen.only)
    else:
        export(MODELS[chosen.model], chosen, arguments)


def export(model, chosen, arguments):
    """Writes one graph and its manifest."""
    if getattr(chosen, "tf2_saved_model", None):
        path, about = export_tf2(model, chosen)
    else:
        path, about = export_v1(model, chosen)
    about = {"name": path.stem, "file": path.name, "command": command(arguments, path), **about}
    if chosen.reference_steps:
        about["reference"] = reference.record(path, about, chosen.reference_steps)
    manifest.write(about, path)
    print(f"{path}: {about['nodes']} nodes, {about['bytes']} bytes")


def export_v1(model, chosen):
    """A graph as TensorFlow 1 makes it, control flow with Switch and Merge included."""
    tf1.disable_eager_execution()
    tf1.disable_control_flow_v2()
    made = training.build(model, chosen)
    if chosen.frozen:
        made, path = training.frozen(made), pathlib.Path(chosen.output)
        files.write_message(made.graph.as_graph_def(add_shapes=not chosen.no_shapes), path, chosen.text)
    elif chosen.saved_model:
        path = pathlib.Path(chosen.saved_model)
        files.write_saved_model(made, path)
    else:
        path = pathlib.Path(chosen.output)
        meta = files.meta_graph(made, shapes=not chosen.no_shapes)
        files.write_message(meta.graph_def if chosen.graphdef else meta, path, chosen.text)
    return path, manifest.describe(made, model, chosen, path)


def export_tf2(model, chosen):
    """A training step as TensorFlow 2 makes it, a function in a SavedModel."""
    path = pathlib.Path(chosen.tf2_saved_model)
    inputs = model.inputs(chosen)
    has_own = model.tf2_training_step and not getattr(chosen, "wrapped", False)
    step = model.tf2_training_step(inputs, chosen) if has_own else wrapped.TrainingStep(model, chosen)
    files.write_tf2_saved_model(step, path)
    return path, manifest.describe_tf2(step, inputs, model, chosen, path)


def command(arguments, path):
    """The command line that makes the file again, in the folder of the file."""
    words = []
    for word in arguments:
        flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        words.append(flag + equals + (path.name if pathlib.Path(value) == path else value))
    return shlex.join(["scripts/export_models.py", *words])


if __name__ == "__main__":
    main(sys.argv[1:])
