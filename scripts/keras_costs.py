#!/usr/bin/env python3
"""What tf_lms.LMS costs a Keras model: seconds before the first step, and of each step.

    keras_costs.py [MODEL] [--steps 10] [--calls 2000]   # where its step fits as it is
    keras_costs.py ResNet50 --gpu-memory 330MiB          # where it gets a plan

Needs `pip install ./python` and `cargo build --release -p softgpu`. Seconds of the processor are those of all threads.
"""

import argparse
import pathlib
import statistics
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="ResNet50")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--gpu-memory", help="plan for so much, in which the step does not fit as it is")
    args = parser.parse_args()
    import soft

    soft.load(AMPLE, "bfc")
    from tf_lms import step

    plan, planned = step.Step._plan, []

    def timed(*given):
        start = clocks()
        made = plan(*given)
        planned.append(since(start))
        return made

    step.Step._plan = timed
    # What a model as it is holds on the GPU would be taken off the memory that is planned for.
    plain = [] if args.gpu_memory else trained(args.model, False, args)[0]
    lms, model, dataset = trained(args.model, True, args)
    print(f"{args.model}, wall and processor")
    if plain:
        print("first batch as it is            {:8.2f} s {:8.2f} s".format(*plain[0]))
    print("first batch with the line       {:8.2f} s {:8.2f} s".format(*lms[0]))
    print("of that by the line             {:8.2f} s {:8.2f} s".format(*planned[0]))
    for told, batches in (("as it is", plain), ("with the line", lms)):
        if not batches:
            continue
        wall, cpu = (statistics.median(values) for values in zip(*batches[1:], strict=True))
        print(f"median step {told:19} {1e3 * wall:8.1f} ms {1e3 * cpu:7.1f} ms")
    # What the line adds to a step, by itself: everything but the step.
    from tf_lms import keras_model

    applied, iterator = getattr(model, keras_model._ATTRIBUTE), iter(dataset)
    several = []
    for _ in range(args.calls):
        start = time.perf_counter()
        applied._train(lambda _: None, iterator)
        several.append(time.perf_counter() - start)
    print(f"added to each step, median of {args.calls} {1e6 * statistics.median(several):8.1f} µs")


if __name__ == "__main__":
    main()
