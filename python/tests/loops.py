"""Steps with loops and branches on the software GPU: `loops.py STEP` prints what is predicted of it and what it takes, as JSON."""

import json
import sys

import numpy as np
import soft

tf = soft.load("1GiB")

import tf_lms  # noqa: E402

ROWS, WIDTH = 2048, 128


def weight(*shape, seed=0):
    return tf.Variable(np.random.default_rng(seed).normal(0, 0.1, shape).astype("float32"))


def on_host(*shape):
    with tf.device("/CPU:0"):
        return tf.constant(np.random.default_rng(1).random(shape, dtype="float32"))


def measured(step, *arguments):
    """The losses of three calls, and what the last one takes."""
    losses = []
    for _ in range(3):
        soft.reset()
        losses.append(float(step(*arguments)))
    return {"losses": losses, "peak": soft.counters()["peak"]}


def told(step):
    report = step.report
    return {"verdict": report.verdict, "changed": report.changed, "peak": report.peak_before, "text": str(report)}


def looping(body, times):
    """A step that trains a weight through a loop that begins with its argument."""
    w = weight(WIDTH, WIDTH)

    def step(x):
        with tf.GradientTape() as tape:
            state = x
            for _ in tf.range(times):
                state = body(state, w)
            loss = tf.reduce_mean(state**2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    return step


def carried():
    def body(state, w):
        return tf.tanh(state @ w)

    step = tf_lms.function(looping(body, 8), gpu_memory="1GiB", strict=True)
    x = on_host(ROWS, WIDTH)
    both = {"lms": measured(step, x), "plain": measured(tf.function(looping(body, 8)), x)}
    return {**both, "report": told(step), "argument": ROWS * WIDTH * 4}


def short():
    plans = []
    for times in (8, 12):
        step = tf.function(looping(lambda state, w: state + 0.1 * tf.tanh(state @ w), times))
        x = on_host(ROWS, WIDTH)
        before = tf_lms.predict(step, "1GiB", data=(x,)).peak_before
        report = tf_lms.predict(step, int(0.7 * before), data=(x,))
        plans.append({"verdict": report.verdict, "before": before, "after": report.peak_after})
    return plans


def branches():
    """What the heavy branch saves for its gradient lies in slots in which the other one has a weight, or nothing."""
    kernels = [weight(3, 3, 16, 16, seed=seed) for seed in range(3)]

    def layer(x, kernel):
        return tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))

    def heavy(x):
        for kernel in kernels:
            x = layer(x, kernel)
        return x

    def step(x):
        with tf.GradientTape() as tape:
            for _ in range(3):
                x = x + tf.cond(tf.reduce_mean(x) > 0.1, lambda x=x: heavy(x), lambda x=x: layer(x, kernels[0]) * 0.5)
            loss = tf.reduce_mean(x**2)
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.01 * gradient)
        return loss

    step = tf_lms.function(step, gpu_memory="1GiB", strict=True)
    return {"lms": measured(step, on_host(16, 32, 32, 16)), "report": told(step)}


