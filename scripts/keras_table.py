#!/usr/bin/env python3
"""How much memory Keras models train in: as they are, with keras.RematScope, and with tf_lms.LMS.

    keras_table.py run MODEL MODE MEMORY STEPS    one training on the software GPU; prints a line of JSON
    keras_table.py measure RESULTS [MODEL ...]    looks for the least memory of each, and keeps what it finds in RESULTS
    keras_table.py table RESULTS                  prints the table of docs/keras.md

Needs `pip install ./python` and `cargo build --release -p softgpu`. Each training is a process of its own.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))

MODES = ["plain", "remat", "lms"]

#: Least memories are looked for to within this part.
NEAR = 0.05

AMPLE = "4GiB"


def mib(text):
    return float(text) / 2**20


def run(model_name, mode, memory, steps):
    """Trains, and tells what came of it."""
    import soft

    tf = soft.load(memory, "bfc")
    import contextlib

    import keras
    import numpy as np

    import tf_lms
    from keras_models import MODELS

    class Clock(keras.callbacks.Callback):
        seconds, losses = [], []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.monotonic()

        def on_train_batch_end(self, batch, logs=None):
            self.losses.append(float(logs["loss"]))
            self.seconds.append(time.monotonic() - self.start)

    keras.utils.set_random_seed(1)
    scope = keras.RematScope(mode="full") if mode == "remat" else contextlib.nullcontext()
    callbacks = [Clock()]
    if mode == "lms":
        callbacks.insert(0, tf_lms.LMS())
    told = {}
    try:
        with scope:
            model, data, loss = MODELS[model_name]()
        with tf.device("/CPU:0"):
            dataset = tf.data.Dataset.from_tensors(data).repeat(steps)
        model.compile(keras.optimizers.Adam(1e-4), loss)
        start = time.monotonic()
        with scope:
            history = model.fit(dataset, verbose=0, callbacks=callbacks)
        told["fit_seconds"] = time.monotonic() - start
        variables = [*model.variables, *model.optimizer.variables]
        told["variables"] = [hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:12] for value in variables]
        told["losses"] = [*Clock.losses, history.history["loss"][0]]
        told["seconds"] = Clock.seconds
        told["peak"] = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        if mode == "lms":
            report = callbacks[0].report
            told |= {"report": json.loads(report.to_json())}
    except tf.errors.ResourceExhaustedError:
        told["failed"] = "out of memory"
    except tf_lms.DoesNotFit:
        told["failed"] = "no plan"
    except Exception as error:  # whatever a mode cannot do is part of the table
        told["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    print(json.dumps(told))


def trained(model, mode, memory, steps=3):
    """The same in a process of its own."""
    command = [sys.executable, __file__, "run", model, mode, str(memory), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.splitlines()[-1][:200] if done.stderr else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def least(model, mode, low, high):
    """The least memory in bytes in which it trains, and what came of it there. In `low` it does not, in `high` it does."""
    best = None
    while high - low > NEAR * high:
        middle = (low + high) // 2
        told = trained(model, mode, middle)
        print(f"{model} {mode} {mib(middle):.1f} MiB: {told.get('failed', 'trains')}", file=sys.stderr, flush=True)
        if "failed" in told:
            low = middle
        else:
            high, best = middle, told
    return high, best


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def measure(results, models):
    """Adds to the results what is not there yet."""
    found = json.loads(results.read_text()) if results.is_file() else {}
    from keras_models import MODELS

    for model in models or MODELS:
        known = found.setdefault(model, {})
        for mode in MODES:
            if mode in known:
                continue
            ample = trained(model, mode, AMPLE, 4)
            if "failed" in ample:
                known[mode] = {"failed": ample["failed"]}
            else:
                high, low = int(1.3 * ample["peak"]), int(0.9 * ample["peak"])
                if mode == "lms":
                    low = ample["report"]["devices"][0]["floor_bytes"]
                memory, there = least(model, mode, low, high)
                known[mode] = {"memory": memory, "seconds": median(there["seconds"][1:] if there else ample["seconds"][1:])}
                if mode == "plain":
                    known[mode]["seconds"] = median(ample["seconds"][1:])
            results.write_text(json.dumps(found, indent=1))
        if "same" not in known and "memory" in known["plain"] and "memory" in known["lms"]:
            plain, lms = trained(model, "plain", AMPLE, 20), trained(model, "lms", known["lms"]["memory"], 20)
            known["same"] = plain.get("variables") == lms.get("variables") and plain.get("losses") == lms.get("losses")
            known["failed"] = lms.get("failed")
            report = lms.get("report", {})
            known["planning_seconds"] = report.get("planning_seconds")
            known["variables"] = len(plain.get("variables", []))
            results.write_text(json.dumps(found, indent=1))


def cell(known, mode):
    told = known.get(mode, {"failed": "not run"})
    return told["failed"].split("(")[0][:60] if "failed" in told else f"{mib(told['memory']):.1f}"


def table(results):
    found = json.loads(results.read_text())
    print("| model | as it is | RematScope | with the line | step as it is | step with the line | same after 20 steps |")
    print("|---|---|---|---|---|---|---|")
    for model, known in found.items():
        seconds = [f"{1e3 * known[mode]['seconds']:.0f} ms" if "seconds" in known.get(mode, {}) else "-" for mode in ("plain", "lms")]
        same = f"yes, {known['variables']} variables" if known.get("same") else "not run" if "same" not in known else "**no**"
        print(f"| {model} | " + " | ".join([*(cell(known, mode) for mode in MODES), *seconds, same]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    for name in ("model", "mode", "memory"):
        one.add_argument(name)
    one.add_argument("steps", type=int)
    several = commands.add_parser("measure")
    several.add_argument("results", type=pathlib.Path)
    several.add_argument("models", nargs="*")
    commands.add_parser("table").add_argument("results", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "run":
        run(args.model, args.mode, args.memory, args.steps)
    elif args.command == "measure":
        measure(args.results, args.models)
    else:
        table(args.results)


if __name__ == "__main__":
    main()
