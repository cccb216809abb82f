#!/usr/bin/env python3
"""Hold what the tools say of training steps that are functions against what TensorFlow 2 does with them, as a table in Markdown.

    scripts/tf2_table.py --bin target/release                            # all models; some minutes
    scripts/tf2_table.py --bin target/release --only googlenet gpt
    scripts/tf2_table.py --bin target/release --write docs/accuracy.md   # with --only, the other rows stay as they are
    scripts/tf2_table.py --bin target/release --forms --write docs/accuracy.md   # both forms' peaks, as predicted and as measured

Each model is exported twice, as a SavedModel whose signature trains and as a graph of version 1, by export_models.py with the Python that
runs this script. Both are predicted; the SavedModel is trained as it is and rewritten for a part of its peak, with exact memory, and
all variables are compared.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import pages
from accuracy import ENVIRONMENT, MIB

HERE = pathlib.Path(__file__).resolve().parent

#: What is predicted is a host with one thread.
ONE_THREAD = ["--threads", "1"]

#: What a number of an argument takes.
BYTES = {"bool": 1, "float16": 2, "float32": 4, "int64": 8}

SMALL_BERT = "--hidden 32 --heads 2 --intermediate 128 --layers 2 --positions 32"
MODELS = {
    "mnist_cnn": "mnist_cnn --batch 32",
    "googlenet": "googlenet --batch 2 --size 64 --classes 10",
    "resnet50": "resnet50 --batch 2 --size 64 --classes 10 --optimizer momentum --learning-rate 5e-5",
    "mobilenet": "mobilenet --batch 4 --size 64 --blocks 4 --base-filters 16 --classes 10 --learning-rate 1e-3",
    "deeplabv3plus": "deeplabv3plus --batch 2 --size 65 --middle-blocks 4",
    "unet3d": "unet3d --batch 1 --size 32 --base-filters 8",
    "unet3d, two replicas": "unet3d --batch 1 --size 32 --base-filters 4 --towers 2 --optimizer sgd",
    "bert": f"bert --batch 8 --size 32 --vocabulary 100 {SMALL_BERT}",
    "gpt": f"gpt --batch 4 --size 32 --vocabulary 200 --learning-rate 1e-3 {SMALL_BERT}",
    "vit, fp16": "vit --batch 8 --size 32 --patch 8 --layers 2 --hidden 32 --heads 2 --intermediate 64 --classes 10 --fp16"
    " --dynamic-loss-scale --learning-rate 1e-3",
    "static_lstm": "static_lstm --batch 8 --size 12 --layers 1 --units 64 --vocabulary 200 --learning-rate 1e-3",
    "dynamic_rnn": "dynamic_rnn --batch 64 --size 40 --units 128 --vocabulary 500",
    "keras_lstm": "keras_lstm --layers 1",
    "cond_cnn": "cond_cnn",
    "while_rnn": "while_rnn",
}


def tool(args, name, *flags):
    """Runs a tool. Returns its JSON document, and what it said if it failed."""
    command = [args.bin / name, *flags, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT, **args.environment})
    if run.returncode and not run.stdout.strip():
        return None, (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
    return json.loads(run.stdout), None


def export(flags, output, target):
    command = [sys.executable, HERE / "export_models.py", *flags.split(), target, output]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"export_models.py {flags}: {run.stderr.strip().splitlines()[-1]}")


def forms(args):
    """A row for each model that has both forms: peaks as predicted and as measured, what of them is beside variables and constants, and steps
    with a plan.

    The plans are for what persists and a part of what the step adds, which is about as scarce for both. What others only wait for a
    function does not compute, and a session of lms-train does; so neither form has such gradients.
    """
    for name in args.only:
        if name.startswith("keras") or name == "resnet50":
            # The function's layers, or its optimizer, are Keras 3's.
            continue
        # What was written for TensorFlow 2 has another optimizer.
        wrapped = " --wrapped" if name == "mnist_cnn" else ""
        args.environment = {"SOFTGPU_DEVICES": "2"} if "--towers" in MODELS[name] else {}
        peaks, added, found, steps = [], [], [], []
        with tempfile.TemporaryDirectory() as folder:
            for path, target in [("v1.meta", "-o"), ("tf2", "--tf2-saved-model")]:
                model = pathlib.Path(folder) / path
                export(f"{MODELS[name]} --ungated{wrapped if target != '-o' else ''}", model, target)
                report, error = tool(args, "lms-tune", model, "--gpu-mem", "16GiB", "--device-profile", "soft")
                if error:
                    raise SystemExit(f"{name}: {error}")
                trained, error = tool(args, "lms-train", model, *feeds(model), *ONE_THREAD, "--exact-memory", "--steps", "2")
                if error:
                    raise SystemExit(f"{name}: {error}")
                persistent = report["devices"][0]["persistent_bytes"]
                peaks += [report["devices"][0]["peak_before"], first_peak(trained)]
                memory = persistent + int((peaks[-2] - persistent) * args.part)
                # What a function is given lies on the GPU from its beginning to its end; a session copies it when it is needed.
                given = given_bytes(model) if target != "-o" else 0
                added.append(peaks[-2] - persistent + given)
                found.append(peaks[-1] - persistent + given)
                flags = ["--gpu-mem", str(memory), "--memory-ratio", "1", "--device-profile", "soft"]
                planned, error = tool(args, "lms-tune", model, *flags)
                has_plan = not error and planned["verdict"] != "does_not_fit"
                steps.append(f"{planned['step_seconds_after'] / planned['step_seconds_before']:.2f}x" if has_plan else "no plan")
        cells = [f"{bytes / MIB:.2f}" for bytes in [*peaks, *added, given]]
        differences = [f"{(function / graph - 1) * 100:+.1f}%" for graph, function in (added, found)]
        line = f"| {name} | {' | '.join([*cells, *differences, *steps])} |\n"
        print(line, end="", flush=True)
        yield line


def given_bytes(model):
    """The bytes of a function's arguments on the GPU: integers of 32 bits are on the host."""
    inputs = json.loads(model.with_suffix(".json").read_text())["inputs"]
    return sum(math.prod(each["feed_shape"]) * BYTES[each["dtype"]] for each in inputs if each["dtype"] != "int32")


