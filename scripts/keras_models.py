"""Keras models that `keras_table.py` trains, in sizes for which the software GPU takes seconds: each with a batch and a loss."""

import keras
import numpy as np

L = keras.layers

#: Whether `keras.remat` is applied by hand: to each transformer layer, each unit of a convolutional net, each LSTM.
by_hand = False


class Remat(L.Layer):
    """Computes a part of a model again for its gradient, as somebody writes it by hand: what RematScope makes of layers fails."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def call(self, x, training=None):
        # Said here: where it is computed again Keras does not know any more whether it trains.
        return keras.remat(lambda x: self.part(x, training=training))(x)


def _part(body, x):
    """A part of a model that may be computed again: `body` takes a tensor and returns one."""
    if not by_hand:
        return body(x)
    inputs = keras.Input(x.shape[1:], dtype=x.dtype)
    return Remat(keras.Model(inputs, body(inputs)))(x)


def _images(batch, size, classes):
    random = np.random.default_rng(0)
    data = random.random((batch, size, size, 3), dtype="float32"), random.integers(0, classes, batch).astype("int32")
    return data, keras.losses.SparseCategoricalCrossentropy()


def _application(name, size, batch):
    def make():
        model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10)
        return model, *_images(batch, size, 10)

    return make


def _convolutions(x, width, dimensions):
    convolution = L.Conv3D if dimensions == 3 else L.Conv2D

    def unit(x):
        return L.ReLU()(L.BatchNormalization()(convolution(width, 3, padding="same", use_bias=False)(x)))

    for _ in range(2):
        x = _part(unit, x)
    return x


def unet3d(size=32, width=8):
    inputs = keras.Input((size, size, size, 1))
    x, kept = inputs, []
    for level in range(3):
        x = _convolutions(x, width * 2**level, 3)
        kept.append(x)
        x = L.MaxPooling3D()(x)
    x = _convolutions(x, width * 8, 3)
    for level in (2, 1, 0):
        x = L.Concatenate()([kept[level], L.UpSampling3D()(x)])
        x = _convolutions(x, width * 2**level, 3)
    model = keras.Model(inputs, L.Conv3D(1, 1, activation="sigmoid")(x))
    random = np.random.default_rng(0)
    shape = (1, size, size, size, 1)
    return model, (random.random(shape, dtype="float32"), random.integers(0, 2, shape).astype("float32")), "binary_crossentropy"


def deeplab(size=128, batch=2, classes=8):
    """An encoder with dilated convolutions at several rates, pooling over the image, and a decoder with a shortcut: DeepLabv3+ in small."""

    def unit(x, width, kernel=3, **options):
        def body(x):
            x = L.Conv2D(width, kernel, padding="same", use_bias=False, **options)(x)
            return L.ReLU()(L.BatchNormalization()(x))

        return _part(body, x)

    inputs = keras.Input((size, size, 3))
    x = unit(inputs, 16, strides=2)
    x = shortcut = unit(unit(x, 32, strides=2), 32)
    for _ in range(3):
        x = L.Add()([x, unit(unit(x, 32), 32)])
    x = unit(x, 64, strides=2)
    pooled = unit(L.GlobalAveragePooling2D(keepdims=True)(x), 32, 1)
    pooled = L.UpSampling2D(size // 8, interpolation="bilinear")(pooled)
    branches = [unit(x, 32, 1), *[unit(x, 32, dilation_rate=rate) for rate in (2, 4, 6)], pooled]
    x = unit(L.Concatenate()(branches), 32, 1)
    x = L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(x), unit(shortcut, 16, 1)])
    x = L.Conv2D(classes, 1)(unit(unit(x, 32), 32))
    x = L.Softmax(dtype="float32")(L.UpSampling2D(4, interpolation="bilinear")(x))
    random = np.random.default_rng(0)
    data = random.random((batch, size, size, 3), dtype="float32"), random.integers(0, classes, (batch, size, size)).astype("int32")
    return keras.Model(inputs, x), data, keras.losses.SparseCategoricalCrossentropy()


class Positions(L.Layer):
    """Adds a learnt vector for each position."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="positions")

    def call(self, x):
        return x + self.table


def _transformer(x, layers, width, heads, causal):
    def layer(x):
        y = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(heads, width // heads, dropout=0.1, seed=1)(y, y, use_causal_mask=causal)])
        y = L.Dense(4 * width, activation="gelu")(L.LayerNormalization()(x))
        return L.Add()([x, L.Dropout(0.1, seed=2)(L.Dense(width)(y))])

    for _ in range(layers):
        x = _part(layer, x)
    return L.LayerNormalization()(x)


def _language(causal):
    def make(layers=4, width=64, heads=4, length=128, batch=8, vocabulary=512):
        tokens = keras.Input((length,), dtype="int32")
        x = _transformer(Positions()(L.Embedding(vocabulary, width)(tokens)), layers, width, heads, causal)
        model = keras.Model(tokens, L.Dense(vocabulary)(x))
        data = np.random.default_rng(0).integers(0, vocabulary, (batch, length)).astype("int32")
        return model, (data, np.roll(data, -1, 1)), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    return make


def vit(size=64, patch=4, layers=4, width=64, heads=4, batch=8):
    images = keras.Input((size, size, 3))
    x = L.Reshape(((size // patch) ** 2, width))(L.Conv2D(width, patch, strides=patch)(images))
    x = _transformer(Positions()(x), layers, width, heads, causal=False)
    model = keras.Model(images, L.Dense(10, activation="softmax")(L.GlobalAveragePooling1D()(x)))
    return model, *_images(batch, size, 10)


def lstm(steps=64, features=32, units=128, batch=32):
    inputs = keras.Input((steps, features))
    x = _part(L.LSTM(units, return_sequences=True, use_cudnn=False), inputs)
    x = _part(L.LSTM(units, use_cudnn=False), x)
    random = np.random.default_rng(0)
    data = random.random((batch, steps, features), dtype="float32"), random.integers(0, 10, batch).astype("int32")
    return keras.Model(inputs, L.Dense(10)(x)), data, keras.losses.SparseCategoricalCrossentropy(from_logits=True)


MODELS = {
    "ResNet50": _application("ResNet50", 64, 4),
    "MobileNetV2": _application("MobileNetV2", 64, 8),
    "EfficientNetB0": _application("EfficientNetB0", 64, 4),
    "DenseNet121": _application("DenseNet121", 64, 4),
    "3D U-Net": unet3d,
    "DeepLabv3+": deeplab,
    "BERT-like": _language(causal=False),
    "GPT-like": _language(causal=True),
    "ViT": vit,
    "LSTM": lstm,
}

#: What the table says of the sizes above.
SIZES = {
    "ResNet50": "4 × 64²",
    "MobileNetV2": "8 × 64²",
    "EfficientNetB0": "4 × 64²",
    "DenseNet121": "4 × 64²",
    "3D U-Net": "32³",
    "DeepLabv3+": "2 × 128²",
    "BERT-like": "4 layers of 64, 8 × 128 tokens",
    "GPT-like": "the same size, causal",
    "ViT": "4 layers of 64, 8 × 64² in patches of 4",
    "LSTM": "two of 128 over 64 steps, 32 × 32",
}
