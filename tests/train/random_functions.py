#!/usr/bin/env python3
"""Random training steps as functions: `make` writes them as SavedModels, `compare` trains each beside its rewritten copy.

A step goes through layers drawn at random: calls of functions in functions, conditions, switches and loops, all of which may update
variables on the way, and takes the gradient through all of it.

    random_functions.py make FOLDER --seed 1 --count 20          # FOLDER/0, FOLDER/1, …
    random_functions.py compare FOLDER --softgpu libsoftgpu.so   # FOLDER/0 with FOLDER/0_lms, …; prints a line of JSON
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from softgpu import SoftGpu  # noqa: E402
from train_signature import EXACT  # noqa: E402

WIDTH, BATCH = 16, 8


def layers(tf, module, rng, depth):
    """A function from a tensor to one of the same shape."""
    kinds = ["dense", "dense", "count", "call", "cond", "switch", "loop", "average"]
    parts = [KINDS[rng.choice(kinds if depth else kinds[:3])](tf, module, rng, depth) for _ in range(rng.randint(1, 3))]

    def run(x):
        for part in parts:
            x = part(x)
        return x

    return run


def new_variable(tf, module, rng, shape):
    values = [rng.uniform(-0.3, 0.3) for _ in range(WIDTH * WIDTH if shape else 1)]
    variable = tf.Variable(tf.reshape(tf.constant(values), shape), name=f"v{len(module.all)}")
    module.all.append(variable)
    return variable


def dense(tf, module, rng, depth):
    weights = new_variable(tf, module, rng, [WIDTH, WIDTH])
    module.weights.append(weights)
    act = rng.choice([tf.nn.tanh, tf.nn.relu, tf.nn.softplus])
    return lambda x: act(x @ weights) + 0.5 * x


def count(tf, module, rng, depth):
    counter = new_variable(tf, module, rng, [])

    def run(x):
        counter.assign_add(1.0)
        return x

    return run


def average(tf, module, rng, depth):
    moving = new_variable(tf, module, rng, [])

    def run(x):
        moving.assign(0.9 * moving + 0.1 * tf.reduce_mean(x))
        return x * (1.0 + 0.01 * moving)

    return run


def call(tf, module, rng, depth):
    inner = layers(tf, module, rng, depth - 1)
    return tf.function(inner)


def cond(tf, module, rng, depth):
    yes, no = layers(tf, module, rng, depth - 1), layers(tf, module, rng, depth - 1)
    often = float(rng.randint(2, 3))
    return lambda x: tf.cond(tf.math.floormod(module.steps, often) < 1.0, lambda: yes(x), lambda: no(x))


def switch(tf, module, rng, depth):
    branches = [layers(tf, module, rng, depth - 1) for _ in range(rng.randint(1, 3))]

    def run(x):
        which = tf.cast(module.steps, tf.int32) - 1
        return tf.switch_case(which, [lambda branch=branch: branch(x) for branch in branches])

    return run


def loop(tf, module, rng, depth):
    body, times = layers(tf, module, rng, depth - 1), rng.randint(1, 3)

    def run(x):
        return tf.while_loop(lambda i, _: i < times, lambda i, x: (i + 1, body(x)), (0, x))[1]

    return run


KINDS = {"dense": dense, "count": count, "average": average, "call": call, "cond": cond, "switch": switch, "loop": loop}


def step_of(tf, seed):
    """A module with a training step drawn at random."""
    rng = random.Random(seed)
    module = tf.Module()
    module.all, module.weights = [], []
    module.steps = new_variable(tf, module, rng, [])
    module.steps.assign(0.0)
    first, body = dense(tf, module, rng, 0), layers(tf, module, rng, 2)
    slots = [new_variable(tf, module, rng, weights.shape) for weights in module.weights]
    calls = rng.random() < 0.5

    def forward(x):
        return tf.reduce_mean(tf.square(body(first(x))))

    forward = tf.function(forward) if calls else forward

    @tf.function(input_signature=[tf.TensorSpec([BATCH, WIDTH], tf.float32, "x")])
    def step(x):
        with tf.GradientTape() as tape:
            loss = forward(x)
        gradients = tape.gradient(loss, module.weights, unconnected_gradients="zero")
        for gradient, weights, slot in zip(gradients, module.weights, slots):
            slot.assign(0.9 * slot + gradient)
            weights.assign_sub(0.1 * slot)
        module.steps.assign_add(1.0)
        return {"loss": loss}

    module.step = step
    return module


def make(tf, args):
    for index in range(args.count):
        module = step_of(tf, args.seed * 1000 + index)
        tf.saved_model.save(module, str(args.folder / str(index)), signatures={"train": module.step})


def trained(tf, folder, steps, gpu):
    """What losses and variables are after some steps, and how many bytes were copied."""
    import numpy

    loaded = tf.saved_model.load(str(folder))
    step = loaded.signatures["train"]
    rng = numpy.random.default_rng(5)
    losses, before = [], gpu.counters()["out_bytes"]
    for _ in range(steps):
        x = tf.constant(rng.standard_normal([BATCH, WIDTH]).astype("float32"))
        losses.append(float(step(x=x)["loss"].numpy()))
    copied = gpu.counters()["out_bytes"] - before
    return losses, [variable.numpy() for variable in loaded.all], copied


def compare(tf, args, gpu):
    report = []
    for folder in sorted(args.folder.glob("*_lms")):
        losses, values, copied = trained(tf, folder.with_name(folder.name.removesuffix("_lms")), args.steps, gpu)
        losses_after, values_after, copied_after = trained(tf, folder, args.steps, gpu)
        different = [i for i, (a, b) in enumerate(zip(values, values_after)) if a.tobytes() != b.tobytes()]
        report.append(
            {"model": folder.name, "losses": losses == losses_after, "variables": len(values), "different": different}
            | {"more_bytes_out": copied_after - copied}
        )
    print(json.dumps(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["make", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--softgpu", help="libsoftgpu.so, for compare")
    args = parser.parse_args()
    gpu = SoftGpu(args.softgpu, "1GiB", "bfc") if args.what == "compare" else None
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options(EXACT)
    make(tf, args) if args.what == "make" else compare(tf, args, gpu)


if __name__ == "__main__":
    main()
