"""Keras models of many kinds, small, for `keras_zoo.py`: each function returns what is trained, and says in its first line what is special."""

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L
from keras import ops

CLASSES = 10
LOOPS = 0.8
MODELS = {}

random = np.random.default_rng(3)
class_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@dataclasses.dataclass
class Training:
    """A model, the arrays that it is trained with, and how."""

    model: Any
    data: Any
    batch: int = 8
    optimizer: Any = "adam"
    loss: Any = None
    compiled: dict = dataclasses.field(default_factory=dict)
    #: The part of the memory that a plan may use. How iterations of loops overlap is not predicted.
    memory_ratio: float = 1.0


def zoo(make):
    """Notes a model under the name of its function."""
    MODELS[make.__name__] = make
    return make


def floats(*shape):
    return random.random(shape, dtype="float32")


def numbers(end, *shape):
    return random.integers(0, end, shape).astype("int32")


def classified(model, shape, count=32, **options):
    """Learns to say of which of ten classes something is."""
    return Training(model, (floats(count, *shape), numbers(CLASSES, count)), loss=class_loss, **options)


def convolutions(x, widths, size=3, **options):
    for width in widths:
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(width, size, padding="same", **options)(x)))
    return x


def residual_net(width=16):
    """Three blocks, for what is not about the net."""
    images = keras.Input((32, 32, 3))
    x = convolutions(images, [width])
    for _ in range(3):
        x = L.Add()([x, convolutions(x, [width, width])])
    return keras.Model(images, L.Dense(CLASSES)(L.GlobalAveragePooling2D()(x)))


def attended(x, context=None, width=64, **options):
    """A layer of a transformer."""
    attention = L.MultiHeadAttention(4, width // 4, dropout=0.1, seed=3)
    x = L.LayerNormalization()(x + attention(x, x if context is None else context, **options))
    return L.LayerNormalization()(x + L.Dense(width)(L.Dense(4 * width, activation="gelu")(x)))


def application(name, size, count=16, batch=8):
    make = getattr(keras.applications, name)
    model = make(weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None)
    return classified(model, (size, size, 3), count, batch=batch, optimizer="sgd")


@zoo
def xception():
    """`keras.applications`, separable convolutions"""
    return application("Xception", 96, count=12, batch=4)


@zoo
def inception():
    """`keras.applications`, many branches"""
    return application("InceptionV3", 96)


@zoo
def nasnet():
    """`keras.applications`, equal ops"""
    return application("NASNetMobile", 96)


@zoo
def mobilenet_v3():
    """`keras.applications`, hard swish, squeeze and excitation"""
    return application("MobileNetV3Small", 96, count=24)


@zoo
def fine_tuning():
    """only the last twenty layers are trained"""
    body = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(96, 96, 3))
    body.trainable = False
    for layer in body.layers[-20:]:
        layer.trainable = True
    model = keras.Model(body.input, L.Dense(CLASSES)(L.GlobalAveragePooling2D()(body.output)))
    return classified(model, (96, 96, 3), 24)


@zoo
def unet():
    """transposed by interpolation, Dice loss, FTRL"""

    def dice(truth, predicted):
        predicted = ops.sigmoid(predicted)
        return 1 - (2 * ops.sum(truth * predicted) + 1) / (ops.sum(truth) + ops.sum(predicted) + 1)

    images = keras.Input((64, 64, 3))
    x, kept = images, []
    for width in (16, 32, 64):
        x = convolutions(x, [width], use_bias=False)
        kept.append(x)
        x = L.MaxPooling2D()(x)
    for width in (64, 32, 16):
        x = L.Concatenate()([L.UpSampling2D(interpolation="bilinear")(x), kept.pop()])
        x = L.Dropout(0.1, seed=width)(L.Conv2D(width, 3, padding="same")(x))
    data = floats(32, 64, 64, 3), numbers(2, 32, 64, 64, 1).astype("float32")
    return Training(keras.Model(images, L.Conv2D(1, 1)(x)), data, optimizer="ftrl", loss=dice)