def feeds(model):
    """The flags that feed what the manifest asks for. Texts are as long as they may be, since that is what is predicted."""
    flags = []
    for each in json.loads(model.with_suffix(".json").read_text())["inputs"]:
        name = each["name"].split(":")[0].removeprefix("train_")
        if each["kind"] == "int":
            least = each["hi"] - 1 if name == "lengths" else each["lo"]
            flags += ["--feed", f"{name}=randint:{least}:{each['hi']}"]
    return flags


def row(args, folder, name, flags):
    """One model: the cells of its row."""
    model, graph = folder / "tf2", folder / "v1.meta"
    args.environment = {"SOFTGPU_DEVICES": "2"} if "--towers" in flags else {}
    export(flags, model, "--tf2-saved-model")
    is_both = not name.startswith("keras")
    if is_both:
        export(flags, graph, "-o")
    predicted, as_it_is = {}, {}
    for path in [model, graph][: 1 + is_both]:
        report, error = tool(args, "lms-tune", path, "--gpu-mem", "16GiB", "--device-profile", "soft")
        if error and path == model:
            # The rest of the sentence names tensors.
            return [name, "no verdict: " + error.split(": ", 2)[-1].split(" (")[0]]
        if not error:
            predicted[path] = report["peak_before"]
        if path == model:
            as_it_is = report
    fed = feeds(model)
    run = [model, *fed, *ONE_THREAD, "--exact-memory", "--steps", "2"]
    plain, error = tool(args, "lms-train", *run)
    if error:
        return [name, error]
    budget = int(predicted[model] * args.part)
    told, error = tool(
        args, "lms-tune", model, "--gpu-mem", str(budget), "--memory-ratio", "1", "--device-profile", "soft", "-o", folder / "plan"
    )
    least = ""
    if error or not (folder / "plan").exists():
        told, error = tool(args, "lms-tune", model, "--gpu-mem", "min", "--device-profile", "soft", "-o", folder / "plan")
        least = " (least)"
        if error:
            return [name, *measured(predicted, model, graph, plain), error.split(": ", 2)[-1]]
    swapped, error = tool(args, "lms-train", *run, "--plan", folder / "plan")
    compared, other = tool(args, "lms-train", model, *fed, *ONE_THREAD, "--steps", str(args.steps), "--compare", "--plan", folder / "plan")
    if error or other:
        return [name, *measured(predicted, model, graph, plain), error or other]
    # What is fed and fetched is not predicted, and is the same with the plan and without.
    measured_bytes = [swapped["traffic"][way] - plain["traffic"][way] for way in ["bytes_out", "bytes_in"]]
    predicted_bytes = [told[way] - as_it_is[way] for way in ["copied_out_bytes", "copied_in_bytes"]]
    moved = [one - other for one, other in zip(measured_bytes, predicted_bytes, strict=True)]
    differing = len(compared["variables_differing"])
    return [
        name,
        *measured(predicted, model, graph, plain),
        f"{peak_of(swapped) / MIB:.2f}{least}",
        f"{swapped['plan']['bytes_out'] / MIB:.2f}",
        " / ".join(f"{bytes:+d}" for bytes in moved),
        f"{'the same' if not compared['first_difference'] and not differing else f'{differing} differ'}, {compared['variables_compared']}",
    ]


