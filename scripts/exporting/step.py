"""The train step: gradients and optimizer."""

import tensorflow as tf

tf1 = tf.compat.v1

OPTIMIZERS = {
    "sgd": tf1.train.GradientDescentOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, momentum=0.9),
    "adam": tf1.train.AdamOptimizer,
    "rmsprop": lambda rate: tf1.train.RMSPropOptimizer(rate, decay=0.9, epsilon=1e-7),
}


def one(model, options, loss):
    """One step of the optimizer on one loss, an operation named `train`."""
    optimizer, count = make_optimizer(model, options)
    return update(optimizer, gradients(optimizer, loss, options), loss, count)


def make_optimizer(model, options):
    """The optimizer, and the variable that counts steps, if the learning rate depends on it."""
    rate, count = options.learning_rate, None
    if model.schedule:
        count = tf1.get_variable(
            tf1.GraphKeys.GLOBAL_STEP,
            [],
            tf.int64,
            tf1.zeros_initializer(),
            trainable=False,
            collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.GLOBAL_STEP],
            use_resource=not options.ref_variables,
        )
        rate = model.schedule(rate, count)
    return OPTIMIZERS[options.optimizer](rate), count


def gradients(optimizer, loss, options):
    """Pairs of gradient and variable."""
    scale = options.loss_scale if getattr(options, "fp16", False) else 1.0
    gate = optimizer.GATE_NONE if options.ungated else optimizer.GATE_OP
    pairs = optimizer.compute_gradients(loss * scale if scale != 1.0 else loss, gate_gradients=gate)
    return [(gradient / scale, variable) for gradient, variable in pairs] if scale != 1.0 else pairs


def update(optimizer, pairs, loss, count):
    """Applies gradients; an operation named `train`."""
    # A reference variable may be overwritten while someone still reads it. The wait makes a fetched loss that of the
    # parameters before the step, in every run.
    with tf.control_dependencies([loss]):
        apply = optimizer.apply_gradients(pairs, global_step=count, name="apply")
    return tf.group(apply, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS), name="train")
