"""Small training graphs with what is hard to train on several workers: zoo.py FOLDER

Each is FOLDER/NAME.meta, with an open batch dimension.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()


def clip_value(gradients):
    return [tf.clip_by_value(gradient, -0.01, 0.01) for gradient in gradients]


def clip_norm(gradients):
    return [tf.clip_by_norm(gradient, 0.05) for gradient in gradients]


def clip_global(gradients):
    return tf.clip_by_global_norm(gradients, 0.1)[0]


def skip_overflow(gradients):
    """As loss scaling does: no step if a gradient overflowed."""
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
    return [tf.where(finite, gradient, tf.zeros_like(gradient)) for gradient in gradients]


def plain(gradients):
    return gradients


def by_optimizer(optimizer):
    return lambda pairs, step: optimizer().apply_gradients(pairs, global_step=step, name="train")


def by_hand(pairs, step):
    """Adam with decay, written out with assignments, as the first programs for BERT did."""
    updates = []
    for gradient, variable in pairs:
        name = variable.op.name
        first = v1.get_variable(name + "/m", variable.shape, initializer=v1.zeros_initializer(), trainable=False)
        second = v1.get_variable(name + "/v", variable.shape, initializer=v1.zeros_initializer(), trainable=False)
        next_first = 0.9 * first + 0.1 * gradient
        next_second = 0.999 * second + 0.001 * tf.square(gradient)
        update = next_first / (tf.sqrt(next_second) + 1e-6) + 0.01 * variable
        updates += [variable.assign(variable - 0.01 * update), first.assign(next_first), second.assign(next_second)]
    updates.append(step.assign_add(1))
    return tf.group(*updates, name="train")




MODELS = {
    "momentum": (plain, by_optimizer(lambda: v1.train.MomentumOptimizer(0.1, 0.9)), {}),
    "clip_value": (clip_value, by_optimizer(lambda: v1.train.MomentumOptimizer(0.1, 0.9)), {}),
    "clip_norm": (clip_norm, by_optimizer(lambda: v1.train.GradientDescentOptimizer(0.1)), {}),
    "clip_global": (clip_global, by_optimizer(lambda: v1.train.AdamOptimizer(0.01)), {}),
    "clip_global_ref": (clip_global, by_optimizer(lambda: v1.train.AdamOptimizer(0.01)), {"ref": True}),
    "by_hand": (plain, by_hand, {}),
    "sparse_momentum": (plain, by_optimizer(lambda: v1.train.MomentumOptimizer(0.1, 0.9)), {"sparse": True}),
    "sparse_clip": (clip_global, by_optimizer(lambda: v1.train.AdamOptimizer(0.01)), {"sparse": True}),
    "sparse_ref": (plain, by_optimizer(lambda: v1.train.AdagradOptimizer(0.1)), {"sparse": True, "ref": True}),
    "half": (skip_overflow, by_optimizer(lambda: v1.train.AdamOptimizer(0.01)), {"half": True}),
    "fed_rate": (plain, None, {}),
    "norm": (plain, by_optimizer(lambda: v1.train.AdamOptimizer(0.01)), {"norm": True}),
}


def build(clip, apply, sparse=False, ref=False, half=False, norm=False):
    (v1.disable_resource_variables if ref else v1.enable_resource_variables)()
    v1.set_random_seed(7)
    numbers = v1.placeholder(tf.float32, [None, 12], "numbers")
    labels = v1.placeholder(tf.int32, [None], "labels")
    hidden = numbers
    if sparse:
        words = v1.placeholder(tf.int32, [None, 3], "words")
        table = v1.get_variable("table", [50, 8], initializer=v1.random_normal_initializer(seed=3))
        found = tf.nn.embedding_lookup(table, words)
        hidden = tf.concat([numbers, tf.reshape(found, [-1, 24])], 1)

    def dense(value, size, name):
        weights = v1.get_variable(name + "/w", [value.shape[1], size], initializer=v1.random_normal_initializer(0, 0.3, seed=5))
        bias = v1.get_variable(name + "/b", [size], initializer=v1.zeros_initializer())
        if half:
            weights, bias, value = (tf.cast(each, tf.float16) for each in (weights, bias, value))
        return tf.matmul(value, weights) + bias

    hidden = dense(hidden, 16, "first")
    averages = []
    if norm:
        mean, variance = tf.nn.moments(hidden, [0])
        for name, value in (("mean", mean), ("variance", variance)):
            average = v1.get_variable("moving_" + name, [16], initializer=v1.zeros_initializer(), trainable=False)
            averages.append(average.assign_sub(0.1 * (average - value)))
        hidden = (hidden - mean) * tf.math.rsqrt(variance + 1e-3)
    logits = tf.cast(dense(tf.nn.relu(hidden), 10, "second"), tf.float32)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    loss = tf.reduce_mean(each, name="loss")
    variables = v1.trainable_variables()
    scale = 128.0 if half else 1.0
    gradients = tf.gradients(loss * scale, variables)
    if half:
        gradients = [gradient / scale for gradient in gradients]
    if ref:  # as optimizers do: no variable is written to before all gradients are there
        gradients = tf.tuple(gradients)
    gradients = clip(gradients)
    if apply is None:
        rate = v1.placeholder(tf.float32, [], "rate")
        apply = by_optimizer(lambda: v1.train.MomentumOptimizer(rate, 0.9))
    step = v1.train.get_or_create_global_step()
    train = apply(list(zip(gradients, variables)), step)
    if averages:
        v1.get_default_graph().clear_collection("train_op")
        train = tf.group(train, *averages, name="train_with_averages")
    if not v1.get_collection("train_op"):  # optimizers put it there themselves
        v1.add_to_collection("train_op", train)
    v1.add_to_collection("losses", loss)
    v1.add_to_collection("init_op", v1.global_variables_initializer())
    return v1.train.Saver()


def main(folder):
    folder = pathlib.Path(folder)
    for name, (clip, apply, options) in MODELS.items():
        with tf.Graph().as_default():
            saver = build(clip, apply, **options)
            v1.train.export_meta_graph(str(folder / f"{name}.meta"), saver_def=saver.saver_def, clear_extraneous_savers=True)


if __name__ == "__main__":
    main(sys.argv[1])