@zoo
def wavenet():
    """gated dilated convolutions, equal paddings, Lion"""
    signal = keras.Input((128, 8))
    x, skips = L.Conv1D(32, 1)(signal), []
    for rate in (1, 2, 4, 8) * 2:
        ways = [L.Conv1D(32, 2, padding="causal", dilation_rate=rate, activation=gate)(x) for gate in ("tanh", "sigmoid")]
        gated = L.Multiply()(ways)
        skips.append(L.Conv1D(32, 1)(gated))
        x = L.Add()([x, L.Conv1D(32, 1)(gated)])
    model = keras.Model(signal, L.Conv1D(CLASSES, 1)(L.ReLU()(L.Add()(skips))))
    return Training(model, (floats(64, 128, 8), numbers(CLASSES, 64, 128)), 16, "lion", class_loss)


@zoo
def point_net():
    """learned transforms of points"""

    def transformed(x, width):
        seen = L.GlobalMaxPooling1D()(L.BatchNormalization()(L.Conv1D(32, 1, activation="relu")(x)))
        identity = keras.initializers.Constant(np.eye(width).ravel())
        matrix = L.Dense(width * width, kernel_initializer="zeros", bias_initializer=identity)(seen)
        return L.Dot((2, 1))([x, L.Reshape((width, width))(matrix)])

    points = keras.Input((256, 3))
    x = transformed(L.Conv1D(32, 1, activation="relu")(transformed(points, 3)), 32)
    x = L.BatchNormalization()(L.Conv1D(64, 1, activation="relu")(x))
    return classified(keras.Model(points, L.Dense(CLASSES)(L.GlobalMaxPooling1D()(x))), (256, 3))


@zoo
def normalized():
    """spectral normalization, noise, spatial dropout, Nadam"""
    images = keras.Input((32, 32, 3))
    x = L.PReLU(shared_axes=[1, 2])(L.SpectralNormalization(L.Conv2D(32, 3, padding="same"))(images))
    x = L.ELU()(L.SeparableConv2D(48, 3, padding="same")(x))
    x = L.LayerNormalization()(L.DepthwiseConv2D(3)(x))
    x = L.GaussianNoise(0.1, seed=5)(L.SpatialDropout2D(0.2, seed=3)(x))
    return classified(keras.Model(images, L.Dense(CLASSES)(L.GlobalMaxPooling2D()(x))), (32, 32, 3), optimizer="nadam")


@zoo
def augmented():
    """images are turned, zoomed and mirrored on the GPU"""
    images = keras.Input((48, 48, 3))
    x = L.RandomRotation(0.1, seed=2)(L.RandomFlip(seed=1)(images))
    x = L.RandomContrast(0.2, seed=4)(L.RandomZoom(0.1, seed=3)(x))
    for width in (16, 32):
        x = L.MaxPooling2D()(L.Conv2D(width, 3, activation="relu", padding="same")(x))
    return classified(keras.Model(images, L.Dense(CLASSES)(L.Flatten()(x))), (48, 48, 3))


@zoo
def several_outputs():
    """two inputs, two weighted losses, a partial last batch"""
    images, facts = keras.Input((32, 32, 3)), keras.Input((10,))
    x = L.Conv2D(32, 3, activation="relu")(L.Conv2D(32, 3, activation="relu")(images))
    seen = L.Concatenate()([L.GlobalAveragePooling2D()(x), L.Dense(16, activation="gelu")(facts)])
    outputs = {"kind": L.Dense(5, name="kind")(seen), "mask": L.Conv2DTranspose(1, 5, name="mask")(x)}
    data = (floats(36, 32, 32, 3), floats(36, 10)), {"kind": numbers(5, 36), "mask": floats(36, 32, 32, 1)}
    losses = {"kind": class_loss, "mask": "huber"}
    return Training(keras.Model([images, facts], outputs), data, loss=losses, compiled={"loss_weights": {"kind": 1.0, "mask": 0.5}})


