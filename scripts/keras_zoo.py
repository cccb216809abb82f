#!/usr/bin/env python3
"""What is predicted of many kinds of Keras models, and whether they train with the line in less memory than they take.

    keras_zoo.py                                  all models, as a table in Markdown
    keras_zoo.py nasnet wavenet                   these
    keras_zoo.py --write docs/keras.md            into the page
    keras_zoo.py --hub                            models of Keras Hub (`hub_models.py`) in place of our own (`zoo_models.py`)
    keras_zoo.py train MODEL MEMORY [BUDGET]      one training on the software GPU; prints a line of JSON

Each is trained as it is in ample memory, then with `tf_lms.LMS` in 65% of what that took, or in 80 or 92% where there is no plan for less; in
processes of their own, with the allocator that counts no more than was asked for, with one thread, and with no margin but for loops. Losses,
all variables and the bytes that were copied are compared. Needs `pip install ./python` and `cargo build --release -p softgpu`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import pages

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "tests"))

AMPLE = "4GiB"
PARTS = [65, 80, 92]
HEAD = ["model", "what is special", "as it is, MiB", "predicted", "in", "with the line, MiB", "predicted", "copied beside the plan", "same"]


def models(of_hub):
    """All trainings, by name."""
    if of_hub:
        import hub_models

        return hub_models.MODELS
    import zoo_models

    return zoo_models.MODELS


def train(of_hub, name, memory, budget):
    """Trains, and prints what came of it."""
    import soft

    tf = soft.load(memory)
    import cases
    import keras

    keras.utils.set_random_seed(1)
    training = models(of_hub)[name]()
    training.model.compile(optimizer=training.optimizer, loss=training.loss, **training.compiled)
    try:
        data = cases.dataset(training.data, training.batch, partial=True)
        told = cases.fit(training.model, data, budget, memory_ratio=training.memory_ratio, device_profile=cases.SMALL_COPIES)
    except tf.errors.ResourceExhaustedError:
        told = {"failed": "out of memory"}
    print(json.dumps(told))


def trained(of_hub, name, *options):
    """The same in a process of its own."""
    command = [sys.executable, __file__, *["--hub"] * of_hub, "train", name, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(of_hub, name, special):
    """A model's row, and whether all is as it should be."""
    plain = trained(of_hub, name, AMPLE)
    if "failed" in plain:
        return [name, special, plain["failed"]], False
    peak = max(batch[0]["peak"] for batch in plain["batches"])
    for part in PARTS:
        budget = f"{peak * part // 100}B"
        lms = trained(of_hub, name, budget, budget)
        if "DoesNotFit" not in lms.get("failed", ""):
            break
    first = [name, special, mib(peak)]
    if "failed" in lms:
        why = "no plan" if "DoesNotFit" in lms["failed"] else lms["failed"][:80]
        return [*first, "", f"{part}%", why], False
    (device,) = lms["report"]["devices"]
    taken = max(batch[0]["peak"] for batch in lms["batches"])
    more = [
        [after[0][way] - before[0][way] - device[planned] for before, after in zip(plain["batches"][:-1], lms["batches"][:-1], strict=True)]
        for way, planned in (("out", "swapout_bytes"), ("in", "swapin_bytes"))
    ]
    values = [[value for _, value in of["variables"]] for of in (plain, lms)]
    is_same = plain["losses"] == lms["losses"] and values[0] == values[1]
    tight = " (tight)" if lms["report"]["is_tight"] else ""
    cells = [error(device["peak_before"], peak), f"{part}%{tight}", mib(taken), error(device["peak_after"], taken)]
    beside = " / ".join(f"{max(way, key=abs, default=0):+}" for way in more)
    return [*first, *cells, beside, f"yes, {len(values[0])}" if is_same else "no"], is_same


def mib(size):
    return f"{size / 2**20:.2f}"


def error(predicted, measured):
    return f"{predicted / measured - 1:+.1%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="only these")
    parser.add_argument("--hub", action="store_true", help="models of Keras Hub")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    if args.models[:1] == ["train"]:
        name, memory, *budget = args.models[1:]
        return train(args.hub, name, memory, budget[0] if budget else None)
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    is_right = True
    for name, make in models(args.hub).items():
        if not args.models or name in args.models:
            cells, is_same = row(args.hub, name, make.__doc__)
            is_right &= is_same
            lines.append("| " + " | ".join([*cells, *[""] * (len(HEAD) - len(cells))]) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        pages.write(args.write, "keras_zoo.py", "\n" + text, "--hub" if args.hub else None)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
