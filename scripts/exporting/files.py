"""Writes a training graph as MetaGraphDef, GraphDef or SavedModel, so that the same graph gives the same bytes."""

import contextlib
import os
import pathlib
import shutil
import tempfile

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import control_flow_pb2, meta_graph_pb2, saved_model_pb2
from tensorflow.python.saved_model import fingerprinting_utils  # not public, but nothing else writes a fingerprint

from .training import SIGNATURE

tf1 = tf.compat.v1

TRAIN_TAG = "train"
SAVED_MODEL = "saved_model.pb"


def meta_graph(training, shapes=True):
    """The MetaGraphDef: graph, collections, saver, signature."""
    meta_info = meta_graph_pb2.MetaGraphDef.MetaInfoDef()
    meta_info.tags.append(TRAIN_TAG)
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
    """Writes a SavedModel with freshly initialized variables, tagged `train`."""
    with new_directory(directory) as draft, tf1.Session(graph=training.graph) as session:
        session.run(training.init_op)
        builder = tf1.saved_model.Builder(str(draft))
        builder.add_meta_graph_and_variables(
            session, [TRAIN_TAG], signature_def_map={SIGNATURE: training.signature()}, saver=training.saver
        )
        builder.save()
        settle_saved_model(draft)


def write_tf2_saved_model(step, directory):
    """Writes a SavedModel of a module that has a function `train`, tagged `serve` as TensorFlow 2 does."""
    with new_directory(directory) as draft:
        # Gradients that are registered by name cannot be traced anew.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=getattr(step, "saves_gradients", True))
        signatures = {SIGNATURE: step.train.get_concrete_function()}
        tf.saved_model.save(step, str(draft), signatures=signatures, options=options)
        settle_saved_model(draft)


@contextlib.contextmanager
def new_directory(directory):
    """A new directory beside the wanted one, which takes its place in the end; only a SavedModel is replaced."""
    directory = pathlib.Path(directory)
    if directory.exists() and not (directory / SAVED_MODEL).exists():
        raise SystemExit(f"{directory}: exists and is no SavedModel; name another directory")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as parent:
        draft = pathlib.Path(parent, directory.name)
        yield draft
        if directory.exists():
            shutil.rmtree(directory)
        os.replace(draft, directory)


def settle_saved_model(directory):
    """Rewrites `saved_model.pb` in a fixed order, and its fingerprint to match; that one holds a random number too."""
    saved_model = read_saved_model(directory)
    for meta in saved_model.meta_graphs:
        canonicalize(meta)
    write_message(saved_model, directory / SAVED_MODEL)
    fingerprinting_utils.write_fingerprint(str(directory))


def read_saved_model(directory):
    return saved_model_pb2.SavedModel.FromString(pathlib.Path(directory, SAVED_MODEL).read_bytes())
