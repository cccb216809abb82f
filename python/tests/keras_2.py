"""Trains a model of Keras 2 on the software GPU: `keras_2.py CASE MEMORY [BUDGET]`. Prints one line of JSON."""

import json
import sys

import soft

case, memory, budget = [*sys.argv[1:], ""][:3]
tf = soft.load(memory, gpus=2 if case == "replicas" else 1)
import cases  # noqa: E402
import numpy as np  # noqa: E402
import tf_keras as keras  # noqa: E402

import tf_lms  # noqa: E402

L = keras.layers
keras.utils.set_random_seed(1)


class Counted(cases.Counting, keras.callbacks.Callback):
    pass


def convolutions(x, count=4):
    for _ in range(count):
        x = L.Dropout(0.1)(L.ReLU()(L.BatchNormalization()(L.Conv2D(16, 3, padding="same")(x))))
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


def images(**options):
    x = L.Input([32, 32, 3])
    model = keras.Model(x, convolutions(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(options.pop("optimizer", "adam"), loss, metrics=["accuracy"], **options)
    return model


class Own(keras.Model):
    """A step of one's own, with a condition that data decide, of layers that are built when it is traced."""

    def __init__(self):
        super().__init__()
        self.parts = [L.Conv2D(16, 3, padding="same", activation="relu") for _ in range(4)]
        self.last = L.Dense(10)

    def call(self, x, training=None):
        for part in self.parts:
            x = part(x)
        return self.last(tf.reduce_mean(x, [1, 2]))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        is_large = tf.linalg.global_norm(gradients) > 0.5
        gradients = tf.cond(is_large, lambda: tf.clip_by_global_norm(gradients, 0.5)[0], lambda: gradients)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def own():
    model = Own()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def words():
    x = L.Input([24], dtype="int32")
    y = L.Dense(30)(L.RNN(L.LSTMCell(32), return_sequences=True)(L.Embedding(30, 16)(x)))
    model = keras.Model(x, y)
    model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def half():
    keras.mixed_precision.set_global_policy("mixed_float16")
    return images(optimizer=keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=2.0**30))


def replicas():
    with tf.distribute.MirroredStrategy().scope():
        return images(optimizer="sgd")


MODELS = {
    "images": images,
    "several_steps": lambda: images(steps_per_execution=2),
    "old_optimizer": lambda: images(optimizer=keras.optimizers.legacy.Adam()),
    "xla": lambda: images(jit_compile=True),
    "half": half,
    "own": own,
    "words": words,
    "replicas": replicas,
}
model = MODELS[case]()
random = np.random.default_rng(1)
if case == "words":
    data = random.integers(0, 30, [60, 24]).astype("int32"), random.integers(0, 30, [60, 24])
else:
    data = random.random([60, 32, 32, 3], "float32"), random.integers(0, 10, 60)
counting = Counted()
told = {"batches": counting.batches, "losses": counting.losses}
callbacks = [counting]
if budget:
    told["predicted"] = tf_lms.predict(model, budget, data=data, batch_size=16).peak_before
    callbacks.insert(0, tf_lms.LMS(gpu_memory=budget, memory_ratio=1.0, strict=True, device_profile=cases.SMALL_COPIES))
history = model.fit(cases.dataset(data, 16, partial=True), epochs=2, verbose=0, shuffle=False, callbacks=callbacks)
told["history"] = history.history
variables = model.optimizer.variables
told["variables"] = cases.digests([*model.variables, *(variables() if callable(variables) else variables)])
if budget:
    told["report"] = cases.told(callbacks[0].report)
print(json.dumps(told))