def stacked():
    """How long the list is, the shape of the argument says."""
    w = weight(64, 64)

    def step(x):
        with tf.GradientTape() as tape:
            length = tf.shape(x)[1]
            states, state = tf.TensorArray(tf.float32, length), tf.zeros_like(x[:, 0])
            for at in tf.range(length):
                state = tf.tanh(x[:, at] @ w + state)
                states = states.write(at, state)
            loss = tf.reduce_mean(tf.transpose(states.stack(), (1, 0, 2)) ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    step = tf_lms.function(step, gpu_memory="1GiB", strict=True)
    return {"lms": measured(step, on_host(256, 24, 64)), "report": told(step)}


def written():
    """A list that grows with each write, as of episodes. How often the loop runs an argument says, or somebody."""
    w = weight(64, 64)

    def step(x, times):
        with tf.GradientTape() as tape:
            states, state = tf.TensorArray(tf.float32, 0, dynamic_size=True), x
            for at in tf.range(times):
                state = tf.tanh(state @ w)
                states = states.write(at, state)
            loss = tf.reduce_mean(states.stack() ** 2)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return loss

    arguments = on_host(256, 64), tf.constant(24)
    try:
        tf_lms.function(step, gpu_memory="1GiB", strict=True)(*arguments)
        refused = ""
    except tf_lms.CannotRewrite as error:
        refused = str(error)
    step = tf_lms.function(step, gpu_memory="1GiB", strict=True, iterations=24)
    return {"refused": refused, "lms": measured(step, *arguments), "report": told(step)}


def dropped():
    """Layers that are left out by chance, with an open batch: what a branch's gradient reads it finds in optionals."""
    weights = [(weight(32, 64, seed=seed), weight(64, 32, seed=seed)) for seed in range(3)]

    def layer(x, inner, outer):
        return x + tf.tensordot(tf.nn.gelu(tf.tensordot(x, inner, 1)), outer, 1)

    def step(x):
        with tf.GradientTape() as tape:
            for inner, outer in weights:
                keeps = tf.random.uniform([], seed=11) < 0.7
                x = tf.cond(keeps, lambda x=x, inner=inner, outer=outer: layer(x, inner, outer), lambda x=x: x)
            loss = tf.reduce_mean(x**2)
        trained = [one for both in weights for one in both]
        for one, gradient in zip(trained, tape.gradient(loss, trained), strict=True):
            one.assign_sub(0.01 * gradient)
        return loss

    step = tf_lms.function(step, gpu_memory="1GiB", strict=True, input_signature=[tf.TensorSpec([None, 128, 32])])
    return {"lms": measured(step, on_host(32, 128, 32)), "report": told(step)}


def given():
    """A loop over a list of the argument's parts: who calls holds the argument while the step runs, on the GPU or on the host."""
    w = weight(128, 128)

    def step(x):
        with tf.GradientTape() as tape:
            parts, state = tf.TensorArray(tf.float32, 32).unstack(x), tf.zeros((256, 128))
            for at in tf.range(32):
                state = tf.tanh(state @ w + parts.read(at))
            loss = tf.reduce_mean(state)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    step = tf_lms.function(step, gpu_memory="1GiB", strict=True)
    found = []
    for on_gpu in (False, True):
        x = on_host(32, 256, 128)
        x = tf.identity(x) if on_gpu else x
        predicted = tf_lms.predict(step, "1GiB", data=(x,)).peak_before
        found.append({"device": x.device, "lms": measured(step, x), "report": told(step), "predicted": predicted})
    return found


def parts():
    """Gradients are added up over parts of a batch in a loop: TensorFlow begins all at once, unless a plan has one wait for the other."""
    kernels = [weight(3, 3, 3, 32), weight(3, 3, 32, 32), weight(3, 3, 32, 32)]
    x = on_host(64, 64, 64, 3)

    def step(x):
        sums, losses = [tf.zeros_like(kernel) for kernel in kernels], 0.0
        for at in tf.range(8):
            with tf.GradientTape() as tape:
                states = x[8 * at : 8 * at + 8]
                states.set_shape((8, 64, 64, 3))
                for kernel in kernels:
                    states = tf.nn.relu(tf.nn.conv2d(states, kernel, 2, "SAME"))
                loss = tf.reduce_mean(states**2)
            sums = [one + other for one, other in zip(sums, tape.gradient(loss, kernels), strict=True)]
            losses += loss
        for kernel, one in zip(kernels, sums, strict=True):
            kernel.assign_sub(0.1 * one)
        return losses

    initial = [kernel.numpy() for kernel in kernels]
    plain = measured(tf.function(step), x)
    for kernel, value in zip(kernels, initial, strict=True):
        kernel.assign(value)
    small = tf_lms.function(step, gpu_memory=int(0.4 * plain["peak"]), strict=True)
    as_it_is = str(tf_lms.predict(tf.function(step), "1GiB", data=(x,)))
    return {"plain": plain, "lms": measured(small, x), "report": told(small), "as_it_is": as_it_is}


def ahead():
    """Without gradients nothing waits for copies of a table of which rows change, which are made each time that it is read."""
    table = weight(8, 1 << 16)
    x = on_host(1 << 16)

    def step(x):
        x = 2.0 * x  # on the GPU, where the loop begins
        table.scatter_update(tf.IndexedSlices(x[None], [1]))
        for at in tf.range(6):
            x = x - 0.1 * tf.reduce_sum(table[at] * x) * table[7 - at]
        return tf.reduce_sum(x)

    large = tf_lms.function(step, gpu_memory="1GiB")
    taken = measured(large, x)["peak"]
    small = tf_lms.predict(tf.function(step), int(1.1 * large.report.peak_before), data=(x,), memory_ratio=1.0)
    return {"taken": taken, "verdict": small.verdict, "is_tight": small.is_tight, "text": str(small)}


def attended():
    """A decoder that points at one place after the other: of its gradient, what only looks at the scores could run ahead of the rest."""
    places, width = 20, 96
    embed, into_keys, into_query, to_score = weight(2, width), weight(width, width), weight(width, width, seed=1), weight(width, seed=2)
    cell = weight(2 * width, 4 * width, seed=3)
    weights = [embed, into_keys, into_query, to_score, cell]
    x = on_host(32, places, 2)

    def step(x):
        with tf.GradientTape() as tape:
            embedded = tf.tanh(x @ embed)
            keys, now, seen = embedded @ into_keys, tf.reduce_mean(embedded, 1), tf.zeros([32, places])
            state, memory, loss = tf.zeros([32, width]), tf.zeros([32, width]), tf.constant(0.0)
            for _ in tf.range(places):
                add, forget, out, new = tf.split(tf.concat([now, state], 1) @ cell, 4, 1)
                memory = tf.sigmoid(forget) * memory + tf.sigmoid(add) * tf.tanh(new)
                state = tf.sigmoid(out) * tf.tanh(memory)
                scores = tf.reduce_sum(to_score * tf.tanh(keys + (state @ into_query)[:, None]), -1) - 1e9 * seen
                chosen = tf.argmax(scores, 1)
                picked = tf.one_hot(chosen, places)
                loss -= tf.reduce_mean(tf.reduce_sum(picked * tf.nn.log_softmax(scores), 1))
                seen += picked
                now = tf.gather(embedded, chosen, batch_dims=1)
        for one, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            one.assign_sub(0.1 * gradient)
        return loss

    initial = [one.numpy() for one in weights]
    plain = measured(tf.function(step), x)
    for one, value in zip(weights, initial, strict=True):
        one.assign(value)
    small = tf_lms.function(step, gpu_memory=int(0.7 * plain["peak"]), memory_ratio=1.0, strict=True)
    lms = measured(small, x)
    return {"plain": plain, "lms": lms, "is_tight": small.report.is_tight, "after": small.report.peak_after, **told(small)}


STEPS = (carried, short, branches, stacked, written, dropped, given, parts, ahead, attended)

if __name__ == "__main__":
    print(json.dumps({step.__name__: step for step in STEPS}[sys.argv[1]]()))
