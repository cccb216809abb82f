"""Trains a Keras CNN on a folder of images, within the memory that it is given.

    python images.py --images photos/ --size 512 --batch 32 --gpu-memory 16GiB

The folder has a folder of images for each class. Without --images a few are made up.
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tf_lms


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=pathlib.Path, help="a folder with a folder of images for each class")
    parser.add_argument("--size", type=int, default=64, help="width and height in pixels")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--gpu-memory", help="as 16GiB; by default what the GPU has")
    parser.add_argument("--without", action="store_true", help="without large model support, to compare")
    return parser.parse_args()


def make_images(folder, size, count=24):
    """Noise in two colours."""
    random = np.random.default_rng(0)
    for label in ("red", "blue"):
        (folder / label).mkdir()
        for number in range(count // 2):
            pixels = random.integers(0, 256, (size, size, 3), dtype="uint8")
            pixels[:, :, 2 if label == "red" else 0] = 0
            (folder / label / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())


def block(x, width):
    y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
    y = keras.layers.ReLU()(keras.layers.BatchNormalization()(y))
    y = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
    y = keras.layers.BatchNormalization()(y)
    return keras.layers.ReLU()(keras.layers.Add()([x, y]))


def build(size, classes, width=16, blocks=4):
    images = keras.Input((size, size, 3))
    x = keras.layers.Rescaling(1 / 255)(images)
    x = keras.layers.Conv2D(width, 3, padding="same")(x)
    for _ in range(blocks):
        x = block(x, width)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(images, keras.layers.Dense(classes)(x), name="cnn")


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as made_up:
        folder = args.images or pathlib.Path(made_up)
        if args.images is None:
            make_images(folder, args.size)
        dataset = keras.utils.image_dataset_from_directory(folder, image_size=(args.size, args.size), batch_size=args.batch, seed=1)
        keras.utils.set_random_seed(1)
        model = build(args.size, len(dataset.class_names))
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        lms = tf_lms.LMS(gpu_memory=args.gpu_memory)
        history = model.fit(dataset, epochs=args.epochs, callbacks=[] if args.without else [lms], verbose=2)
    print(f"loss {history.history['loss'][-1]:.6f}")
    if not args.without:
        print(lms.report)


if __name__ == "__main__":
    main()
