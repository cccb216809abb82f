"""Several towers: the model once on each GPU with a part of the batch, one set of variables, one update.

As TensorFlow's benchmarks do it with `--variable_update=parameter_server`: each tower reads the variables from the
device that holds them, the mean of the towers' gradients is taken there, and applied once. Of batch normalization's
moving averages the first tower keeps those of its part.
"""

import tensorflow as tf
from models.layers import Network

from . import batches, step

tf1 = tf.compat.v1

PARAMETER_DEVICES = {"cpu": "/device:CPU:0", "gpu": "/device:GPU:0"}
VARIABLES = ["VarHandleOp", "VariableV2"]


def build(model, options):
    """The batch, the mean loss and the train op."""
    parameters = PARAMETER_DEVICES[options.parameter_device]
    devices = [f"/device:GPU:{tower}" for tower in range(options.towers)]
    batch = batches.make_for_towers(model, options, devices)
    batch.about.update({"towers": options.towers, "parameter_device": parameters})
    with tf.device(parameters):
        optimizer, count = step.make_optimizer(model, options)
    losses, gradients = [], []
    for tower, (device, tensors) in enumerate(zip(devices, batch.towers)):
        net = Network(
            options.data_format, options.ref_variables, getattr(options, "fp16", False), keeps_averages=tower == 0
        )
        with (
            tf1.device(placement(device, parameters)),
            tf1.variable_scope(tf1.get_variable_scope(), reuse=tower > 0),
            tf1.name_scope(f"tower_{tower}"),
        ):
            losses.append(model.loss(net, tensors, options))
            gradients.append(step.gradients(optimizer, losses[-1], options))
    with tf.device(parameters):
        loss = tf.identity(mean(losses), name="loss")
        pairs = [(mean([gradient for gradient, _ in pairs]), pairs[0][1]) for pairs in zip(*gradients)]
        apply = step.update(optimizer, pairs, loss, count)
        train_op = tf.group(apply, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS), name="train")
    place_reads(loss.graph)
    return batch, loss, train_op


def placement(tower, parameters):
    """A device function: variables on the one device, what reads or writes them with them, all else in the tower."""

    def choose(op):
        if op.type in VARIABLES:
            return parameters
        handles = [tensor for tensor in op.inputs if tensor.dtype == tf.resource or tensor.dtype._is_ref_dtype]
        return handles[0].device if handles else tower

    return choose


def place_reads(graph):
    """Gives ops that hold a variable, and name no device, that of the variable.

    Reads that TensorFlow makes by itself are such. It runs them there in any case, but who reads the file cannot tell.
    """
    for op in graph.get_operations():
        handles = [tensor for tensor in op.inputs if tensor.dtype == tf.resource]
        if handles and not op.device:
            op._set_device(handles[0].device)


def mean(tensors):
    """The mean of the towers' tensors; one tower's as it is."""
    return tf.add_n(tensors) / len(tensors) if len(tensors) > 1 else tensors[0]
