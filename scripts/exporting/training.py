"""Makes a training graph of a model, or its forward pass: input, loss, train step, initialization, saver, collections."""

import dataclasses
import warnings
from dataclasses import dataclass

import tensorflow as tf
from models.layers import Network

from . import batches, step, towers

tf1 = tf.compat.v1

SIGNATURE = "train"


@dataclass
class Training:
    """A finished training graph and where to take hold of it."""

    graph: tf.Graph
    batch: batches.Batch
    turns: list  # of pairs: a loss and the train op that lowers it; one pair, but where several steps are run in turn
    init_op: tf.Operation
    saver: tf1.train.Saver

    @property
    def loss(self):
        return self.turns[0][0]

    @property
    def train_op(self):
        return self.turns[0][1]

    def signature(self):
        """The graph's interface: placeholders in, losses out."""
        return tf1.saved_model.build_signature_def(
            inputs={
                each.name: tf1.saved_model.build_tensor_info(tensor)
                for each, tensor in zip(self.batch.inputs, self.batch.placeholders)
            },
            outputs={
                loss.op.name: tf1.saved_model.build_tensor_info(loss) for loss, _ in self.turns
            },
            method_name="tensorflow/supervised/training",
        )


def build(model, options):
    """The training graph of `model`, in a graph of its own."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(options.seed)
        with tf.device(options.device):
            batch, turns = build_step(model, options)
            init_op = initialization(batch)
        with tf.device("/device:CPU:0"):  # files are read and written on the host
            saver = tf1.train.Saver(tf1.global_variables())
        for key, values in [
            (tf1.GraphKeys.LOSSES, [loss for loss, _ in turns]),
            (tf1.GraphKeys.TRAIN_OP, [train_op for _, train_op in turns]),
            (tf1.GraphKeys.INIT_OP, [init_op]),
        ]:
            graph.clear_collection(key)
            for value in values:
                graph.add_to_collection(key, value)
        if batch.initializer:
            # No checkpoint holds it. Who restores one runs the first collection, or the other in a SavedModel.
            graph.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, batch.initializer)
            if options.saved_model:
                graph.add_to_collection(tf1.saved_model.MAIN_OP_KEY, batch.initializer)
    graph.finalize()
    return Training(graph, batch, turns, init_op, saver)


def build_step(model, options):
    """The batch, and the losses with the ops that train them, in the graph and on the devices of the scope."""
    if options.towers:
        batch, loss, train_op = towers.build(model, options)
        return batch, [(loss, train_op)]
    batch = batches.make(model, options)
    net = Network(options.data_format, options.ref_variables, getattr(options, "fp16", False))
    return batch, list(build_turns(model, net, batch.towers[0], options))


def build_turns(model, net, batch, options):
    """Losses and the ops that train them; a forward pass runs for its loss alone."""
    if not model.turns:
        loss = tf.identity(model.loss(net, batch, options), name="loss")
        yield loss, loss.op if options.forward else step.one(model, options, loss)
        return
    # All losses before any step: a step's gradients are no part of another's losses.
    turns = [
        dataclasses.replace(turn, loss=tf.identity(turn.loss, name=f"loss_{turn.name}"))
        for turn in model.turns(net, batch, options)
    ]
    for turn in turns:
        yield turn.loss, turn.loss.op if options.forward else step.turn(model, options, turn)


def initialization(batch):
    """An operation named `init` for the variables and, where there is one, the input."""
    variables = tf1.global_variables()
    if not batch.initializer:
        return tf1.variables_initializer(variables, name="init")
    return tf.group(tf1.variables_initializer(variables, name="init_variables"), batch.initializer, name="init")


def frozen(made):
    """The same graph with the variables' initial values as constants."""
    with tf1.Session(graph=made.graph) as session:
        session.run(made.init_op)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its advice to leave graph mode
            graph_def = tf1.graph_util.convert_variables_to_constants(
                session, made.graph.as_graph_def(), [made.loss.op.name]
            )
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    inputs = [graph.get_tensor_by_name(tensor.name) for tensor in made.batch.placeholders]
    loss = graph.get_tensor_by_name(made.loss.name)
    batch = dataclasses.replace(made.batch, placeholders=inputs)
    return dataclasses.replace(made, graph=graph, batch=batch, turns=[(loss, loss.op)])
