"""Describes an exported file in a JSON file beside it: what a program must know to train the graph."""

import collections
import json

import tensorflow as tf

from . import files
from .training import SIGNATURE

tf1 = tf.compat.v1


def describe(training, model, options, path):
    """The manifest of a v1 training graph."""
    graph = training.graph
    operations = graph.get_operations()
    with graph.as_default():
        variables = tf1.global_variables()
        trainable = tf1.trainable_variables()
    return {
        **describe_file(options, path),
        **describe_model(model, options),
        **training.batch.about,
        "inputs": [
            describe_input(each, tensor.name, tensor.op.type)
            for each, tensor in zip(training.batch.inputs, training.batch.placeholders)
        ],
        "train_op": training.train_op.name,
        "init_op": None if options.frozen else training.init_op.name,
        "loss": training.loss.name,
        **describe_turns(training),
        "variables": {
            "kind": "reference" if options.ref_variables else "resource",
            "global": len(variables),
            "trainable": len(trainable),
            "parameters": sum(variable.shape.num_elements() for variable in trainable),
        },
        "nodes": len(operations),
        "functions": len(graph.as_graph_def().library.function),
        "op_types": count_ops(operation.type for operation in operations),
        "tensorflow": tf.__version__,
    }


def describe_turns(training):
    """The steps that are run in turn, if there are several."""
    if len(training.turns) == 1:
        return {}
    return {"turns": [{"train_op": train_op.name, "loss": loss.name} for loss, train_op in training.turns]}


def describe_tf2(step, inputs, model, options, path):
    """The manifest of a TensorFlow 2 training step. Fetching the loss runs the step; loading restores the variables."""
    saved_model = files.read_saved_model(path).meta_graphs[0]
    signature = saved_model.signature_def[SIGNATURE]
    graph = saved_model.graph_def
    functions = graph.library.function
    return {
        **describe_file(options, path),
        **describe_model(model, options),
        "inputs": [describe_input(each, signature.inputs[each.name].name, "Placeholder") for each in inputs],
        "train_op": None,
        "init_op": None,
        "loss": signature.outputs["loss"].name,
        "signature": SIGNATURE,
        "variables": {
            "kind": "resource",
            "global": sum(node.op == "VarHandleOp" for node in graph.node),
            "trainable": len(step.weights()),
            "parameters": sum(variable.shape.num_elements() for variable in step.weights()),
        },
        "nodes": len(graph.node),
        "functions": len(functions),
        "op_types": count_ops(node.op for node in graph.node),
        "function_nodes": sum(len(function.node_def) for function in functions),
        "function_op_types": count_ops(node.op for function in functions for node in function.node_def),
        "tensorflow": tf.__version__,
    }


def describe_file(options, path):
    """What the bytes are; those of a SavedModel are counted without its variables."""
    if path.is_dir():
        meta_graph = files.read_saved_model(path).meta_graphs[0]
        return {
            "format": "SavedModel",
            "tags": list(meta_graph.meta_info_def.tags),
            "encoding": "binary",
            "output_shapes": True,
            "bytes": (path / files.SAVED_MODEL).stat().st_size,
        }
    return {
        "format": "GraphDef" if options.graphdef or options.frozen else "MetaGraphDef",
        "encoding": "text" if options.text else "binary",
        "output_shapes": not options.no_shapes,
        "bytes": path.stat().st_size,
    }


def describe_model(model, options):
    """What was asked for."""
    return {
        "model": model.name,
        "summary": model.summary,
        "batch_size": options.feed_batch,
        "batch_fixed": options.static_batch is not None,
        "size": options.feed_size,
        "size_fixed": options.static_size is not None,
        **({} if options.classes is None else {"classes": options.classes}),
        "optimizer": options.optimizer,
        "learning_rate": options.learning_rate,
        "data_format": options.data_format,
        "device": options.device or "",
        "seed": options.seed,
        **({"forward": True} if options.forward else {}),
        "options": {name: getattr(options, name) for name in sorted(model.flags)},
    }


def describe_input(each, name, op_type):
    """What to feed, and where."""
    return {
        "name": name,
        **each.feed,
        "dtype": each.dtype.name,
        "shape": each.shape,
        "feed_shape": each.feed_shape,
        "op_type": op_type,
    }


def count_ops(types):
    """How many operations of each type, the most frequent first."""
    return dict(sorted(collections.Counter(types).items(), key=lambda item: (-item[1], item[0])))


def write(manifest, path):
    """Writes the manifest beside the file: that of `a/b.meta` is `a/b.json`."""
    path.with_suffix(".json").write_text(to_json(manifest) + "\n")


def to_json(value, indent=""):
    """JSON with short lists and objects on one line each, to be read by people too."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or len(indent) + len(flat) <= 160:
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        items = [to_json(item, inner) for item in value]
    else:
        items = [f"{json.dumps(key)}: {to_json(item, inner)}" for key, item in value.items()]
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n" + ",\n".join(inner + item for item in items) + f"\n{indent}{right}"
