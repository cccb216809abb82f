"""Trains a graph of TensorFlow 1 in a session, within the memory that it is given.

    python session.py --size 512 --batch 64 --gpu-memory 16GiB

The images are made up.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

import tf_lms


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=64, help="width and height in pixels")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--gpu-memory", help="as 16GiB; by default what the GPU has")
    parser.add_argument("--without", action="store_true", help="without large model support, to compare")
    return parser.parse_args()


def build(images, labels, width=16, depth=6):
    x, channels = images, 3
    for number in range(depth):
        start = tf.keras.initializers.GlorotUniform(seed=number)
        weights = tf.get_variable(f"weights_{number}", [3, 3, channels, width], initializer=start)
        bias = tf.get_variable(f"bias_{number}", [width], initializer=tf.zeros_initializer())
        x, channels = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights, 1, "SAME"), bias)), width
    logits = tf.reduce_mean(x, [1, 2])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def main():
    args = arguments()
    tf.disable_eager_execution()
    images = tf.placeholder(tf.float32, [None, args.size, args.size, 3])
    labels = tf.placeholder(tf.int32, [None])
    loss = build(images, labels)
    train_op = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, global_step=tf.train.get_or_create_global_step())
    lms = tf_lms.LMSHook(gpu_memory=args.gpu_memory, batch_size=args.batch)
    hooks = [] if args.without else [lms]
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config()) as session:
        for step in range(args.steps):
            random = np.random.default_rng(step)
            shape = (args.batch, args.size, args.size, 3)
            feeds = {images: random.random(shape, dtype="float32"), labels: random.integers(0, 16, args.batch)}
            value, _ = session.run([loss, train_op], feeds)
            print(f"step {step + 1}: loss {value:.6f}")
    if not args.without:
        print(lms.report)


def config():
    """How the session is set up: without what decides about the last bit."""
    return tf_lms.session_config()


if __name__ == "__main__":
    main()
