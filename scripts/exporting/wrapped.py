"""A model as a function of TensorFlow 2: its training step wrapped, its variables those of a `tf.Module`.

The code that builds the graph is the same as for a graph of version 1, so the two can be held against each other. Conditions and loops
become functions, as in all that TensorFlow 2 traces.
"""

import dataclasses
import functools

import tensorflow as tf

from . import training

tf1 = tf.compat.v1


class TrainingStep(tf.Module):
    """The variables, and `train`: a batch in, the loss out, one step of the optimizer on the way."""

    saves_gradients = False

    def __init__(self, model, options):
        super().__init__()
        inputs = model.inputs(options)
        whole = [each.times(options.towers) for each in inputs] if options.towers else inputs
        signature = [tf.TensorSpec(each.shape, each.dtype, each.name) for each in whole]

        def train(*tensors):
            tf1.set_random_seed(options.seed)
            given = dict(zip([each.name for each in inputs], tensors))
            fed = [dataclasses.replace(each, make=functools.partial(given.get, each.name)) for each in inputs]
            _, [(loss, train_op)] = training.build_step(dataclasses.replace(model, inputs=lambda _: fed), options)
            with tf.control_dependencies([train_op]):
                return {"loss": tf.identity(loss)}

        self.wrapped = tf1.wrap_function(train, signature)
        self.kept = list(self.wrapped.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES))  # the optimizer's too
        self.train = tf.function(lambda *tensors: self.wrapped(*tensors), input_signature=signature)

    def weights(self):
        return [variable for variable in self.kept if variable.trainable]
