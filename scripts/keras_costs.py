#!/usr/bin/env python3
"""What tf_lms.LMS costs a Keras model: seconds before the first step, and of each step.

    keras_costs.py [MODEL] [--steps 10] [--calls 2000]   # where its step fits as it is
    keras_costs.py ResNet50 --gpu-memory 330MiB          # where it gets a plan

Needs `pip install ./python` and `cargo build --release -p softgpu`. Each training is a process of its own; seconds of
the processor are those of all threads.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))

AMPLE = "8GiB"


def clocks():
    return time.monotonic(), time.process_time()


def since(before):
    return tuple(now - then for now, then in zip(clocks(), before, strict=True))


def trained(name, with_lms, args):
    """Trains a new model; returns what each batch took, and the model."""
    import keras
    import tensorflow as tf
    from keras_models import MODELS

    import tf_lms

    class Clock(keras.callbacks.Callback):
        batches = []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = clocks()

        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])
            self.batches.append(since(self.start))

    keras.utils.set_random_seed(1)
    Clock.batches = []
    model, data, loss = MODELS[name]()
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensors(data).repeat(args.steps)
    model.compile(keras.optimizers.Adam(1e-4), loss)
    callbacks = [tf_lms.LMS(args.gpu_memory, strict=True)] if with_lms else []
    model.fit(dataset, verbose=0, callbacks=[*callbacks, Clock()])
    if with_lms and callbacks[0].report.changed != bool(args.gpu_memory):
        how = "does not fit" if callbacks[0].report.changed else "fits"
        raise SystemExit(f"{name} {how} as it is in {args.gpu_memory or AMPLE}, so this is not what was asked for")
    return Clock.batches, model, dataset


def run(args):
    """Trains as it is or with the line, and tells what it took."""
    import soft

    soft.load(AMPLE, "bfc")
    with_lms = args.run == "lms"
    planned = []
    if with_lms:
        from tf_lms import step

        plan = step.Step._plan

        def timed(*given):
            start = clocks()
            made = plan(*given)
            planned.append(since(start))
            return made

        step.Step._plan = timed
    batches, model, dataset = trained(args.model, with_lms, args)
    medians = [statistics.median(values) for values in zip(*batches[1:], strict=True)]
    told = {"first": batches[0], "step": medians}
    if with_lms:
        # What the line adds to a step, by itself: everything but the step.
        from tf_lms import keras_model

        applied, iterator = getattr(model, keras_model._ATTRIBUTE), iter(dataset)
        several = []
        for _ in range(args.calls):
            start = time.perf_counter()
            applied._train(lambda _: None, iterator)
            several.append(time.perf_counter() - start)
        told |= {"planned": planned[0], "added": statistics.median(several)}
    print(json.dumps(told))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="ResNet50")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3, help="trainings as it is, and as many with the line; medians of them are shown")
    parser.add_argument("--gpu-memory", help="plan for so much, in which the step does not fit as it is")
    parser.add_argument("--run", choices=["plain", "lms"], help="one training in this process; prints a line of JSON")
    args = parser.parse_args()
    if args.run:
        run(args)
        return
    found = {"plain": [], "lms": []}
    for _ in range(args.runs):
        # In turn, so that what else the machine does comes to the same for both.
        for how, several in found.items():
            done = subprocess.run([sys.executable, *sys.argv, "--run", how], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            several.append(json.loads(done.stdout.splitlines()[-1]))

    def show(what, name, how, unit):
        factor, digits, called = unit
        cells = []
        for clock in (0, 1):
            values = [factor * told[name][clock] for told in found[how]]
            middle, least, most = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
            cells.append(f"{middle} {called} ({least} to {most})")
        print(f"{what:28} {cells[0]:>30} {cells[1]:>30}")

    seconds, milliseconds = (1, 2, "s"), (1e3, 1, "ms")
    print(f"{args.model}, wall and processor: medians of {args.runs}, and from the least to the most")
    show("first batch as it is", "first", "plain", seconds)
    show("first batch with the line", "first", "lms", seconds)
    show("of that by the line", "planned", "lms", seconds)
    show("median step as it is", "step", "plain", milliseconds)
    show("median step with the line", "step", "lms", milliseconds)
    added = statistics.median(told["added"] for told in found["lms"])
    print(f"added to each step, median of {args.calls} {1e6 * added:.1f} µs")


if __name__ == "__main__":
    main()
