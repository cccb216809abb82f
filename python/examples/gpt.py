"""Trains a small GPT with a loop of its own, within the memory that it is given.

    python gpt.py --layers 24 --width 1024 --length 2048 --gpu-memory 16GiB

The text is made up: numbers that are counted on from a random one.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import tf_lms

L = keras.layers
VOCABULARY = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=64, help="tokens of an example")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--gpu-memory", help="as 16GiB; by default what the GPU has")
    parser.add_argument("--without", action="store_true", help="without large model support, to compare")
    return parser.parse_args()


class Positions(L.Layer):
    """Adds a learnt vector for each position."""

    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="positions")

    def call(self, x):
        return x + self.table


def build(args):
    tokens = keras.Input((args.length,), dtype="int32")
    x = Positions()(L.Embedding(VOCABULARY, args.width)(tokens))
    for _ in range(args.layers):
        y = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(args.heads, args.width // args.heads)(y, y, use_causal_mask=True)
        y = L.Dense(4 * args.width, activation="gelu")(L.LayerNormalization()(x))
        x = x + L.Dense(args.width)(y)
    return keras.Model(tokens, L.Dense(VOCABULARY)(L.LayerNormalization()(x)), name="gpt")


def main():
    args = arguments()
    keras.utils.set_random_seed(1)
    model = build(args)
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train_step(tokens):
        with tf.GradientTape() as tape:
            loss = loss_of(tokens[:, 1:], model(tokens, training=True)[:, :-1])
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    step = tf.function(train_step) if args.without else tf_lms.function(train_step, gpu_memory=args.gpu_memory)
    random = np.random.default_rng(0)
    for number in range(args.steps):
        first = random.integers(0, VOCABULARY, (args.batch, 1))
        tokens = (first + np.arange(args.length)) % VOCABULARY
        loss = step(tf.constant(tokens.astype("int32")))
        print(f"step {number + 1}: loss {float(loss):.6f}")
    if not args.without:
        print(step.report)


if __name__ == "__main__":
    main()