@zoo
def metrics():
    """pixels are told apart, with six metrics"""
    images = keras.Input((32, 32, 3))
    x = L.Conv2D(32, 3, padding="same", activation="relu")(L.Conv2D(32, 3, padding="same", activation="relu")(images))
    told = ["accuracy", keras.metrics.AUC(), keras.metrics.Precision(), keras.metrics.Recall(), keras.metrics.BinaryIoU()]
    data = floats(32, 32, 32, 3), numbers(2, 32, 32, 32, 1)
    model = keras.Model(images, L.Conv2D(1, 1, activation="sigmoid")(x))
    return Training(model, data, loss="binary_crossentropy", compiled={"metrics": told})


@zoo
def mixed_precision():
    """float16 with a scaled loss, AdamW"""
    keras.mixed_precision.set_global_policy("mixed_float16")
    images = keras.Input((32, 32, 3))
    x = L.GlobalAveragePooling2D()(convolutions(images, [16, 32, 32]))
    model = keras.Model(images, L.Dense(CLASSES, dtype="float32")(x))
    return classified(model, (32, 32, 3), optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.AdamW(1e-3)))


@zoo
def accumulation():
    """gradients of three batches are added up"""
    return classified(residual_net(), (32, 32, 3), 64, optimizer=keras.optimizers.Adam(1e-3, gradient_accumulation_steps=3))


@zoo
def averaged_weights():
    """moving averages of weights, decay, a clipped norm"""
    options = {"use_ema": True, "ema_overwrite_frequency": 3, "weight_decay": 1e-3, "global_clipnorm": 1.0}
    return classified(residual_net(), (32, 32, 3), 64, optimizer=keras.optimizers.SGD(1e-2, **options))


@zoo
def schedule():
    """a learning rate that warms up and falls, Nesterov's momentum"""
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 100, warmup_target=2e-2, warmup_steps=3)
    return classified(residual_net(), (32, 32, 3), 64, optimizer=keras.optimizers.SGD(rate, momentum=0.9, nesterov=True))


class Own(keras.Model):
    """A model with a `train_step` of its own."""

    def __init__(self, parts, run):
        super().__init__()
        self.parts, self.run = parts, run

    def call(self, x, training=False):
        return self.parts[0](x, training=training)

    def train_step(self, data):
        return {"loss": self.run(self, data)}


def learn(model, optimizer, loss_of):
    """Has a model learn by a loss that is a function of nothing."""
    with tf.GradientTape() as tape:
        loss = loss_of()
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
    return loss


@zoo
def distillation():
    """a student beside its teacher, in a `train_step` of one's own"""
    teacher, student = residual_net(32), residual_net()
    teacher.trainable = False

    def run(model, data):
        images, labels = data
        taught = ops.softmax(teacher(images, training=False) / 3.0)

        def loss():
            told = student(images, training=True)
            return class_loss(labels, told) + 0.1 * ops.mean(keras.losses.kl_divergence(taught, ops.softmax(told / 3.0)))

        return learn(student, model.optimizer, loss)

    data = floats(32, 32, 32, 3), numbers(CLASSES, 32)
    return Training(Own([student, teacher], run), data)


@zoo
def adversarial():
    """images are moved by the sign of their own gradient"""
    net = residual_net()

    def run(model, data):
        images, labels = data
        with tf.GradientTape() as tape:
            tape.watch(images)
            loss = class_loss(labels, net(images, training=True))
        moved = images + 0.01 * tf.sign(tape.gradient(loss, images))
        return learn(net, model.optimizer, lambda: class_loss(labels, net(moved, training=True)))

    return Training(Own([net], run), (floats(32, 32, 32, 3), numbers(CLASSES, 32)))


