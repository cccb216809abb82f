"""Small models, as users write them today, whose activations outweigh their weights."""

import keras
import numpy as np
import tensorflow as tf

L = keras.layers


def residual(x, width, stride):
    """Two convolutions with batch norm, and what goes around them."""
    short = x
    y = L.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(x)
    y = L.ReLU()(L.BatchNormalization()(y))
    y = L.BatchNormalization()(L.Conv2D(width, 3, padding="same", use_bias=False)(y))
    if stride != 1 or short.shape[-1] != width:
        short = L.Conv2D(width, 1, strides=stride, use_bias=False)(short)
    return L.ReLU()(L.Add()([y, short]))


def cnn(size=32, width=16, blocks=2, classes=10):
    """A small ResNet."""
    inputs = keras.Input((size, size, 3))
    x = L.Conv2D(width, 3, padding="same", use_bias=False)(inputs)
    for stage in range(2):
        for block in range(blocks):
            x = residual(x, width * 2**stage, 2 if stage and not block else 1)
    x = L.Dropout(0.2, seed=5)(L.GlobalAveragePooling2D()(x))
    # In float32 whatever the policy is, as Keras says of mixed precision.
    return keras.Model(inputs, L.Dense(classes, dtype="float32")(x), name="cnn")


def nested(size=32):
    """A model with a model in it."""
    inputs = keras.Input((size, size, 16))
    inner = keras.Model(inputs, residual(residual(inputs, 16, 1), 16, 1), name="inner")
    images = keras.Input((size, size, 3))
    x = inner(inner(L.Conv2D(16, 3, padding="same")(images)))
    return keras.Model(images, L.Dense(10)(L.GlobalAveragePooling2D()(x)), name="nested")


def recurrent(steps=16, features=16, width=128, units=24):
    """Layers over each step of a sequence, and an LSTM, whose loops keep lists of tensors."""
    inputs = keras.Input((steps, features))
    x = inputs
    for _ in range(4):
        x = L.Dense(width, activation="gelu")(x)
    x = L.LSTM(units, use_cudnn=False)(x)
    return keras.Model(inputs, L.Dense(10)(x), name="recurrent")


def crossentropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def images(count, size=32, seed=3):
    """Made-up images, labels, and weights of examples."""
    random = np.random.default_rng(seed)
    x = random.random((count, size, size, 3), dtype="float32")
    return x, random.integers(0, 10, count).astype("int32"), random.random(count).astype("float32")


class Block(tf.Module):
    """A transformer's layer."""

    def __init__(self, width, heads, seed):
        super().__init__()
        random = np.random.default_rng(seed)

        def weights(*shape):
            return tf.Variable((random.standard_normal(shape) / np.sqrt(shape[0])).astype("float32"))

        self.width, self.heads = width, heads
        self.qkv, self.out = weights(width, 3 * width), weights(width, width)
        self.up, self.down = weights(width, 4 * width), weights(4 * width, width)

    def __call__(self, x):
        batch, length = x.shape[0], x.shape[1]
        each = self.width // self.heads
        split = lambda t: tf.transpose(tf.reshape(t, [batch, length, self.heads, each]), [0, 2, 1, 3])  # noqa: E731
        q, k, v = tf.split(tf.tensordot(x, self.qkv, 1), 3, -1)
        attention = tf.nn.softmax(tf.matmul(split(q), split(k), transpose_b=True) / np.float32(np.sqrt(each)))
        mixed = tf.reshape(tf.transpose(tf.matmul(attention, split(v)), [0, 2, 1, 3]), [batch, length, self.width])
        x = x + tf.tensordot(mixed, self.out, 1)
        return x + tf.tensordot(tf.nn.gelu(tf.tensordot(x, self.up, 1)), self.down, 1)


class Transformer(tf.Module):
    """A small GPT with its optimizer, and a step of its own."""

    def __init__(self, layers=3, width=64, heads=4, vocabulary=100, *, recompute=False, dropout=None):
        super().__init__()
        self.dropout = dropout
        random = np.random.default_rng(7)
        self.embedding = tf.Variable((random.standard_normal((vocabulary, width)) * 0.1).astype("float32"))
        self.blocks = [Block(width, heads, number) for number in range(layers)]
        self.recompute = recompute
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(list(self.trainable_variables))

    def loss(self, tokens):
        x = tf.gather(self.embedding, tokens)
        for block in self.blocks:
            x = tf.recompute_grad(block)(x) if self.recompute else block(x)
            if self.dropout:
                x = tf.where(tf.random.stateless_uniform(x.shape, [3, 5]) > self.dropout, x / (1.0 - self.dropout), 0.0)
        logits = tf.matmul(x, self.embedding, transpose_b=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.roll(tokens, -1, 1), logits=logits))

    def step(self, tokens, is_scaled=False):
        with tf.GradientTape() as tape:
            loss = self.loss(tokens) * (0.5 if is_scaled else 1.0)
        variables = list(self.trainable_variables)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}

    def step_of_version_1(self, tokens):
        """The same as optimizers of version 1 do it: each gradient of an op waits for all of them, also for those that nobody reads."""
        loss = self.loss(tokens)
        variables = list(self.trainable_variables)
        gradients = tf.compat.v1.gradients(loss, variables, gate_gradients=True)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}
