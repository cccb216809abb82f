"""What is trained in tests: each case plain, and with large model support."""

import hashlib
import pathlib

import keras
import models
import numpy as np
import soft
import tensorflow as tf

import tf_lms

#: The software GPU where what is copied is small.
SMALL_COPIES = str(pathlib.Path(__file__).with_name("soft_small.json"))


class Counting:
    """Counts what the software GPU does in each batch, for a callback of Keras 3 or 2."""

    def __init__(self):
        super().__init__()
        self.batches, self.losses = [], []

    def on_train_batch_begin(self, batch, logs=None):
        soft.reset()
        self.before = counted()

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(since(self.before))
        self.losses.append(float(logs["loss"]))


class Counted(Counting, keras.callbacks.Callback):
    pass


def counted():
    return [soft.counters(gpu) for gpu in range(len(tf.config.list_logical_devices("GPU")))]


def since(before):
    after = counted()
    return [{"peak": b["peak"], "in": b["in"] - a["in"], "out": b["out"] - a["out"]} for a, b in zip(before, after, strict=True)]


def digests(variables):
    return [[variable.name, hashlib.sha256(np.asarray(variable).tobytes()).hexdigest()[:16]] for variable in variables]


def all_variables(model):
    """The model's, its optimizer's and its metrics'."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    return digests([*model.variables, *model.optimizer.variables, *metrics])


def dataset(arrays, batch, partial=False):
    """Batches in host memory, where a program with much data has them."""
    with tf.device("/CPU:0"):
        return tf.data.Dataset.from_tensor_slices(arrays).batch(batch, drop_remainder=not partial)


def fit(model, data, budget, epochs=1, memory_ratio=1.0, **options):
    counting = Counted()
    callbacks = [counting]
    if budget:
        callbacks.insert(0, tf_lms.LMS(gpu_memory=budget, memory_ratio=memory_ratio, strict=True, **options))
    history = model.fit(data, epochs=epochs, verbose=0, shuffle=False, callbacks=callbacks)
    report = callbacks[0].report if budget else None
    return {
        "losses": counting.losses,
        "history": history.history,
        "variables": all_variables(model),
        "batches": counting.batches,
        "report": told(report),
    }


def told(report):
    if report is None:
        return None
    devices = report.devices
    return {
        "verdict": report.verdict,
        "changed": report.changed,
        "is_tight": report.is_tight,
        "devices": devices,
        "text": str(report),
        "original": report.original,
    }


def cnn(budget):
    model = models.cnn()
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), models.crossentropy(), metrics=["accuracy"])
    return fit(model, dataset(models.images(64)[:2], 8), budget)


def arrays(budget):
    """Arrays that do not divide evenly, which Keras keeps on the GPU, and whose batches are traced with an open size."""
    model = models.cnn()
    model.compile(keras.optimizers.SGD(1e-2), models.crossentropy())
    x, y, _ = models.images(28)
    counting = Counted()
    callbacks = [tf_lms.LMS(gpu_memory=budget, memory_ratio=1.0, strict=True)] if budget else []
    model.fit(x, y, batch_size=8, verbose=0, shuffle=False, callbacks=[*callbacks, counting])
    report = callbacks[0].report if budget else None
    return {"losses": counting.losses, "variables": all_variables(model), "batches": counting.batches, "report": told(report)}


def partial(budget):
    """A partial last batch, weights of examples, and metrics with them."""
    model = models.cnn()
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="weighted")]
    model.compile(keras.optimizers.Adam(1e-3), models.crossentropy(), metrics=["accuracy"], weighted_metrics=metrics)
    return fit(model, dataset(models.images(36), 8, partial=True), budget, epochs=2)


def several_steps(budget):
    """Four steps in a call, in float16, with a scaled loss."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = models.cnn()
        model.compile(keras.optimizers.Adam(1e-3), models.crossentropy(), metrics=["accuracy"], steps_per_execution=4)
        return fit(model, dataset(models.images(64)[:2], 8), budget)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def custom(budget):
    """A train_step of one's own, with a model in a model, and XLA asked for."""

    class Own(keras.Model):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True)) + 1e-4 * tf.reduce_sum(
                    tf.abs(self.trainable_variables[0])
                )
            gradients = tape.gradient(loss, self.trainable_variables)
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    inner = models.nested()
    model = Own(inner.inputs, inner.outputs)
    # XLA changes numbers, and the software GPU has none: only the rewritten step may be asked to be compiled, which it is not.
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), models.crossentropy(), jit_compile="auto" if budget else False)
    return fit(model, dataset(models.images(32)[:2], 8), budget)


