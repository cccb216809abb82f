"""The odd steps themselves. Each has one thing that a plain network has not: a gradient within a loop, a loop in a branch, a table."""

import sys

BATCH, WIDTH, WORDS, TIMES = 64, 48, 40, 6
STEPS = {}

tf = None  # TensorFlow, once the software GPU is there


def odd(build):
    """Notes a step under the name of what builds it: a function of a `Step` that returns its loss, as a function of `x` and `words`."""
    STEPS[build.__name__] = build
    return build


class Step:
    """What a step is made of."""

    def __init__(self, name):
        import numpy

        self.module = tf.Module()
        self.module.all = []
        self.weights = []
        self.random = numpy.random.default_rng(sum(map(ord, name)))
        self.update = self.momentum
        self.gradients = self.plain_gradients
        self.clip = lambda gradients: gradients

    def state(self, shape, dtype="float32", value=None):
        """A variable that is not trained."""
        value = self.random.standard_normal(shape) * 0.1 if value is None else value
        variable = tf.Variable(tf.cast(tf.broadcast_to(value, shape), dtype), name=f"v{len(self.module.all)}")
        self.module.all.append(variable)
        return variable

    def weight(self, *shape):
        self.weights.append(self.state(shape))
        return self.weights[-1]

    def dense(self, act=None):
        weights = self.weight(WIDTH, WIDTH)
        bias = self.weight(WIDTH)
        act = act or tf.nn.tanh
        return lambda x: act(x @ weights + bias)

    def plain_gradients(self, forward, x, words):
        with tf.GradientTape() as tape:
            loss = forward(x, words)
        return loss, tape.gradient(loss, self.weights, unconnected_gradients="zero")

    def momentum(self, weights, slot, gradient):
        slot.assign(0.9 * slot + tf.convert_to_tensor(gradient))
        weights.assign_sub(0.05 * slot)

    def signature(self, build):
        forward = build(self)
        if getattr(forward, "is_whole", False):
            whole = forward
        else:
            slots = [self.state(weights.shape, value=0.0) for weights in self.weights]

            def whole(x, words):
                loss, gradients = self.gradients(forward, x, words)
                for weights, slot, gradient in zip(self.weights, slots, self.clip(gradients)):
                    self.update(weights, slot, gradient)
                return loss

        x = tf.TensorSpec([BATCH, WIDTH], tf.float32, "x")
        words = tf.TensorSpec([BATCH], tf.int32, "words")
        self.module.step = tf.function(lambda x, words: {"loss": whole(x, words)}, input_signature=[x, words])
        return self.module


def whole_step(run):
    """Of a step that takes gradients and updates by itself."""
    run.is_whole = True
    return run


def mean_square(x):
    return tf.reduce_mean(tf.square(x))


def through(layers):
    """The loss behind all layers."""

    def run(x, _):
        for layer in layers:
            x = layer(x)
        return mean_square(x)

    return run


@odd
def dense(step):
    first, second, third = step.dense(), step.dense(tf.nn.relu), step.dense()
    return lambda x, _: mean_square(third(second(first(x))))


@odd
def convolutions(step):
    kernels = [step.weight(3, 3, 4, 4) for _ in range(2)]

    def run(x, _):
        x = tf.reshape(x, [BATCH, 3, 4, 4])
        for kernel in kernels:
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
        return mean_square(x)

    return run


