"""Holds exported graphs against their manifests: names, collections, shapes, and the losses of a training run."""

import json
import pathlib

import tensorflow as tf

from . import reference
from .training import SIGNATURE

TOLERANCE = 1e-3  # relative; another processor rounds otherwise


def folder(directory):
    """Checks every graph of a folder, says what it found, and ends with status 1 if something is wrong."""
    manifests = sorted(pathlib.Path(directory).glob("*.json"))
    if not manifests:
        raise SystemExit(f"{directory}: no manifests (*.json) here")
    tf.compat.v1.disable_eager_execution()
    failed = 0
    for path in manifests:
        manifest = json.loads(path.read_text())
        file = path.with_name(manifest["file"])
        problems = [*structure(file, manifest), *losses(file, manifest)]
        print("\n".join([f"{file}: {problem}" for problem in problems] or [f"{file}: good"]), flush=True)
        failed += bool(problems)
    if failed:
        raise SystemExit(f"{failed} of {len(manifests)} graphs are not as their manifests say")


def structure(file, manifest):
    """What is wrong with the file itself."""
    message = reference.read(file, manifest)
    bare = manifest["format"] == "GraphDef"
    graph_def = message if bare else message.graph_def
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    names = [each["name"] for each in manifest["inputs"]] + [manifest["init_op"]]
    names += [name for turn in reference.turns(manifest) for name in turn.values()]
    for name in filter(None, names):
        try:
            graph.as_graph_element(name)
        except KeyError:
            yield f"has no {name}"
    if len(graph_def.node) != manifest["nodes"]:
        yield f"{len(graph_def.node)} nodes, expected {manifest['nodes']}"
    for node in graph_def.node:
        shapes = len(node.attr["_output_shapes"].list.shape) if "_output_shapes" in node.attr else 0
        expected = len(graph.get_operation_by_name(node.name).outputs) if manifest["output_shapes"] else 0
        if shapes != expected:
            yield f"{node.name} has {shapes} output shapes, expected {expected}"
    if not bare:
        yield from collections(message, manifest)


def collections(meta, manifest):
    """What is wrong with a MetaGraphDef around its graph."""
    if SIGNATURE not in meta.signature_def:
        yield f"has no signature {SIGNATURE}"
    else:
        tensors = [info.name for info in meta.signature_def[SIGNATURE].inputs.values()]
        if sorted(tensors) != sorted(each["name"] for each in manifest["inputs"]):
            yield f"the signature's inputs are {', '.join(tensors)}"
    if not meta.saver_def.restore_op_name:
        yield "has no saver"
    if not manifest["train_op"]:
        return  # a TensorFlow 2 function: no collections
    turns = reference.turns(manifest)
    wanted = {
        "train_op": [turn["train_op"] for turn in turns],
        "init_op": [manifest["init_op"]],
        "losses": [turn["loss"] for turn in turns],
    }
    for key, names in wanted.items():
        found = list(meta.collection_def[key].node_list.value)
        if found != names:
            yield f"collection {key} holds {found}, expected {names}"
    for key, count in [("variables", "global"), ("trainable_variables", "trainable")]:
        found = len(meta.collection_def[key].bytes_list.value)
        if found != manifest["variables"][count]:
            yield f"collection {key} holds {found}, expected {manifest['variables'][count]}"


def losses(file, manifest):
    """How a training run differs from the recorded one, if one was recorded."""
    if "reference" not in manifest:
        return
    expected = manifest["reference"]["losses"]
    found = reference.record(file, manifest, len(expected))["losses"]
    for step, (old, new) in enumerate(zip(expected, found)):
        if abs(new - old) > TOLERANCE * abs(old):
            yield f"loss {new} at step {step}, expected {old}"