def on_batch(budget):
    """train_on_batch with batches of several sizes."""
    model = models.cnn()
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), models.crossentropy(), metrics=["accuracy"])
    if budget:
        tf_lms.apply(model, gpu_memory=budget, memory_ratio=1.0, strict=True)
    losses, batches = [], []
    x, y, weights = models.images(32)
    for first, last in ((0, 8), (8, 12), (12, 22), (22, 32)):
        soft.reset()
        before = counted()
        losses += [float(v) for v in model.train_on_batch(x[first:last], y[first:last], sample_weight=weights[first:last])]
        batches.append(since(before))
    from tf_lms import keras_model

    return {"losses": losses, "variables": all_variables(model), "batches": batches, "report": told(keras_model.report(model))}


def function(budget, recompute=False):
    """A loop of one's own, with a Python argument, and a second batch size."""
    module = models.Transformer(recompute=recompute)
    step = tf_lms.function(module.step, gpu_memory=budget, memory_ratio=1.0, strict=True) if budget else tf.function(module.step)
    random = np.random.default_rng(3)
    losses, batches = [], []
    for number in range(6):
        tokens = tf.constant(random.integers(0, 100, (8 if number < 4 else 6, 64)).astype("int32"))
        soft.reset()
        before = counted()
        losses.append(float(step(tokens, is_scaled=number == 3)["loss"]))
        batches.append(since(before))
    variables = digests([*module.trainable_variables, *module.optimizer.variables])
    report = step.reports[0] if budget else None
    traces = len(step.reports) if budget else None
    return {"losses": losses, "variables": variables, "batches": batches, "report": told(report), "traces": traces}


def recomputed(budget):
    """The same with tf.recompute_grad in it."""
    return function(budget, recompute=True)


def gradients(budget):
    """A loop of one's own with the gradients of version 1, of which some are computed for nobody."""
    module = models.Transformer(dropout=0.1)
    step = module.step_of_version_1
    step = tf_lms.function(step, gpu_memory=budget, memory_ratio=1.0, strict=True) if budget else tf.function(step)
    random = np.random.default_rng(3)
    losses, batches = [], []
    for _ in range(4):
        tokens = tf.constant(random.integers(0, 100, (8, 64)).astype("int32"))
        soft.reset()
        before = counted()
        losses.append(float(step(tokens)["loss"]))
        batches.append(since(before))
    variables = digests([*module.trainable_variables, *module.optimizer.variables])
    return {"losses": losses, "variables": variables, "batches": batches, "report": told(step.report if budget else None)}


def inner_training(budget):
    """A step that trains for three tasks in it, and learns where to begin: gradients of gradients, of which many are added up."""
    shapes = [(32, 128), (128, 128), (128, 1)]
    weights = [tf.Variable(np.random.default_rng(number).normal(size=shape).astype("float32") * 0.1) for number, shape in enumerate(shapes)]

    def loss_of(weights, x, y):
        for one in weights[:-1]:
            x = tf.nn.relu(x @ one)
        return tf.reduce_mean((x @ weights[-1] - y) ** 2)

    def adapted(x, y):
        now = [tf.identity(one) for one in weights]
        for _ in range(3):
            with tf.GradientTape() as tape:
                tape.watch(now)
                loss = loss_of(now, x, y)
            now = [one - 0.01 * gradient for one, gradient in zip(now, tape.gradient(loss, now), strict=True)]
        return now

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.add_n([loss_of(adapted(x[task, 0], y[task, 0]), x[task, 1], y[task, 1]) for task in range(3)])
        for one, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            one.assign_sub(0.01 * gradient)
        return loss

    step = tf_lms.function(step, gpu_memory=budget, memory_ratio=1.0, strict=True) if budget else tf.function(step)
    losses, batches = [], []
    for number in range(4):
        random = np.random.default_rng(number)
        x, y = (tf.constant(random.normal(size=(3, 2, 256, size)).astype("float32")) for size in (32, 1))
        soft.reset()
        before = counted()
        losses.append(float(step(x, y)))
        batches.append(since(before))
    return {"losses": losses, "variables": digests(weights), "batches": batches, "report": told(step.report if budget else None)}