@zoo
def gan():
    """two models with an optimizer each, in one step"""
    judge = keras.Sequential([keras.Input((28, 28, 1))])
    for width in (32, 64):
        judge.add(L.Conv2D(width, 4, strides=2, padding="same"))
        judge.add(L.LeakyReLU())
    judge.add(L.GlobalMaxPooling2D())
    judge.add(L.Dense(1))
    forger = keras.Sequential([keras.Input((32,)), L.Dense(7 * 7 * 32), L.LeakyReLU(), L.Reshape((7, 7, 32))])
    for _ in range(2):
        forger.add(L.Conv2DTranspose(32, 4, strides=2, padding="same"))
        forger.add(L.BatchNormalization())
        forger.add(L.LeakyReLU())
    forger.add(L.Conv2D(1, 7, padding="same", activation="sigmoid"))
    optimizer, seed = keras.optimizers.Adam(3e-4), keras.random.SeedGenerator(5)
    optimizer.build(forger.trainable_variables)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def run(model, images):
        count = ops.shape(images)[0]
        forged = forger(keras.random.normal((count, 32), seed=seed))
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], 0)
        both = ops.concatenate([forged, images], 0)
        loss = learn(judge, model.optimizer, lambda: entropy(labels, judge(both)))
        noise = keras.random.normal((count, 32), seed=seed)
        return loss + learn(forger, optimizer, lambda: entropy(ops.zeros((count, 1)), judge(forger(noise))))

    return Training(Own([judge, forger], run), floats(64, 28, 28, 1), 16)


@zoo
def triplets():
    """one net three times, group and unit normalization"""
    layers = [L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Conv2D(64, 3, activation="relu"), L.GroupNormalization(8)]
    net = keras.Sequential([keras.Input((32, 32, 3)), *layers, L.GlobalAveragePooling2D(), L.Dense(32), L.UnitNormalization()])
    images = [keras.Input((32, 32, 3)) for _ in range(3)]
    anchor, near, far = (net(image) for image in images)
    distance = ops.sum(ops.square(anchor - near), -1) - ops.sum(ops.square(anchor - far), -1)
    data = tuple(floats(32, 32, 32, 3) for _ in images), np.zeros(32, "float32")
    return Training(keras.Model(images, distance), data, loss=lambda _, distance: ops.mean(ops.relu(distance + 0.5)))


@zoo
def translator():
    """a transformer with encoder and decoder, Adafactor"""
    source, target = keras.Input((24,), dtype="int32"), keras.Input((20,), dtype="int32")
    encoded, decoded = L.Embedding(100, 64)(source), L.Embedding(100, 64)(target)
    for _ in range(2):
        encoded = attended(encoded)
    for _ in range(2):
        decoded = attended(attended(decoded, use_causal_mask=True), encoded)
    data = (numbers(100, 64, 24), numbers(100, 64, 20)), numbers(100, 64, 20)
    return Training(keras.Model([source, target], L.Dense(100)(decoded)), data, 16, "adafactor", class_loss)


@zoo
def masked_attention():
    """tokens of padding are masked"""
    tokens = keras.Input((32,), dtype="int32")
    x = L.Embedding(100, 64, mask_zero=True)(tokens)
    for _ in range(3):
        x = attended(x)
    model = keras.Model(tokens, L.Dense(3)(L.GlobalAveragePooling1D()(x)))
    return Training(model, (numbers(100, 64, 32), numbers(3, 64)), 16, loss=class_loss)


class Experts(L.Layer):
    """Each token goes to the two of four experts that it is given to most."""

    def build(self, shape):
        self.gate = self.add_weight(shape=(shape[-1], 4), name="gate")
        self.first = self.add_weight(shape=(4, shape[-1], 64), name="first")
        self.second = self.add_weight(shape=(4, 64, shape[-1]), name="second")

    def call(self, x):
        parts, which = ops.top_k(ops.softmax(x @ self.gate), 2)
        parts = ops.sum(ops.one_hot(which, 4) * parts[..., None], -2)
        inner = ops.relu(ops.einsum("bsd,edh->bseh", x, self.first))
        return x + ops.einsum("bseh,ehd,bse->bsd", inner, self.second, parts)


