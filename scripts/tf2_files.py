#!/usr/bin/env python3
"""Rewrite SavedModels of TensorFlow 2 as files, and train these beside the originals, as tables in Markdown.

    scripts/tf2_files.py memories --bin target/release                            # where only the rewritten file trains; some minutes
    scripts/tf2_files.py memories --bin target/release --only googlenet gpt --write docs/accuracy.md
    scripts/tf2_files.py grappler --bin target/release --write docs/accuracy.md   # what Grappler's defaults come to, in Python

With --only, the other rows of a page stay as they are. The models are those of tf2_table.py, exported by the Python that runs this.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pages
from accuracy import ENVIRONMENT, MIB
from tf2_table import MODELS, export, feeds, tool, with_others

HERE = pathlib.Path(__file__).resolve().parent

#: More than any of the models takes.
AMPLE = "4GiB"

#: How often a memory nearer to the plan's is tried where the original trains too.
TRIES = 3

#: The exit status of lms-train where memory runs out.
OUT_OF_MEMORY = 3


def environment_of(name):
    return {"SOFTGPU_DEVICES": "2"} if "--towers" in MODELS[name] else {}


def is_given_back(args, rewritten, original, folder):
    """Whether the original comes out of a rewritten file again, to the byte."""
    stripped = folder / "stripped"
    subprocess.run([args.bin / "lms-rewrite", "--strip", rewritten, "-o", stripped, "--quiet"], check=True, capture_output=True)
    return (stripped / "saved_model.pb").read_bytes() == (original / "saved_model.pb").read_bytes()


def saved(trained):
    """The values in the checkpoint that a training wrote: all variables, one behind the other."""
    [data] = pathlib.Path(trained["saved"]).parent.glob(pathlib.Path(trained["saved"]).name + ".data-*")
    return data.read_bytes()


def trained(args, file, memory, flags, checkpoint):
    """What lms-train says of a training in so much memory; nothing if it runs out of that."""
    command = [args.bin / "lms-train", file, *flags, "--steps", str(args.steps), "--device", f"soft:{memory}", "--json"]
    command += ["--save", checkpoint]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT, **args.environment})
    if done.returncode == OUT_OF_MEMORY:
        return None
    if done.returncode:
        raise SystemExit(f"{file}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def memory_row(args, folder, name):
    """One model: a memory between the least for which there is a plan and the least that the original takes, and what trains there."""
    model, rewritten = folder / "tf2", folder / "rewritten"
    args.environment = environment_of(name)
    export(MODELS[name], model, "--tf2-saved-model")
    profile = ["--device-profile", "soft"]
    plain, error = tool(args, "lms-tune", model, "--gpu-mem", AMPLE, *profile)
    if error:
        return [error]
    found, error = tool(args, "lms-tune", model, "--gpu-mem", "min", "--memory-ratio", "1", *profile)
    if error:
        return [error]
    needed, least = plain["least_memory_before"], found["gpu_mem"]
    cells = [f"{needed / MIB:.2f}", f"{least / MIB:.2f}"]
    # Two GPUs have a thread each, or one would run all that one of them has to do, and then the other's.
    flags = [*feeds(model), "--threads", "2" if "--towers" in MODELS[name] else "1"]
    memory = needed
    for _ in range(TRIES):
        memory = (least + memory) // 2
        if memory < least or not trained(args, model, memory, flags, folder / "before"):
            break
    else:
        memory = 0
    if memory < least:
        return [*cells, "none found"]
    cells.append(f"{memory / MIB:.2f}")
    report, error = tool(args, "lms-tune", model, "-o", folder / "plan", "--gpu-mem", str(memory), *profile)
    if not error:
        _, error = tool(args, "lms-rewrite", model, "-o", rewritten, "--plan", folder / "plan")
    if error:
        return [*cells, error]
    margin = "called tight" if report["is_tight"] else "by default"
    if not is_given_back(args, rewritten, model, folder):
        raise SystemExit(f"{name}: what --strip gives back is not the original")
    after, ample = (trained(args, *each, flags, folder / each[0].name) for each in [(rewritten, memory), (model, AMPLE)])
    is_same = after and after["losses"] == ample["losses"] and saved(after) == saved(ample)
    told = "the same" if is_same else "**others**"
    return [*cells, margin, "out of memory", "trains" if after else "**out of memory**", told if after else ""]


def in_python(args, model, grappler):
    """What training by the signature in Python comes to."""
    command = [sys.executable, HERE / "train_signature.py", model, "--softgpu", args.bin / "libsoftgpu.so", "--grappler", grappler]
    command += ["--allocator", "exact", "--memory", AMPLE, "--steps", str(args.steps)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{model}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def far(losses, others):
    """By how much losses differ at most, in parts of them."""
    return max(abs(one - other) / max(abs(one), 1e-30) for one, other in zip(losses, others, strict=True))


def grappler_row(args, folder, name):
    """One model: peaks with what `exact` turns off and with Grappler's defaults, and whether the rewritten file computes the same."""
    model, rewritten = folder / "tf2", folder / "rewritten"
    args.environment = {}
    export(MODELS[name], model, "--tf2-saved-model")
    report, error = tool(args, "lms-rewrite", model, "-o", rewritten)
    if error:
        return [error]
    told = {(file, how): in_python(args, file, how) for file in (model, rewritten) for how in ("exact", "default")}
    cells = [f"{told[file, how]['peak_bytes'] / MIB:.2f}" for how in ("exact", "default") for file in (model, rewritten)]
    for how in ("exact", "default"):
        before, after = told[model, how], told[rewritten, how]
        if before["sha256"] == after["sha256"] and before["losses"] == after["losses"]:
            cells.append("the same")
        else:
            cells.append(f"differ; losses by {far(before['losses'], after['losses']):.0e}")
        out, back = (after[f"{way}_bytes"] - before[f"{way}_bytes"] for way in ("out", "in"))
        cells.append(f"{out - report['swapout_bytes']:+d} / {back - report['swapin_bytes']:+d}")
    return cells


TABLES = {
    "memories": (
        memory_row,
        "memories",
        """| model | as it is needs, predicted | least with a plan, predicted | memory | margin | the original there | the rewritten file there | its losses and variables |
|---|--:|--:|--:|---|---|---|---|
""",
        list(MODELS),
    ),
    "grappler": (
        grappler_row,
        "defaults",
        """| model | off: peak as it is | rewritten | default: peak as it is | rewritten | off: losses and variables | bytes beside the plan | default: losses and variables | bytes beside the plan |
|---|--:|--:|--:|--:|---|--:|---|--:|
""",
        [name for name in MODELS if "--towers" not in MODELS[name]],
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="the folder of the tools")
    parser.add_argument("--only", nargs="+", choices=MODELS, metavar="MODEL", help="the models; all by default")
    parser.add_argument("--steps", type=int, default=20, help="steps after which all variables are compared")
    parser.add_argument("--write", help="the page with the table's place")
    args = parser.parse_args()
    row, part, head, names = TABLES[args.table]
    columns = head.splitlines()[0].count("|") - 1
    lines = {}
    for name in args.only or names:
        with tempfile.TemporaryDirectory() as folder:
            cells = [name, *row(args, pathlib.Path(folder), name)]
        lines[name] = f"| {' | '.join(cells + [''] * (columns - len(cells)))} |\n"
        print(lines[name], end="", flush=True)
    if args.write:
        text = head + "".join(with_others(args.write, lines, pathlib.Path(__file__).name, part))
        pages.write(args.write, pathlib.Path(__file__).name, text, part)


if __name__ == "__main__":
    main()
