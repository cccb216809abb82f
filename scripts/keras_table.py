#!/usr/bin/env python3
"""How much memory Keras models train in: as they are, with keras.RematScope, with keras.remat by hand, and with tf_lms.LMS.

    keras_table.py run MODEL MODE MEMORY STEPS    one training on the software GPU; prints a line of JSON
    keras_table.py guess MODEL                    the least memory for which there is a plan, as predicted
    keras_table.py measure RESULTS [MODEL ...]    looks for the least memory of each, and keeps what it finds in RESULTS
    keras_table.py measure RESULTS --modes "by hand" -- [MODEL ...]
    keras_table.py table RESULTS                  prints the table; with --write docs/keras.md, puts it there: cells of which RESULTS says
                                                  nothing stay as the page has them

Needs `pip install ./python` and `cargo build --release -p softgpu`. Each training is a process of its own.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pages

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))

MODES = ["plain", "remat", "by hand", "lms"]

#: Models whose layers `keras.remat` cannot be applied to by hand, since somebody else's program puts them together.
READY_MADE = ("ResNet50", "MobileNetV2", "EfficientNetB0", "DenseNet121")

#: Least memories are looked for to within about this part.
NEAR = 0.05

#: Steps of a training as it is, and of one with the line, which is compared with one as it is in ample memory.
FEW, MANY = 3, 20

AMPLE = "4GiB"

#: What the software GPU copies to the host lies in the C library's memory. That would go back to the system after each copy, and come anew
#: page by page, which costs more than the copy does; a GPU's driver keeps its host memory.
KEPT_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


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
    import keras_models
    from keras_models import MODELS

    keras_models.by_hand = mode == "by hand"

    class Clock(keras.callbacks.Callback):
        seconds, losses = [], []

        def on_train_batch_begin(self, batch, logs=None):
            self.start = time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            self.losses.append(float(logs["loss"]))
            self.seconds.append(time.process_time() - self.start)

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


def trained(model, mode, memory, steps):
    """The same in a process of its own."""
    command = [sys.executable, __file__, "run", model, mode, str(memory), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | KEPT_MEMORY)
    if done.returncode:
        return {"failed": done.stderr.splitlines()[-1][:200] if done.stderr else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def guess(model_name):
    """Prints the least memory in bytes for which there is a plan, as predicted."""
    import soft

    tf = soft.load(AMPLE, "bfc")
    import keras

    import tf_lms
    from keras_models import MODELS

    model, data, loss = MODELS[model_name]()
    model.compile(keras.optimizers.Adam(1e-4), loss)
    model.optimizer.build(model.trainable_variables)
    specs = tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), data)
    print(json.dumps({"memory": tf_lms.least_memory(model, data=specs)}))


def least(what, trains, first):
    """The least memory in bytes in which something trains, and what `trains` says of it there. Looked for from `first` on."""
    low, high, best, memory, stride = 0, None, None, first, NEAR
    while True:
        told = trains(memory)
        print(f"{what} {mib(memory):.2f} MiB: {told.get('failed', 'trains')}", file=sys.stderr, flush=True)
        if "failed" in told:
            low = memory
        else:
            high, best = memory, told
        if high is None and memory > 8 * first:
            return None, told
        if low and high and high - low <= 1.1 * NEAR * high:
            return high, best
        if low and high:
            memory = (low + high) // 2
        else:
            # Further and further away, until it trains on one side and does not on the other.
            memory = int(memory * (1 - stride) if high else memory / (1 - stride))
            stride = min(2 * stride, 0.5)


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def measure(results, models, modes):
    """Adds to the results what is not there yet."""
    found = json.loads(results.read_text()) if results.is_file() else {}
    from keras_models import MODELS

    for model in models or MODELS:
        known = found.setdefault(model, {})

        def keep(name, value, known=known):
            known[name] = value
            results.write_text(json.dumps(found, indent=1))

        for mode in modes:
            if mode not in known and not (mode == "by hand" and model in READY_MADE):
                keep(mode, row_of(model, mode, known))
        if "same" not in known and all("memory" in known.get(mode, {}) for mode in ("plain", "lms")):
            keep("same", all(known["plain"]["ample"][what] == known["lms"]["there"][what] for what in ("variables", "losses")))


def row_of(model, mode, known):
    """What is found out of a model in one mode: the least memory, and what came of the training in it."""
    if mode == "lms":
        command = [sys.executable, __file__, "guess", model]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": done.stderr.splitlines()[-1][:200]}
        planned = json.loads(done.stdout.splitlines()[-1])["memory"]
        print(f"{model}: a plan for {mib(planned):.2f} MiB is predicted", file=sys.stderr, flush=True)
        memory, there = least(f"{model} {mode}", lambda memory: trained(model, mode, memory, MANY), planned)
        if memory is None:
            return {"failed": there["failed"], "planned": planned}
        return {"memory": memory, "planned": planned, "seconds": median(there["seconds"][1:]), "there": there}
    ample = trained(model, mode, AMPLE, MANY if mode == "plain" else FEW)
    if "failed" in ample:
        return {"failed": ample["failed"]}
    memory, there = least(f"{model} {mode}", lambda memory: trained(model, mode, memory, FEW), ample["peak"])
    if memory is None:
        return {"failed": there["failed"]}
    told = {"memory": memory, "seconds": median(ample["seconds"][1:]), "ample": ample}
    if mode == "by hand":
        plain = trained(model, "plain", AMPLE, FEW)
        told["others"] = [what for what in ("losses", "variables") if plain[what] != ample[what]]
    return told


def cell(known, mode):
    told = known.get(mode, {"failed": "not run"})
    if "failed" not in told:
        others = told.get("others", [])
        as_it_is = mode == "lms" and not told["there"]["report"]["changed"]
        notes = [f"other {' and '.join(others)}"] * bool(others) + ["as it is"] * as_it_is
        return ", ".join([f"{mib(told['memory']):.1f} MiB", *notes])
    return "fails" if mode == "remat" else told["failed"].split("(")[0][:60]


def time_cell(known, mode):
    return f"{1e3 * known[mode]['seconds']:.0f} ms" if "seconds" in known.get(mode, {}) else ""


def predicted_cell(known):
    """By what part the plan makes a step longer, as predicted."""
    if "there" not in known.get("lms", {}):
        return ""
    report = known["lms"]["there"]["report"]
    before, after = report.get("step_seconds_before"), report.get("step_seconds_after")
    return f"{100 * (after / before - 1):.0f}%" if before and after else ""


def same_cell(known):
    if "same" not in known:
        return "not run"
    return f"yes, {len(known['plain']['ample']['variables'])} variables" if known["same"] else "**no**"


#: The columns: what each is called, and what is in its cells; nothing where it is not known.
COLUMNS = {
    "as it is": lambda model, known: "plain" in known and cell(known, "plain"),
    "RematScope": lambda model, known: "remat" in known and cell(known, "remat"),
    "`keras.remat` by hand": lambda model, known: "ready-made" if model in READY_MADE else "by hand" in known and cell(known, "by hand"),
    "with the line": lambda model, known: "lms" in known and cell(known, "lms"),
    "step as it is": lambda model, known: time_cell(known, "plain"),
    "step with the line": lambda model, known: time_cell(known, "lms"),
    "longer, as predicted": lambda model, known: predicted_cell(known),
    "same after 20 steps": lambda model, known: "same" in known and same_cell(known),
}


def cells_of(line):
    return [part.strip() for part in line.strip().strip("|").split("|")]


def written(page):
    """The cells that a page has, of each row by what their columns are called."""
    head, _, *rows = [line for line in pages.read(page, "keras_table.py").splitlines() if line.startswith("|")]
    return {cells_of(row)[0]: dict(zip(cells_of(head)[1:], cells_of(row)[1:], strict=True)) for row in rows}


def table(results, page):
    from keras_models import MODELS, SIZES

    found = json.loads(results.read_text())
    before = written(page) if page else {}
    lines = [f"| model | {' | '.join(COLUMNS)} |\n", "|---" * (len(COLUMNS) + 1) + "|\n"]
    for model in MODELS:
        row = f"{model}, {SIZES[model]}"
        if model in found or row in before:
            # A model that was measured anew has nothing of what was there.
            there = {} if "lms" in found.get(model, {}) else before.get(row, {})
            cells = [of(model, found.get(model, {})) or there.get(name, "") for name, of in COLUMNS.items()]
            lines.append(f"| {row} | {' | '.join(cells)} |\n")
    if page:
        pages.write(page, "keras_table.py", "".join(lines))
    print("".join(lines), end="")


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
    several.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    commands.add_parser("guess").add_argument("model")
    shown = commands.add_parser("table")
    shown.add_argument("results", type=pathlib.Path)
    shown.add_argument("--write", help="the page with the table's place")
    args = parser.parse_args()
    if args.command == "run":
        run(args.model, args.mode, args.memory, args.steps)
    elif args.command == "measure":
        measure(args.results, args.models, args.modes)
    elif args.command == "guess":
        guess(args.model)
    else:
        table(args.results, args.write)


if __name__ == "__main__":
    main()