@odd
def embedding(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()
    return lambda x, words: mean_square(layer(tf.nn.embedding_lookup(table, words) + x))


@odd
def embedding_sparse_update(step):
    table = step.weight(WORDS, WIDTH)
    layer = step.dense()

    def update(weights, slot, gradient):
        if isinstance(gradient, tf.IndexedSlices):
            weights.scatter_sub(tf.IndexedSlices(0.05 * gradient.values, gradient.indices, gradient.dense_shape))
        else:
            step.momentum(weights, slot, gradient)

    step.update = update
    return lambda x, words: mean_square(layer(tf.nn.embedding_lookup(table, words) + x))


def over_time(x):
    """The batch as a sequence of TIMES."""
    return tf.stack([x * (1.0 + 0.1 * time) for time in range(TIMES)])


@odd
def gru_by_hand(step):
    gates, candidate = step.weight(2 * WIDTH, 2 * WIDTH), step.weight(2 * WIDTH, WIDTH)

    def run(x, _):
        sequence = over_time(x)

        def cell(time, state):
            inputs = sequence[time]
            reset, keep = tf.split(tf.sigmoid(tf.concat([inputs, state], 1) @ gates), 2, 1)
            new = tf.tanh(tf.concat([inputs, reset * state], 1) @ candidate)
            return time + 1, keep * state + (1.0 - keep) * new

        return mean_square(tf.while_loop(lambda time, _: time < TIMES, cell, (0, tf.zeros_like(x)))[1])

    return run


@odd
def lstm_by_hand(step):
    kernel = step.weight(2 * WIDTH, 4 * WIDTH)

    def run(x, _):
        inputs = tf.TensorArray(tf.float32, TIMES).unstack(over_time(x))
        outputs = tf.TensorArray(tf.float32, TIMES, element_shape=[BATCH, WIDTH])

        def cell(time, hidden, memory, outputs):
            both = tf.concat([inputs.read(time), hidden], 1) @ kernel
            enter, forget, leave, new = tf.split(both, 4, 1)
            memory = tf.sigmoid(forget) * memory + tf.sigmoid(enter) * tf.tanh(new)
            hidden = tf.sigmoid(leave) * tf.tanh(memory)
            return time + 1, hidden, memory, outputs.write(time, hidden)

        zeros = tf.zeros_like(x)
        last = tf.while_loop(lambda time, *_: time < TIMES, cell, (0, zeros, zeros, outputs))
        return mean_square(last[3].stack())

    return run


@odd
def scan(step):
    layer = step.dense()
    return lambda x, _: mean_square(tf.scan(lambda state, inputs: layer(state + inputs), over_time(x), tf.zeros_like(x)))


@odd
def map_fn(step):
    first, second = step.dense(), step.dense()
    return lambda x, _: mean_square(tf.map_fn(lambda row: second(first(row)), over_time(x)))


@odd
def foldl(step):
    layer = step.dense()
    return lambda x, _: mean_square(tf.foldl(lambda state, inputs: layer(state + inputs), over_time(x), tf.zeros_like(x)))


def repeated(times, body, x):
    return tf.while_loop(lambda i, _: i < times, lambda i, x: (i + 1, body(x)), (0, x))[1]


@odd
def loop(step):
    first, second = step.dense(), step.dense()
    return lambda x, _: mean_square(repeated(TIMES, lambda x: second(first(x)), x))


@odd
def gradient_in_loop(step):
    layers = [step.dense() for _ in range(4)]

    @whole_step
    def run(x, _):
        def body(i, last):
            with tf.GradientTape() as tape:
                made = x + tf.cast(i, tf.float32)
                for layer in layers:
                    made = layer(made)
                loss = mean_square(made)
            for weights, gradient in zip(step.weights, tape.gradient(loss, step.weights)):
                weights.assign_sub(0.05 * gradient)
            return i + 1, loss

        return tf.while_loop(lambda i, _: i < TIMES, body, (0, 0.0))[1]

    return run


@odd
def gradient_in_loop_with_loop(step):
    first, second = step.dense(), step.dense()

    @whole_step
    def run(x, _):
        def body(i, last):
            with tf.GradientTape() as tape:
                loss = mean_square(repeated(3, lambda x: second(first(x)), x + tf.cast(i, tf.float32)))
            for weights, gradient in zip(step.weights, tape.gradient(loss, step.weights)):
                weights.assign_sub(0.05 * gradient)
            return i + 1, loss

        return tf.while_loop(lambda i, _: i < 4, body, (0, 0.0))[1]

    return run


@odd
def inner_optimization(step):
    """The gradient of a loop in which a gradient is taken: weights that are carried around learn, and those that they begin with too."""
    start = step.weight(WIDTH, WIDTH)

    def run(x, _):
        def body(i, weights):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                inner = mean_square(tf.tanh(x @ weights) - x)
            return i + 1, weights - 0.1 * tape.gradient(inner, weights)

        weights = tf.while_loop(lambda i, _: i < 4, body, (0, tf.convert_to_tensor(start)))[1]
        return mean_square(tf.tanh(x @ weights) - x)

    return run


@odd
def gradient_accumulation(step):
    layers = [step.dense() for _ in range(3)]
    parts = 4

    def gradients(forward, x, words):
        micro = tf.reshape(x, [parts, BATCH // parts, WIDTH])
        zeros = [tf.zeros_like(weights) for weights in step.weights]

        def body(i, total, *sums):
            with tf.GradientTape() as tape:
                loss = forward(micro[i], words)
            new = tape.gradient(loss, step.weights)
            return (i + 1, total + loss, *[one + other for one, other in zip(sums, new)])

        _, total, *sums = tf.while_loop(lambda i, *_: i < parts, body, (0, 0.0, *zeros))
        return total / parts, sums

    step.gradients = gradients

    return through(layers)


@odd
def accumulation_in_variables(step):
    """Gradients are summed up in variables, and every other step takes them."""
    layers = [step.dense() for _ in range(3)]
    sums = [step.state(weights.shape, value=0.0) for weights in step.weights]
    count = step.state([], "int64", 0)

    @whole_step
    def run(x, _):
        with tf.GradientTape() as tape:
            made = x
            for layer in layers:
                made = layer(made)
            loss = mean_square(made)
        for total, gradient in zip(sums, tape.gradient(loss, step.weights)):
            total.assign_add(gradient)
        count.assign_add(1)

        def take():
            for weights, total in zip(step.weights, sums):
                weights.assign_sub(0.05 * total)
                total.assign(tf.zeros_like(total))
            return 0

        tf.cond(tf.equal(count % 2, 0), take, lambda: 0)
        return loss

    return run


@odd
def loop_in_loop(step):
    inner, outer = step.dense(), step.dense()
    return lambda x, _: mean_square(repeated(4, lambda x: outer(repeated(3, inner, x)), x))


@odd
def loop_in_loop_in_loop(step):
    layer, outer = step.dense(), step.dense()

    def run(x, _):
        return mean_square(repeated(2, lambda x: outer(repeated(3, lambda x: repeated(2, layer, x), x)), x))

    return run


@odd
def scan_in_loop(step):
    layer = step.dense()

    def run(x, _):
        def body(x):
            return tf.scan(lambda state, inputs: layer(state + inputs), over_time(x), tf.zeros_like(x))[-1]

        return mean_square(repeated(3, body, x))

    return run


@odd
def cond_in_loop(step):
    first, second = step.dense(), step.dense()

    def run(x, _):
        def body(i, x):
            return i + 1, tf.cond(i % 2 < 1, lambda: first(x), lambda: second(x))

        return mean_square(tf.while_loop(lambda i, _: i < TIMES, body, (0, x))[1])

    return run


@odd
def uneven_cond_in_loop(step):
    """One branch keeps more than the other: it may be the one that is always taken."""
    first, second = step.dense(), step.dense(tf.nn.softplus)

    def run(x, _):
        def body(i, x):
            return i + 1, tf.cond(i % 2 < 1, lambda: first(x), lambda: second(second(x)))

        return mean_square(tf.while_loop(lambda i, _: i < TIMES, body, (0, x))[1])

    return run


@odd
def cond_with_state_in_loop(step):
    first, second = step.dense(), step.dense()
    count = step.state([], value=0.0)

    def run(x, _):
        def body(i, x):
            def yes():
                count.assign_add(1.0)
                return first(x)

            return i + 1, second(tf.cond(tf.reduce_mean(x) < 0.0, yes, lambda: x))

        return mean_square(tf.while_loop(lambda i, _: i < TIMES, body, (0, x))[1])

    return run


def every_other(step):
    """Whether this is every other step."""
    count = step.state([], value=0.0)
    return lambda: tf.equal(count.assign_add(1.0) % 2.0, 1.0)


@odd
def loop_in_cond(step):
    layer, other, now = step.dense(), step.dense(), every_other(step)

    def run(x, _):
        x = other(x)
        return mean_square(tf.cond(now(), lambda: repeated(TIMES, layer, x), lambda: x * 2.0))

    return run


@odd
def loops_in_branches(step):
    first, second, now = step.dense(), step.dense(), every_other(step)

    def run(x, _):
        return mean_square(tf.cond(now(), lambda: repeated(TIMES, first, x), lambda: repeated(3, second, x)))

    return run


@odd
def cond_grad(step):
    layers, now = [step.dense() for _ in range(4)], every_other(step)

    def run(x, _):
        x = layers[0](x)
        x = tf.cond(now(), lambda: layers[2](layers[1](x)), lambda: tf.nn.relu(x) * 0.5)
        return mean_square(layers[3](x))

    return run


@odd
def cond_in_cond(step):
    layers, now, then = [step.dense() for _ in range(4)], every_other(step), every_other(step)

    def run(x, _):
        def yes():
            return tf.cond(then(), lambda: layers[1](layers[0](x)), lambda: layers[2](x))

        return mean_square(tf.cond(now(), yes, lambda: layers[3](x)))

    return run


@odd
def switch_case(step):
    layers = [step.dense() for _ in range(3)]
    count = step.state([], "int32", 0)

    def run(x, _):
        branches = [lambda: layers[0](x), lambda: layers[1](layers[0](x)), lambda: layers[2](x) + x]
        return mean_square(tf.switch_case(count.assign_add(1) % 3, branches))

    return run


@odd
def tensor_array(step):
    layer = step.dense()

    def run(x, _):
        array = tf.TensorArray(tf.float32, TIMES, element_shape=[BATCH, WIDTH], clear_after_read=False)
        for time in range(TIMES):
            x = layer(x)
            array = array.write(time, x)
        total = array.read(TIMES - 1)
        for time in range(TIMES - 1):
            total = total + array.read(time) * 0.5
        return mean_square(total)

    return run


@odd
def clip_by_global_norm(step):
    layers = [step.dense() for _ in range(3)]
    step.clip = lambda gradients: tf.clip_by_global_norm(gradients, 0.01)[0]

    return through(layers)


@odd
def custom_gradient(step):
    layer = step.dense()

    @tf.custom_gradient
    def clipped(x):
        made = tf.exp(x)
        return made, lambda upstream: tf.clip_by_value(upstream * made, -0.1, 0.1)

    return lambda x, _: mean_square(layer(clipped(layer(x))))


@odd
def recompute_grad(step):
    layers = [step.dense() for _ in range(4)]
    block = tf.recompute_grad(lambda x: layers[2](layers[1](x)))
    return lambda x, _: mean_square(layers[3](block(layers[0](x))))


@odd
def stop_gradient(step):
    first, second = step.dense(), step.dense()
    return lambda x, _: mean_square(second(x) - tf.stop_gradient(first(second(x))))


@odd
def lookup_table(step):
    keys = tf.constant([f"word{word}" for word in range(10)])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, tf.range(10, dtype=tf.int64)), 10)
    step.module.table = table
    vectors, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        found = table.lookup(tf.strings.join(["word", tf.strings.as_string(words)]))
        return mean_square(layer(tf.nn.embedding_lookup(vectors, found) + x))

    return run


@odd
def optionals(step):
    layer = step.dense()

    def run(x, _):
        made = tf.experimental.Optional.from_value(layer(x))
        return mean_square(layer(made.get_value()))

    return run


@odd
def ragged(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        rows = tf.RaggedTensor.from_row_lengths(words, tf.ones([BATCH], tf.int32))
        means = tf.reduce_mean(tf.nn.embedding_lookup(table, rows), axis=1)
        return mean_square(layer(means + x))

    return run


def sparse_words(words, dtype=None):
    """Two words a row, or none where the word is zero."""
    both = tf.stack([words, (words * 3) % WORDS], 1)
    sparse = tf.sparse.from_dense(both)
    values = tf.cast(sparse.values, tf.int64)
    return tf.SparseTensor(sparse.indices, values, sparse.dense_shape)


@odd
def embedding_lookup_sparse(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        words = sparse_words(tf.maximum(words, 1))
        return mean_square(layer(tf.nn.embedding_lookup_sparse(table, words, None, combiner="mean") + x))

    return run


@odd
def safe_embedding(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        return mean_square(layer(tf.nn.safe_embedding_lookup_sparse(table, sparse_words(words)) + x))

    return run


@odd
def safe_embedding_weighted(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        words = sparse_words(words)
        weights = tf.SparseTensor(words.indices, tf.cast(words.values, tf.float32) * 0.1 + 0.1, words.dense_shape)
        made = tf.nn.safe_embedding_lookup_sparse(table, words, weights, combiner="sum")
        return mean_square(layer(made + x))

    return run


@odd
def segment_sums(step):
    layer = step.dense()

    def run(x, words):
        places = tf.where(words >= 0)[:, 0]
        sums = tf.math.segment_sum(layer(x), places)
        others = tf.math.unsorted_segment_sum(layer(x), words, WORDS)
        return mean_square(sums) + mean_square(others)

    return run


@odd
def unique(step):
    table, layer = step.weight(WORDS, WIDTH), step.dense()

    def run(x, words):
        # As many as there can be, which is what is predicted.
        once, places = tf.unique(words + 10 * tf.range(BATCH))
        return mean_square(tf.gather(layer(tf.gather(table, once % WORDS)), places) + x)

    return run


@odd
def boolean_mask(step):
    first, second = step.dense(), step.dense()
    return lambda x, words: mean_square(second(tf.boolean_mask(first(x), words >= 0)))


@odd
def keep_dims(step):
    first, second = step.dense(), step.dense()

    def run(x, words):
        kept = tf.boolean_mask(first(x), words >= 0)
        return mean_square(second(kept - tf.reduce_mean(kept, axis=-1, keepdims=True)))

    return run


@odd
def loss_scaling(step):
    """Half precision, and no update where a gradient is not finite."""
    layers = [step.weight(WIDTH, WIDTH) for _ in range(3)]
    scale = step.state([], value=1024.0)

    @whole_step
    def run(x, _):
        with tf.GradientTape() as tape:
            made = tf.cast(x, tf.float16)
            for weights in layers:
                made = tf.tanh(made @ tf.cast(weights, tf.float16))
            loss = tf.reduce_mean(tf.square(tf.cast(made, tf.float32)))
            scaled = loss * scale
        gradients = [gradient / scale for gradient in tape.gradient(scaled, layers)]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def update():
            for weights, gradient in zip(layers, gradients):
                weights.assign_sub(0.05 * gradient)
            scale.assign(scale * 1.5)
            return 0

        def skip():
            scale.assign(scale * 0.5)
            return 0

        tf.cond(finite, update, skip)
        return loss

    return run


@odd
def batch_norm(step):
    first, second = step.dense(), step.dense()
    moving = [step.state([WIDTH], value=value) for value in (0.0, 1.0)]
    scale, offset = step.weight(WIDTH), step.weight(WIDTH)

    def run(x, _):
        x = first(x)
        mean, variance = tf.nn.moments(x, 0)
        for kept, new in zip(moving, (mean, variance)):
            kept.assign(0.9 * kept + 0.1 * new)
        return mean_square(second(tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)))

    return run


@odd
def dropout(step):
    layers = [step.dense() for _ in range(3)]
    count = step.state([], "int32", 0)

    def run(x, _):
        seed = count.assign_add(1)
        for layer in layers:
            x = tf.nn.experimental.stateless_dropout(layer(x), 0.3, seed=tf.stack([seed, 7]))
        return mean_square(x)

    return run


@odd
def changed_before_last_reader(step):
    """TensorFlow copies what it changes while somebody is still to read what it was."""
    weights = step.state([16 * WIDTH, WIDTH])

    @whole_step
    def run(x, _):
        before = weights.read_value()
        loss = mean_square(before @ x[0, :, None])
        changed = weights.assign_sub(0.01 * before)
        with tf.control_dependencies([changed]):
            return loss + mean_square(before @ x[1, :, None])

    return run


@odd
def prints_and_asserts(step):
    layers = [step.dense() for _ in range(3)]

    def run(x, _):
        for layer in layers:
            x = layer(x)
            tf.debugging.assert_all_finite(x, "not finite")
            tf.debugging.assert_less(tf.reduce_max(x), 1e6)
        loss = mean_square(x)
        tf.print("loss", loss, output_stream=sys.stderr)
        return loss

    return run


def of_raw_op(step, slots, apply):
    """Has an op with slots of its own update the weights."""
    layers = [step.dense() for _ in range(3)]
    own = [[step.state(weights.shape, value=value) for value in slots] for weights in step.weights]

    @whole_step
    def run(x, _):
        with tf.GradientTape() as tape:
            made = x
            for layer in layers:
                made = layer(made)
            loss = mean_square(made)
        for weights, of, gradient in zip(step.weights, own, tape.gradient(loss, step.weights)):
            apply(weights.handle, [slot.handle for slot in of], gradient)
        return loss

    return run


@odd
def adam(step):
    def apply(weights, slots, gradient):
        tf.raw_ops.ResourceApplyAdam(
            var=weights, m=slots[0], v=slots[1], beta1_power=0.9, beta2_power=0.999, lr=0.01, beta1=0.9, beta2=0.999,
            epsilon=1e-7, grad=gradient)

    return of_raw_op(step, (0.0, 0.0), apply)


@odd
def adagrad(step):
    def apply(weights, slots, gradient):
        tf.raw_ops.ResourceApplyAdagradV2(var=weights, accum=slots[0], lr=0.01, epsilon=1e-7, grad=gradient)

    return of_raw_op(step, (0.1,), apply)


@odd
def rms_prop(step):
    def apply(weights, slots, gradient):
        tf.raw_ops.ResourceApplyRMSProp(
            var=weights, ms=slots[0], mom=slots[1], lr=0.01, rho=0.9, momentum=0.9, epsilon=1e-7, grad=gradient)

    return of_raw_op(step, (0.1, 0.0), apply)


@odd
def adam_by_hand(step):
    layers = [step.dense() for _ in range(3)]
    seconds = {}

    def update(weights, slot, gradient):
        second = seconds[weights.ref()]
        slot.assign(0.9 * slot + 0.1 * gradient)
        second.assign(0.99 * second + 0.01 * tf.square(gradient))
        weights.assign_sub(0.01 * slot / (tf.sqrt(second) + 1e-6))

    step.update = update
    seconds |= {weights.ref(): step.state(weights.shape, value=0.0) for weights in step.weights}

    return through(layers)


@odd
def gradient_penalty(step):
    first, second = step.dense(), step.dense()

    def run(x, _):
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = mean_square(second(first(x)))
        return made + mean_square(tape.gradient(made, x)) * 100.0

    return run


@odd
def loop_that_data_ends(step):
    layer = step.dense()

    def run(x, _):
        def goes_on(i, x):
            return tf.logical_and(i < TIMES, tf.reduce_max(x) < 1e6)

        return mean_square(tf.while_loop(goes_on, lambda i, x: (i + 1, layer(x)), (0, x))[1])

    return run


@odd
def loop_with_break(step):
    """AutoGraph makes two conditions of that, of which the second is asked only if the first holds."""
    layer = step.dense()

    def run(x, _):
        for _ in tf.range(TIMES):
            x = layer(x)
            if tf.reduce_max(x) > 1e6:
                break
        return mean_square(x)

    return run


@odd
def constants_of_loops(step):
    """What each of three loops computes of constants twice is there twice, but for the first of them."""
    layers = [step.dense() for _ in range(3)]

    def run(x, _):
        for layer in layers:

            def body(i, x, layer=layer):
                y = layer(x)
                below, above = -tf.ones_like(y), -tf.ones_like(y)
                return i + 1, tf.where(y < -0.5, below, y) + tf.where(y > 0.5, y, above)

            x = tf.while_loop(lambda i, _: i < 2, body, [0, x])[1]
        return mean_square(x)

    return run


@odd
def decided_by_shapes(step):
    """AutoGraph makes a branch of what is the same in each step, and the order of a transposition is computed in it."""
    layers = [step.dense() for _ in range(2)]

    def run(x, _):
        parts = tf.reshape(layers[0](x), [4, -1, WIDTH])
        axis = tf.rank(parts) - 2
        if axis != tf.rank(parts) - 1:
            order = tf.roll(tf.range(tf.rank(parts)), tf.rank(parts) - 1 - axis, axis=0)
            parts = tf.tanh(tf.transpose(parts, order))
        else:
            parts = tf.tile(parts, [9, 1, 1])
        return mean_square(layers[1](tf.reshape(parts, [-1, WIDTH])))

    return run


@odd
def array_by_hand(step):
    """Python's own loop fills a `TensorArray`, whose list keeps what is in it."""
    layers = [step.dense() for _ in range(TIMES)]

    def run(x, _):
        array = tf.TensorArray(tf.float32, TIMES)
        for time, layer in enumerate(layers):
            x = layer(x)
            array = array.write(time, x)
        return mean_square(array.stack())

    return run


@odd
def idle_variables(step):
    """Variables that the file has and the step does not touch."""
    layers = [step.dense() for _ in range(2)]
    for _ in range(4):
        step.state([WIDTH, WIDTH])
    return lambda x, _: mean_square(layers[1](layers[0](x)))


@odd
def calls(step):
    layers = [step.dense() for _ in range(3)]
    block = tf.function(lambda x: layers[1](layers[0](x)))
    return lambda x, _: mean_square(layers[2](block(block(x))))
