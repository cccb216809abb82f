"""Makes a training graph of a model: placeholders, loss, optimizer, initialization, saver, collections."""

from dataclasses import dataclass

import tensorflow as tf
from models.layers import Network

tf1 = tf.compat.v1

OPTIMIZERS = {
    "sgd": tf1.train.GradientDescentOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, momentum=0.9),
    "adam": tf1.train.AdamOptimizer,
    "rmsprop": lambda rate: tf1.train.RMSPropOptimizer(rate, decay=0.9, epsilon=1e-7),
}

SIGNATURE = "train"


@dataclass
class Training:
    """A finished training graph and where to take hold of it."""

    graph: tf.Graph
    inputs: list  # of models.model.Input
    placeholders: list  # of tensors, in the order of `inputs`
    loss: tf.Tensor
    train_op: tf.Operation
    init_op: tf.Operation
    saver: tf1.train.Saver

    def signature(self):
        """The graph's interface: placeholders in, loss out."""
        return tf1.saved_model.build_signature_def(
            inputs={
                each.name: tf1.saved_model.build_tensor_info(tensor)
                for each, tensor in zip(self.inputs, self.placeholders)
            },
            outputs={"loss": tf1.saved_model.build_tensor_info(self.loss)},
            method_name="tensorflow/supervised/training",
        )


def build(model, options):
    """The training graph of `model`, in a graph of its own."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(options.seed)
        with tf.device(options.device):
            inputs = model.inputs(options)
            placeholders = [each.placeholder() for each in inputs]
            net = Network(options.data_format, options.ref_variables, getattr(options, "fp16", False))
            batch = {each.name: tensor for each, tensor in zip(inputs, placeholders)}
            loss = tf.identity(model.loss(net, batch, options), name="loss")
            train_op = train_step(model, options, loss)
            init_op = tf1.variables_initializer(tf1.global_variables(), name="init")
        with tf.device("/device:CPU:0"):  # files are read and written on the host
            saver = tf1.train.Saver(tf1.global_variables())
        for key, value in [
            (tf1.GraphKeys.LOSSES, loss),
            (tf1.GraphKeys.TRAIN_OP, train_op),
            (tf1.GraphKeys.INIT_OP, init_op),
        ]:
            graph.clear_collection(key)
            graph.add_to_collection(key, value)
    graph.finalize()
    return Training(graph, inputs, placeholders, loss, train_op, init_op, saver)


def train_step(model, options, loss):
    """One step of the optimizer, an operation named `train`."""
    rate, step = options.learning_rate, None
    if model.schedule:
        step = tf1.get_variable(
            tf1.GraphKeys.GLOBAL_STEP,
            [],
            tf.int64,
            tf1.zeros_initializer(),
            trainable=False,
            collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.GLOBAL_STEP],
            use_resource=not options.ref_variables,
        )
        rate = model.schedule(rate, step)
    optimizer = OPTIMIZERS[options.optimizer](rate)
    scale = options.loss_scale if getattr(options, "fp16", False) else 1.0
    gradients = optimizer.compute_gradients(loss * scale if scale != 1.0 else loss)
    if scale != 1.0:
        gradients = [(gradient / scale, variable) for gradient, variable in gradients]
    # A reference variable may be overwritten while someone still reads it. The wait makes a fetched loss that of the
    # parameters before the step, in every run.
    with tf.control_dependencies([loss]):
        apply = optimizer.apply_gradients(gradients, global_step=step, name="apply")
    return tf.group(apply, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS), name="train")
