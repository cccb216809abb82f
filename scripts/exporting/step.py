"""The train step: gradients and optimizer."""

import contextlib

import tensorflow as tf

tf1 = tf.compat.v1

OPTIMIZERS = {
    "sgd": tf1.train.GradientDescentOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, momentum=0.9),
    "adam": tf1.train.AdamOptimizer,
    "rmsprop": lambda rate: tf1.train.RMSPropOptimizer(rate, decay=0.9, epsilon=1e-7),
}


# With --dynamic-loss-scale: after so many steps with finite gradients the scale is doubled.
STEPS_TO_DOUBLE = 2000


def one(model, options, loss):
    """One step of the optimizer on one loss, an operation named `train`."""
    optimizer, count = make_optimizer(model, options)
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    with first(updates) if options.updates_first else contextlib.nullcontext():
        if getattr(options, "dynamic_loss_scale", False):
            train = scaled(optimizer, loss, options, count)
        else:
            train = update(optimizer, gradients(optimizer, loss, options), loss, count)
    return tf.group(train, *([] if options.updates_first else updates), name="train")


def first(updates):
    """Lets all that is made in its scope wait for these updates, gradients included: a usual way to have them run at all."""
    return tf.control_dependencies(updates)


def turn(model, options, each):
    """One of several steps, an operation named `train_` with its name."""
    with tf1.variable_scope(f"optimizer_{each.name}"):
        optimizer, count = make_optimizer(model, options)
        with first(each.updates) if options.updates_first else contextlib.nullcontext():
            pairs = gradients(optimizer, each.loss, options, each.variables)
            train = update(optimizer, pairs, each.loss, count)
    return tf.group(train, *([] if options.updates_first else each.updates), name=f"train_{each.name}")


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


def gradients(optimizer, loss, options, variables=None):
    """Pairs of gradient and variable."""
    scale = options.loss_scale if getattr(options, "fp16", False) else 1.0
    pairs = compute(optimizer, loss * scale if scale != 1.0 else loss, options, variables)
    return [(gradient / scale, variable) for gradient, variable in pairs] if scale != 1.0 else pairs


def compute(optimizer, loss, options, variables=None):
    """Pairs of gradient and variable, of the loss as it is."""
    gate = optimizer.GATE_NONE if options.ungated else optimizer.GATE_OP
    return optimizer.compute_gradients(loss, variables, gate_gradients=gate)


def scaled(optimizer, loss, options, count):
    """A step of mixed precision: the scale is a variable, and where a gradient overflowed nothing is trained.

    The update is in a branch of a `tf.cond`, optimizer and all. The scale is halved where it was too large.
    """

    def state(name, initial, dtype):
        return tf1.get_variable(
            f"loss_scale/{name}",
            [],
            dtype,
            tf1.constant_initializer(initial),
            trainable=False,
            use_resource=not options.ref_variables,
        )

    scale, good_steps = state("scale", options.loss_scale, tf.float32), state("good_steps", 0, tf.int32)
    # A reference variable is read before the branch that writes to it.
    used, number = tf.identity(scale), tf.identity(good_steps) + 1
    pairs = [(gradient / used, variable) for gradient, variable in compute(optimizer, loss * used, options)]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient, _ in pairs])

    def train():
        doubled = tf.equal(number, STEPS_TO_DOUBLE)
        return tf.group(
            update(optimizer, pairs, loss, count),
            tf1.assign(scale, tf.where(doubled, used * 2.0, used)),
            tf1.assign(good_steps, tf.where(doubled, 0, number)),
        )

    def leave_out():
        return tf.group(tf1.assign(scale, used / 2.0), tf1.assign(good_steps, 0))

    return tf1.cond(finite, train, leave_out)


def update(optimizer, pairs, loss, count):
    """Applies gradients."""
    # A reference variable may be overwritten while someone still reads it. The wait makes a fetched loss that of the
    # parameters before the step, in every run.
    with tf.control_dependencies([loss]):
        return optimizer.apply_gradients(pairs, global_step=count, name="apply")