def peak_of(trained):
    """The most bytes on a GPU."""
    return max([gpu["peak_bytes"] for gpu in trained.get("gpus", [])], default=trained["memory"]["peak_bytes"])


def first_peak(trained):
    """The most bytes on the first GPU."""
    gpus = trained.get("gpus")
    return gpus[0]["peak_bytes"] if gpus else trained["memory"]["peak_bytes"]


def measured(predicted, model, graph, plain):
    peak = peak_of(plain)
    return [
        f"{predicted[graph] / MIB:.2f}" if graph in predicted else "",
        f"{predicted[model] / MIB:.2f}",
        f"{peak / MIB:.2f}",
        f"{(predicted[model] / peak - 1) * 100:+.1f}%",
    ]


HEAD = """| model | graph of version 1, predicted | function, predicted | measured | error | planned: measured peak | out, MiB | bytes out / in beside the predicted | losses and variables |
|---|--:|--:|--:|--:|--:|--:|--:|---|
"""


FORMS_HEAD = """| model | version 1, peak | measured | function, peak | measured | version 1, above what is kept | function, above what is kept | of that arguments | difference | measured | version 1, step | function, step |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def with_others(page, lines, script="tf2_table.py", part=None):
    """All rows in the order of the models: these, and of the others those that the page has where `script` writes `part`."""
    found = {line.split("|")[1].strip(): line for line in pages.read(page, script, part).splitlines(keepends=True)}
    return [line for name in MODELS if (line := lines.get(name, found.get(name)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="the folder of the three tools")
    parser.add_argument("--only", nargs="+", choices=MODELS, metavar="MODEL", default=list(MODELS))
    parser.add_argument("--part", type=float, default=0.7, help="the part of the peak that plans are made for")
    parser.add_argument("--steps", type=int, default=20, help="steps after which all variables are compared")
    parser.add_argument("--write", help="the page with the table's place")
    parser.add_argument("--forms", action="store_true", help="only compare the peaks of both forms of each, and predict plans for them")
    args = parser.parse_args()
    if args.forms:
        lines = {line.split("|")[1].strip(): line for line in forms(args)}
        if args.write:
            text = FORMS_HEAD + "".join(with_others(args.write, lines, part="forms"))
            pages.write(args.write, "tf2_table.py", text, "forms")
        return
    lines = []
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            cells = row(args, pathlib.Path(folder), name, MODELS[name])
        lines.append(f"| {' | '.join(cells + [''] * (9 - len(cells)))} |\n")
        print(lines[-1], end="", flush=True)
    if args.write:
        pages.write(args.write, "tf2_table.py", HEAD + "".join(with_others(args.write, dict(zip(args.only, lines, strict=True)))))


if __name__ == "__main__":
    main()