def functions(budget):
    """A step that calls a model which is a tf.function itself, so that activations cross functions."""
    model = models.cnn()
    optimizer = keras.optimizers.SGD(1e-2, momentum=0.9)
    optimizer.build(model.trainable_variables)
    forward = tf.function(lambda x: model(x, training=True))

    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=forward(images)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    step = tf_lms.function(step, gpu_memory=budget, memory_ratio=1.0, strict=True) if budget else tf.function(step)
    losses, batches = [], []
    for number in range(8):
        x, y, _ = models.images(8, seed=number)
        x, y = tf.constant(x), tf.constant(y)
        soft.reset()
        before = counted()
        losses.append(float(step(x, y)))
        batches.append(since(before))
    variables = digests([*model.variables, *optimizer.variables])
    return {"losses": losses, "variables": variables, "batches": batches, "report": told(step.report if budget else None)}


class Attention(keras.layers.Layer):
    """Attention whose queries, keys and values are parts of one tensor, which TensorFlow takes without a copy."""

    def __init__(self, take_apart, heads=4):
        super().__init__()
        self.take_apart, self.heads = take_apart, heads

    def build(self, shape):
        _, self.length, self.width = shape
        self.in_, self.out = keras.layers.Dense(3 * self.width), keras.layers.Dense(self.width)
        self.in_.build(shape)
        self.out.build(shape)

    def call(self, x):
        size = self.width // self.heads
        parts = tf.transpose(tf.reshape(self.in_(x), [-1, self.length, 3, self.heads, size]), [2, 0, 3, 1, 4])
        query, key, value = self.take_apart(parts)
        weights = tf.nn.softmax(tf.matmul(query * size**-0.5, key, transpose_b=True))
        read = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return x + self.out(tf.reshape(read, [-1, self.length, self.width]))


def attention(budget):
    """Layers over tokens, where a batch is open, and parts of tensors."""
    tokens = keras.Input((64, 32))
    x = tokens
    for take_apart in (tf.unstack, lambda parts: (parts[0], parts[1], parts[2]), tf.unstack):
        x = Attention(take_apart)(x)
        x = x + keras.layers.Dense(32)(keras.layers.Dense(64, activation="relu")(x))
    model = keras.Model(tokens, keras.layers.Dense(5)(keras.layers.GlobalAveragePooling1D()(x)))
    model.compile(keras.optimizers.Adam(1e-3), models.crossentropy())
    random = np.random.default_rng(3)
    data = random.random((72, 64, 32), dtype="float32"), random.integers(0, 5, 72).astype("int32")
    return fit(model, dataset(data, 16, partial=True), budget)


def lstm(budget, partial=False):
    """A model with an LSTM, whose loops and lists are in the step."""
    model = models.recurrent()
    model.compile(keras.optimizers.Adam(1e-3), models.crossentropy(), metrics=["accuracy"])
    random = np.random.default_rng(3)
    count = 72 if partial else 64
    data = random.random((count, 16, 16), dtype="float32"), random.integers(0, 10, count).astype("int32")
    # On a busy machine peaks of loops were up to 7% more than predicted. With the profile of large copies, those of this plan seem to be
    # under way together, and the peak is predicted to be 16% more than it is.
    return fit(model, dataset(data, 16, partial=partial), budget, memory_ratio=0.9, device_profile=SMALL_COPIES)


def lstm_partial(budget):
    """The same with a partial last batch: the trace leaves open how large a batch is."""
    return lstm(budget, partial=True)


def masked_gru(budget):
    """Loops in both directions over masked tokens; what ops ask the shape of is in lists too, where a batch is open."""
    tokens = keras.Input((20,), dtype="int32")
    x = keras.layers.Embedding(200, 32, mask_zero=True)(tokens)
    x = keras.layers.Bidirectional(keras.layers.GRU(48, return_sequences=True, use_cudnn=False))(x)
    model = keras.Model(tokens, keras.layers.Dense(5)(keras.layers.GRU(48, use_cudnn=False)(x)))
    model.compile(keras.optimizers.Adam(1e-3), models.crossentropy())
    random = np.random.default_rng(3)
    data = random.integers(0, 200, (72, 20)).astype("int32"), random.integers(0, 5, 72).astype("int32")
    return fit(model, dataset(data, 16, partial=True), budget, memory_ratio=0.9, device_profile=SMALL_COPIES)


def mirrored(budget):
    """Two replicas, on two GPUs."""
    with tf.distribute.MirroredStrategy().scope():
        model = models.cnn()
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), models.crossentropy())
    return fit(model, dataset(models.images(32)[:2], 8), budget)


def run(case, budget):
    keras.utils.set_random_seed(1)
    return globals()[case](budget)
