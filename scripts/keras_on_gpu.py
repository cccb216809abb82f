#!/usr/bin/env python3
"""Trains a Keras model on a GPU within some of its memory, with and without large model support; prints what a step took, and a digest.

    scripts/keras_on_gpu.py resnet50 --batch 64 --memory 20000MiB --without
    scripts/keras_on_gpu.py resnet50 --batch 64 --memory 3400MiB
    scripts/keras_on_gpu.py gpt --batch 16 --memory 6500MiB --deterministic
    scripts/keras_on_gpu.py resnet50 --size 64 --batch 2 --memory 300MiB --softgpu target/release/libsoftgpu.so

The digest is that of all variables, the optimizer's too. With --deterministic TensorFlow computes the same each time, and it must be the
same with and without. The data are made up. Needs tf_lms, from python/.
"""

import argparse
import hashlib
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

MIB = 1 << 20
WARMUP = 4
WORDS = 8000
CLASSES = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["resnet50", "efficientnet", "gpt"])
    parser.add_argument("--size", type=int, help="width and height, or words [224, 512]")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--memory", required=True, help="what TensorFlow may take of the GPU, as 3400MiB")
    parser.add_argument("--without", action="store_true", help="without large model support")
    parser.add_argument("--deterministic", action="store_true", help="the same numbers each time; slower")
    parser.add_argument("--steps", type=int, default=8, help="how many steps are timed, behind %d [%%(default)s]" % WARMUP)
    parser.add_argument("--softgpu", help="libsoftgpu.so, to train on the software GPU")
    return parser.parse_args()


def use_gpu(args):
    """Has TensorFlow take so much memory of the first GPU, and no more."""
    import tensorflow as tf
    from tf_lms.options import memory_bytes

    (memory,) = memory_bytes(args.memory)
    if args.softgpu:
        from softgpu import SoftGpu

        SoftGpu(args.softgpu, memory, "bfc")
        return
    gpu, *_ = tf.config.list_physical_devices("GPU") or [None]
    if gpu is None:
        raise SystemExit("keras_on_gpu.py: TensorFlow finds no GPU; --softgpu trains on the software GPU")
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=memory / MIB)])


def gpt(words):
    import keras

    width, heads = 768, 12
    tokens = keras.Input((words,), dtype="int32")
    x = keras.layers.Embedding(WORDS, width)(tokens)
    for _ in range(12):
        y = keras.layers.LayerNormalization()(x)
        x = keras.layers.Add()([x, keras.layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=True)])
        y = keras.layers.Dense(4 * width, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = keras.layers.Add()([x, keras.layers.Dense(width)(y)])
    return keras.Model(tokens, keras.layers.Dense(WORDS)(x))


def build(args):
    """A compiled model, and what it is trained on."""
    import keras
    import numpy as np

    random = np.random.default_rng(0)
    if args.model == "gpt":
        model = gpt(args.size or 512)
        texts = random.integers(0, WORDS, (2 * args.batch, args.size or 512)).astype("int32")
        model.compile(keras.optimizers.Adam(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        return model, texts, texts
    size = args.size or 224
    make = {"resnet50": keras.applications.ResNet50, "efficientnet": keras.applications.EfficientNetB0}[args.model]
    model = make(weights=None, input_shape=(size, size, 3), classes=CLASSES)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy", jit_compile=False)
    images = random.normal(size=(2 * args.batch, size, size, 3)).astype("float32")
    return model, images, random.integers(0, CLASSES, 2 * args.batch)


def stopwatch():
    """A callback that keeps what each step took."""
    import keras

    class Stopwatch(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seconds = []

        def on_train_batch_begin(self, batch, logs=None):
            self.began = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            self.seconds.append(time.perf_counter() - self.began)

    return Stopwatch()


def main():
    args = arguments()
    use_gpu(args)
    import keras
    import numpy as np
    import tensorflow as tf
    import tf_lms

    # What tf_lms turns off for a planned step.
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False, "constant_folding": False, "layout_optimizer": False})
    if args.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(1)
    model, x, y = build(args)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(args.batch, drop_remainder=True).repeat().prefetch(2)
    lms, times = tf_lms.LMS(gpu_memory=args.memory), stopwatch()
    try:
        model.fit(data, steps_per_epoch=WARMUP + args.steps, callbacks=[*([] if args.without else [lms]), times], verbose=0)
    except tf.errors.ResourceExhaustedError as error:
        raise SystemExit(f"keras_on_gpu.py: out of memory: {str(error).splitlines()[0]}") from None
    if not args.without:
        print(lms.report)
    variables = b"".join(np.asarray(variable).tobytes() for variable in [*model.variables, *model.optimizer.variables])
    print(f"step          {np.median(times.seconds[WARMUP:]) * 1e3:.1f} ms")
    if not args.softgpu:
        print(f"peak          {tf.config.experimental.get_memory_info('GPU:0')['peak'] / MIB:,.0f} MiB")
    print(f"variables     {hashlib.md5(variables).hexdigest()}")


if __name__ == "__main__":
    main()
