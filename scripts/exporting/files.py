"""Writes a training graph as MetaGraphDef, GraphDef or SavedModel, so that the same graph gives the same bytes."""

import os
import pathlib

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import control_flow_pb2, meta_graph_pb2, saved_model_pb2

from .training import SIGNATURE

tf1 = tf.compat.v1

SAVED_MODEL_TAG = "train"


def meta_graph(training, shapes=True):
    """The MetaGraphDef: graph, collections, saver, signature."""
    meta_info = meta_graph_pb2.MetaGraphDef.MetaInfoDef()
    meta_info.tags.append(SAVED_MODEL_TAG)
    meta = tf1.train.export_meta_graph(
        graph=training.graph,
        graph_def=training.graph.as_graph_def(add_shapes=shapes),
        meta_info_def=meta_info,
        saver_def=training.saver.as_saver_def(),
    )
    meta.signature_def[SIGNATURE].CopyFrom(training.signature())
    canonicalize(meta)
    return meta


def canonicalize(meta):
    """Orders what TensorFlow writes in the order of a hash table."""
    contexts = [
        (tf1.GraphKeys.COND_CONTEXT, control_flow_pb2.CondContextDef),
        (tf1.GraphKeys.WHILE_CONTEXT, control_flow_pb2.WhileContextDef),
    ]
    for key, kind in contexts:
        if key in meta.collection_def:
            packed = meta.collection_def[key].bytes_list.value
            for i, data in enumerate(packed):
                context = kind.FromString(data)
                sort_values(context)
                packed[i] = context.SerializeToString(deterministic=True)


def sort_values(context):
    """Sorts the set of values that a control-flow context (and each inside it) lists."""
    context.values_def.values.sort()
    for nested in context.nested_contexts:
        sort_values(getattr(nested, nested.WhichOneof("ctxt")))


def write_message(message, path, text=False):
    """Writes a protobuf message; the file appears complete or not at all."""
    data = text_format.MessageToString(message).encode() if text else message.SerializeToString(deterministic=True)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".tmp")
    draft.write_bytes(data)
    os.replace(draft, path)


def write_saved_model(training, directory):
    """Writes a SavedModel with freshly initialized variables, tagged `train`.

    `saved_model.pb` depends on the graph only. `fingerprint.pb` holds a random number, and differs in each run.
    """
    builder = tf1.saved_model.Builder(directory)
    with tf1.Session(graph=training.graph) as session:
        session.run(training.init_op)
        builder.add_meta_graph_and_variables(
            session,
            [SAVED_MODEL_TAG],
            signature_def_map={SIGNATURE: training.signature()},
            saver=training.saver,
        )
    builder.save()
    settle_saved_model(directory)


def settle_saved_model(directory):
    """Rewrites `saved_model.pb` in a fixed order, and its fingerprint to match."""
    path = pathlib.Path(directory, "saved_model.pb")
    saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for meta in saved_model.meta_graphs:
        canonicalize(meta)
    write_message(saved_model, path)
    from tensorflow.python.saved_model import fingerprinting_utils  # not public, and there is no other way

    fingerprinting_utils.write_fingerprint(str(directory))
