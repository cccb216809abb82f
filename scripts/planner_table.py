#!/usr/bin/env python3
"""Hold the planner against the bound for the order of its plans, as predicted, and print a table in Markdown.

    scripts/planner_table.py --bin target/release                          # the larger graphs of testdata
    scripts/planner_table.py --bin target/release --write docs/planner-figures.md  # into the page
    scripts/planner_table.py --bin target/release --effort 1 --effort 16   # with several efforts
    scripts/planner_table.py --bin target/release --profile h100 MODEL[,FLAG…]:8GiB,50% …
    scripts/planner_table.py --bin target/release --larger /tmp/models    # larger ones, exported into that folder if they are not there

A row is a graph in a memory, which is a size or a part of the peak that it has with no plan. `bound` is what no plan goes below that
runs the ops in the order of the one found; `plan` is the plan's step, and how many times the bound that is.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import pages

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    f"{ROOT / 'testdata' / 'resnet50_2000_b1.meta'}:4GiB,2GiB",
    f"{ROOT / 'testdata' / 'deeplabv3plus_513_b16.meta'}:16GiB,8GiB,4GiB",
]
# What is not in testdata: how it is exported, and its memories.
LARGER = {
    "resnet50_7500_b1": ("resnet50 --batch 1 --size 7500 --classes 15", "24GiB,16GiB"),
    "deeplabv3plus_1400_b1": ("deeplabv3plus --batch 1 --size 1400", "8GiB,4GiB"),
    "googlenet_2240_b15": ("googlenet --batch 15 --size 2240", "32GiB,16GiB"),
    "bert_512_b32": ("bert", "70%,50%,30%"),
    "gpt_1024_b8": ("gpt", "70%,50%,30%"),
    "unet3d_192_b1": ("unet3d --size 192", "16GiB,8GiB"),
    "isensee3d_192_b1": ("isensee3d --size 192", "16GiB,8GiB"),
    "densenet201_512_b8": ("densenet --layers 201 --batch 8 --size 512", "50%,30%"),
    "mobilenet_1024_b8": ("mobilenet --batch 8 --size 1024 --updates-first", "8GiB,30%"),
}
PROFILES = ["v100-pcie3", "v100-nvlink2"]
NO_END = 1 << 50


def children_seconds():
    """What processors have spent on all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def exported(folder):
    """The rows of the larger models, each of which is exported if it is not there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (words, memories) in LARGER.items():
        path = folder / f"{name}.meta"
        if not path.is_file():
            command = [sys.executable, ROOT / "scripts" / "export_models.py", *words.split(), "-o", path]
            subprocess.run(command, check=True, capture_output=True)
        yield f"{path}:{memories}"


def tune(program, model, profile, memory, effort, strategy="planned"):
    path, *flags = model.split(",")
    command = [program, path, *flags, "--strategy", strategy, "--json", "--device-profile", profile, "--memory-ratio", "1", "--gpu-mem", str(memory), "--effort", str(effort)]
    before = children_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"planner_table.py: {' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout) | {"cpu_seconds": children_seconds() - before}


def bytes_of(program, model, profile, memory):
    """A size as it is given; of a part, that part of the peak."""
    if not memory.endswith("%"):
        return memory
    return int(tune(program, model, profile, NO_END, 1)["peak_before"] * float(memory[:-1]) / 100)


def milliseconds(seconds):
    return f"{seconds * 1e3:,.0f}" if seconds is not None else "-"


def planned(report):
    if report["verdict"] != "fits_with_swapping":
        return {"fits": "fits as it is"}.get(report["verdict"], "no plan"), "-"
    after, bound = report["step_seconds_after"], report["step_bound_seconds"]
    above = f" ({after / bound:.2f}x)" if bound else ""
    tight = ", tight" if report["is_tight"] else ""
    return f"{milliseconds(after)}{above}{tight}", f"{report['cpu_seconds']:.1f}"


def rows(program, models, profiles, efforts, is_held_against_peer):
    for model in models:
        name, _, memories = model.rpartition(":")
        for memory in memories.split(","):
            for profile in profiles:
                size = bytes_of(program, name, profile, memory)
                reports = [tune(program, name, profile, size, effort) for effort in efforts]
                bounds = [report["step_bound_seconds"] for report in reports if report["step_bound_seconds"]]
                cells = [cell for report in reports for cell in planned(report)]
                stem = Path(name.split(",")[0]).stem
                before = milliseconds(reports[0]["step_seconds_before"])
                computing = milliseconds(reports[0]["floors"]["step_seconds"])
                if is_held_against_peer:
                    cells.append(planned(tune(program, name, profile, size, efforts[0], "tflms"))[0].partition(" ")[0])
                # Each plan has an order of its own; the lowest of the bounds holds for all of them.
                yield [stem, memory, profile, before, computing, milliseconds(min(bounds, default=None)), *cells]


def table(lines, efforts, is_held_against_peer):
    heads = ["graph", "memory", "profile", "as it is", "computing", "bound"]
    for effort in efforts:
        heads += [f"plan, `--effort {effort:g}`", "CPU s"]
    heads += ["`tflms`"] if is_held_against_peer else []
    yield "| " + " | ".join(heads) + " |"
    yield "|---|--:|---|" + "--:|" * (len(heads) - 3)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=ROWS, metavar="MODEL[,FLAG…]:MEMORY,…")
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where lms-tune is [%(default)s]")
    parser.add_argument("--profile", action="append", help="may be given several times [v100-pcie3, v100-nvlink2]")
    parser.add_argument("--effort", action="append", type=float, help="may be given several times [1]")
    parser.add_argument("--larger", metavar="DIR", help="the larger models, in this folder, beside the plans of TFLMSv2's thresholds")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    program = str(Path(args.bin).resolve() / "lms-tune")
    efforts = args.effort or [1.0]
    lines = []
    models = exported(args.larger) if args.larger else args.models
    made = rows(program, models, args.profile or PROFILES, efforts, bool(args.larger))
    for line in table(made, efforts, bool(args.larger)):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        pages.write(args.write, "planner_table.py", "\n" + "\n".join(lines) + "\n\n", "larger" if args.larger else None)


if __name__ == "__main__":
    sys.exit(main())