@zoo
def experts():
    """a mixture of experts, LAMB"""
    tokens = keras.Input((32,), dtype="int32")
    x = L.Embedding(100, 32)(tokens)
    for _ in range(3):
        x = L.LayerNormalization()(Experts()(x))
    return Training(
        keras.Model(tokens, L.Dense(100)(x)), (numbers(100, 64, 32), numbers(100, 64, 32)), 16, keras.optimizers.Lamb(), class_loss
    )


class GraphConvolution(L.Layer):
    """The mean of what comes along the edges of a graph."""

    def __init__(self, width):
        super().__init__()
        self.dense = L.Dense(width, activation="relu")

    def call(self, inputs):
        nodes, senders, receivers = inputs
        ends = [tf.gather(nodes, end, batch_dims=1) for end in (senders, receivers)]
        sent = self.dense(tf.concat(ends, -1))
        batch, count, width = tf.shape(nodes)[0], tf.shape(nodes)[1], sent.shape[-1]
        receivers = tf.reshape(receivers + tf.range(batch)[:, None] * count, (-1,))
        means = tf.math.unsorted_segment_mean(tf.reshape(sent, (-1, width)), receivers, batch * count)
        return tf.reshape(means, (batch, count, width))


@zoo
def graph_net():
    """sums over the edges of graphs, whose number the data decide"""
    nodes, senders, receivers = keras.Input((40, 16)), keras.Input((160,), dtype="int32"), keras.Input((160,), dtype="int32")
    x = GraphConvolution(64)([GraphConvolution(64)([nodes, senders, receivers]), senders, receivers])
    model = keras.Model([nodes, senders, receivers], L.Dense(4)(L.GlobalAveragePooling1D()(x)))
    data = (floats(32, 40, 16), numbers(40, 32, 160), numbers(40, 32, 160)), numbers(4, 32)
    return Training(model, data, loss=class_loss)


@zoo
def conv_lstm():
    """loops over images"""
    frames = keras.Input((6, 16, 16, 1))
    x = L.BatchNormalization()(L.ConvLSTM2D(16, 3, padding="same", return_sequences=True)(frames))
    x = L.ConvLSTM2D(16, 3, padding="same")(x)
    data = floats(32, 6, 16, 16, 1), floats(32, 16, 16, 1)
    return Training(keras.Model(frames, L.Conv2D(1, 3, padding="same")(x)), data, loss="mse", memory_ratio=LOOPS)


@zoo
def masked_gru():
    """loops in both directions over masked tokens"""
    tokens = keras.Input((20,), dtype="int32")
    x = L.Bidirectional(L.GRU(48, return_sequences=True, use_cudnn=False))(L.Embedding(200, 32, mask_zero=True)(tokens))
    model = keras.Model(tokens, L.Dense(5)(L.GRU(48, use_cudnn=False)(x)))
    return Training(model, (numbers(200, 64, 20), numbers(5, 64)), 16, loss=class_loss, memory_ratio=LOOPS)


@zoo
def speech():
    """`tf.nn.ctc_loss` behind an LSTM in both directions"""
    sound = keras.Input((48, 32))
    x = L.Conv1D(64, 3, padding="same", activation="relu")(sound)
    x = L.Bidirectional(L.LSTM(32, return_sequences=True, use_cudnn=False))(x)
    net = keras.Model(sound, L.Dense(12)(x))

    def run(model, data):
        frames, texts = data

        def loss():
            told = net(frames, training=True)
            lengths = tf.fill([tf.shape(told)[0]], 8), tf.fill([tf.shape(told)[0]], 48)
            return tf.reduce_mean(tf.nn.ctc_loss(texts, told, *lengths, logits_time_major=False, blank_index=0))

        return learn(net, model.optimizer, loss)

    return Training(Own([net], run), (floats(32, 48, 32), 1 + numbers(11, 32, 8)), memory_ratio=LOOPS)
