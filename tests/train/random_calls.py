#!/usr/bin/env python3
"""Random graphs of sessions that call functions: `make` writes them, `compare` runs each beside its rewritten copy.

A step goes through layers drawn at random: functions, conditions, switches and loops, in one another, all of which may count in variables
on the way, and takes the gradient through all of it. Fetched is now the one, now the other, so that it is seen which effects come with each.

    random_calls.py make FOLDER --seed 1 --count 20              # FOLDER/0.meta, FOLDER/1.meta, …
    random_calls.py compare FOLDER --softgpu libsoftgpu.so       # FOLDER/0.meta with FOLDER/0_lms.meta, …; prints a line of JSON
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from softgpu import SoftGpu  # noqa: E402

WIDTH, BATCH = 16, 8


class Step:
    def __init__(self, tf, seed):
        self.tf, self.rng, self.variables = tf, random.Random(seed), []
        self.which = tf.compat.v1.placeholder(tf.int32, [], "which")

    def variable(self, shape):
        values = [self.rng.uniform(-0.3, 0.3) for _ in range(WIDTH * WIDTH if shape else 1)]
        start = self.tf.reshape(self.tf.constant(values), shape)
        variable = self.tf.compat.v1.Variable(start, use_resource=True, name=f"v{len(self.variables)}")
        self.variables.append(variable)
        return variable

    def layers(self, depth, is_function=False):
        kinds = ["dense", "dense", "count", "call", "call", "cond", "switch", "loop"]
        kinds = kinds if depth else kinds[:3]
        # Only functions have what reads and writes a variable in order.
        kinds += ["average"] * is_function
        parts = [getattr(self, self.rng.choice(kinds))(depth, is_function) for _ in range(self.rng.randint(1, 3))]

        def run(x):
            for part in parts:
                x = part(x)
            return x

        return run

    def dense(self, depth, is_function):
        weights, act = self.variable([WIDTH, WIDTH]), self.rng.choice([self.tf.nn.tanh, self.tf.nn.softplus])
        return lambda x: act(x @ weights) + 0.5 * x

    def count(self, depth, is_function):
        counter = self.variable([])

        def run(x):
            counter.assign_add(1.0)
            return x * 1.0

        return run

    def average(self, depth, is_function):
        moving = self.variable([])

        def run(x):
            moving.assign(0.9 * moving + 0.1 * self.tf.reduce_mean(x))
            return x * (1.0 + 0.01 * moving)

        return run

    def call(self, depth, is_function):
        inner, has_two = self.layers(depth - 1, is_function=True), self.rng.random() < 0.5

        @self.tf.function(autograph=False)
        def function(x):
            y = inner(x)
            return (y, self.tf.reduce_mean(y)) if has_two else y

        def run(x):
            results = function(x)
            return results[0] + 0.1 * results[1] if has_two else results

        return run

    def cond(self, depth, is_function):
        yes, no = self.layers(depth - 1, is_function), self.layers(depth - 1, is_function)
        often = self.rng.randint(2, 3)
        return lambda x: self.tf.cond(self.which % often < 1, lambda: yes(x), lambda: no(x))

    def switch(self, depth, is_function):
        branches = [self.layers(depth - 1, is_function) for _ in range(self.rng.randint(1, 3))]
        return lambda x: self.tf.switch_case(self.which - 1, [lambda branch=branch: branch(x) for branch in branches])

    def loop(self, depth, is_function):
        body, times = self.layers(depth - 1, is_function), self.rng.randint(1, 3)
        return lambda x: self.tf.while_loop(lambda i, _: i < times, lambda i, x: (i + 1, body(x)), (0, x))[1]


def made(tf, seed):
    """A graph with a step drawn at random."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        step = Step(tf, seed)
        x = v1.placeholder(tf.float32, [BATCH, WIDTH], "x")
        parts = [step.dense(0, False), *(step.layers(2) for _ in range(step.rng.randint(1, 3)))]
        for part in parts:
            x = part(x)
            v1.add_to_collection("fetched", x)
        loss = tf.reduce_mean(tf.square(x), name="loss")
        weights = [variable for variable in step.variables if variable.shape.rank]
        gradients = zip(v1.gradients(loss, weights), weights, strict=True)
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        train = optimizer.apply_gradients([pair for pair in gradients if pair[0] is not None])
        v1.add_to_collection("losses", loss)
        if "train_op" not in graph.collections:
            v1.add_to_collection("train_op", train)
        return v1.train.export_meta_graph(graph=graph).SerializeToString(deterministic=True)


def ran(tf, path, seed):
    """What was fetched, one after the other, and what all variables are then."""
    import numpy

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        meta_graph = v1.MetaGraphDef.FromString(path.read_bytes())
        config = v1.ConfigProto(inter_op_parallelism_threads=1, allow_soft_placement=True)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        # A call has a configuration of its own; without Grappler all comes out the same to the bit.
        functions = meta_graph.graph_def.library.function
        for node in [*meta_graph.graph_def.node, *(node for function in functions for node in function.node_def)]:
            if "config_proto" in node.attr:
                node.attr["config_proto"].s = config.SerializeToString()
        v1.train.import_meta_graph(meta_graph)
        rng, data = random.Random(seed), numpy.random.default_rng(seed)
        [train] = v1.get_collection("train_op")
        fetched = [*v1.get_collection("fetched"), *v1.get_collection("losses")]
        told = []
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            for _ in range(8):
                several = [train] if rng.random() < 0.5 else rng.sample(fetched, rng.randint(1, len(fetched)))
                feeds = {"x:0": data.normal(size=(BATCH, WIDTH)).astype("f"), "which:0": rng.randint(0, 3)}
                values = session.run(several, feeds)
                told += [value.tobytes().hex() for value in values if value is not None]
                variables = session.run(v1.global_variables())
                told += [value.tobytes().hex() for value in variables]
    return told


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["make", "compare"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--softgpu", type=pathlib.Path)
    args = parser.parse_args()
    if args.softgpu:
        SoftGpu(args.softgpu, "1GiB", "exact")
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    if args.task == "make":
        for index in range(args.count):
            (args.folder / f"{index}.meta").write_bytes(made(tf, args.seed * 1000 + index))
        return
    differ = []
    for path in sorted(args.folder.glob("*_lms.meta")):
        original = path.with_name(path.name.replace("_lms", ""))
        if ran(tf, original, 3) != ran(tf, path, 3):
            differ.append(original.name)
    print(json.dumps(differ))


if __name__ == "__main__":
    main()
