"""Graphs of sessions that call functions, as control flow of version 2 leaves them: `calls.py FOLDER` writes them."""

import pathlib
import sys

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()


def weights(name, *shape):
    return v1.get_variable(name, shape, initializer=v1.glorot_uniform_initializer(seed=len(name)))


def dense(x, width, name, act=None):
    y = x @ weights(f"{name}/weights", x.shape[-1], width)
    return act(y) if act else y


def begin(batch=1024, width=256):
    return dense(v1.placeholder(tf.float32, [batch, width], "x"), width, "begin", tf.nn.relu)


def classes(x):
    labels = v1.placeholder(tf.int32, x.shape[:1], "labels")
    logits = dense(x, 10, "end")
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def trained(loss):
    v1.train.AdamOptimizer(0.001).minimize(loss)
    return loss


def turns(x, times, recurrent, width=256):
    """A product with the same weights, so many times."""
    return tf.while_loop(lambda i, _: i < times, lambda i, h: (i + 1, tf.tanh(h @ recurrent)), [tf.constant(0), x])[1]


def dropouts():
    """Branches with an effect, as random numbers are one, by one condition."""
    trains, x = v1.placeholder_with_default(True, []), begin()
    for number in range(5):
        x = dense(x, 256, f"layer{number}", tf.nn.relu)
        x = tf.cond(trains, lambda x=x: v1.nn.dropout(x, rate=0.3), lambda x=x: x)
    return trained(classes(x))


def branch_in_branch():
    """What an inner branch saves for its gradient is in an optional within an optional."""
    x, outer, inner = begin(), v1.placeholder_with_default(True, []), v1.placeholder_with_default(True, [])
    first, second = weights("first", 256, 256), weights("second", 256, 256)
    for _ in range(3):
        deep = lambda x: tf.cond(inner, lambda: tf.tanh(tf.tanh(x @ first) @ second), lambda: tf.sin(x))  # noqa: E731
        x = tf.cond(outer, lambda x=x: deep(x) * 0.5, lambda x=x: x)
    return trained(classes(x))


def which():
    x, number = begin(), v1.placeholder_with_default(1, [])
    first, second = weights("first", 256, 512), weights("second", 512, 256)
    wide = lambda: tf.tanh(tf.nn.relu(x @ first) @ second)  # noqa: E731
    return trained(classes(tf.switch_case(number, [lambda: x * 2.0, wide, lambda: tf.sin(x)])))


def loop():
    return trained(classes(turns(begin(), 6, weights("recurrent", 256, 256))))


def loop_in_branch():
    x, recurrent = begin(), weights("recurrent", 256, 256)
    return trained(classes(tf.cond(tf.reduce_sum(x) > -1.0, lambda: turns(x, 6, recurrent), lambda: x * 2.0)))


def recurrent():
    """A `tf.scan` in a `tf.function`."""
    x = v1.placeholder(tf.float32, [30, 64, 64], "x")
    kernel = weights("kernel", 192, 128)

    @tf.function
    def states(x):
        step = lambda h, now: tf.tanh(tf.concat([h, now], 1) @ kernel)  # noqa: E731
        return tf.scan(step, x, initializer=tf.zeros([64, 128]))

    return trained(classes(tf.reduce_max(states(x), 0)))


def functions():
    """A function that calls functions, of which one has two results."""
    x, first, second = begin(), weights("first", 256, 512), weights("second", 512, 512)

    @tf.function
    def layer(x, weights):
        y = tf.nn.relu(x @ weights)
        return tf.tanh(y) * y, tf.reduce_mean(y)

    @tf.function
    def network(x):
        x, one = layer(x, first)
        x, other = layer(x, second)
        return x, one + other

    x, penalty = network(x)
    return trained(classes(x) + 0.001 * penalty)


def whole_step():
    """A step that is one call: it brings its updates with it, though only its loss is read."""
    x = v1.placeholder(tf.float32, [1024, 256], "x")
    variables = [v1.get_variable(f"w{n}", [256, 256], use_resource=True) for n in range(3)]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for variable in variables:
                y = tf.tanh(y @ variable)
            loss = tf.reduce_mean((y - x) ** 2)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    loss = step(x)
    v1.add_to_collection("train_op", v1.group(tf.identity(loss)))
    return loss


def loss_scaling():
    """Updates in a branch, which leaves the name of an op within it in the collection of train ops."""
    x = begin()
    for number in range(3):
        x = dense(x, 256, f"layer{number}", tf.nn.relu)
    loss, optimizer = classes(x), v1.train.AdamOptimizer(0.001)
    scale = v1.get_variable("scale", [], initializer=v1.constant_initializer(1024.0), trainable=False)
    scaled = optimizer.compute_gradients(loss * scale, [v for v in v1.trainable_variables() if v is not scale])
    gradients = [(gradient / scale, variable) for gradient, variable in scaled]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient, _ in gradients])
    apply = lambda: tf.group(optimizer.apply_gradients(gradients), scale.assign(scale * 2.0))  # noqa: E731
    train = tf.cond(finite, apply, lambda: tf.group(scale.assign(scale * 0.5)))
    v1.add_to_collection("train_op", train)
    return loss


def main():
    made = (
        dropouts,
        branch_in_branch,
        which,
        loop,
        loop_in_branch,
        recurrent,
        functions,
        whole_step,
        loss_scaling,
    )
    for model in made:
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(1)
            v1.add_to_collection("losses", model())
            meta_graph = v1.train.export_meta_graph(graph=graph)
        pathlib.Path(sys.argv[1], f"{model.__name__}.meta").write_bytes(meta_graph.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
