"""Trains a 3D U-Net on volumes, as for medical images, within the memory that it is given.

    python unet3d.py --size 128 --gpu-memory 16GiB

The volumes are made up: balls in noise, to be found voxel by voxel.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import tf_lms

L = keras.layers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=32, help="edge of a volume in voxels, a multiple of 4")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--gpu-memory", help="as 16GiB; by default what the GPU has")
    parser.add_argument("--without", action="store_true", help="without large model support, to compare")
    return parser.parse_args()


def volumes(count, size):
    """Volumes, and for each voxel whether it is in the ball."""
    random = np.random.default_rng(0)
    places = np.stack(np.meshgrid(*[np.arange(size)] * 3, indexing="ij"), -1)
    centres = random.uniform(size / 4, 3 * size / 4, (count, 1, 1, 1, 3))
    inside = (np.square(places - centres).sum(-1, keepdims=True) < (size / 5) ** 2).astype("float32")
    return (inside + random.normal(0, 0.5, inside.shape)).astype("float32"), inside


def convolutions(x, width):
    for _ in range(2):
        x = L.Conv3D(width, 3, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization()(x))
    return x


def build(size, width=8, depth=2):
    inputs = keras.Input((size, size, size, 1))
    x, kept = inputs, []
    for level in range(depth):
        x = convolutions(x, width * 2**level)
        kept.append(x)
        x = L.MaxPooling3D()(x)
    x = convolutions(x, width * 2**depth)
    for level in reversed(range(depth)):
        x = L.Concatenate()([kept[level], L.UpSampling3D()(x)])
        x = convolutions(x, width * 2**level)
    return keras.Model(inputs, L.Conv3D(1, 1)(x), name="unet3d")


def main():
    args = arguments()
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensor_slices(volumes(args.batch * args.steps, args.size)).batch(args.batch, drop_remainder=True)
    keras.utils.set_random_seed(1)
    model = build(args.size)
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    if not args.without:
        tf_lms.apply(model, gpu_memory=args.gpu_memory)
        print(tf_lms.predict(model, args.gpu_memory, data=dataset))
    history = model.fit(dataset, verbose=2)
    print(f"loss {history.history['loss'][-1]:.6f}")


if __name__ == "__main__":
    main()
