#!/usr/bin/env python3
"""Measure how far four small models grow in a fixed memory, without LMS and with it, on the software GPU; draw charts.

    scripts/curves.py --bin target/release                            # charts to docs/charts, the table to the terminal
    scripts/curves.py --bin target/release --write docs/benchmarks.md # and the table into the page
    scripts/curves.py --only deeplabv3plus                            # one model; may be given several times

One `lms-train --sweep` for each model, of real TensorFlow. Finished points are kept in the folder of --work: what was
broken off goes on behind them, and a chart that is made again of the same points is the same to the byte. The folder
of --bin holds lms-train and libsoftgpu.so. Needs the Python packages of scripts/requirements.txt, in .venv or in the
Python that runs this.
"""

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pages
from limits import environment, python
from reproducing.asking import ROOT, Asker

# The same plans and losses each time; TensorFlow quiet.
ENVIRONMENT = {"TF_DETERMINISTIC_OPS": "1", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Curve:
    title: str
    export: str
    # What follows `lms-train MODEL`.
    sweep: str
    # How many sides grow.
    dimensions: int = 2


CURVES = {
    "resnet50": Curve(
        "ResNet50",
        "resnet50 --batch 1 --size free --classes 10 --optimizer sgd",
        "--device soft:500MiB --feed labels=randint:0:10 --sweep images:1,2=128..1280/128",
    ),
    "resnet50_exact": Curve(
        "ResNet50, no pool",
        "resnet50 --batch 1 --size free --classes 10 --optimizer sgd",
        "--device soft:500MiB --exact-memory --feed labels=randint:0:10 --sweep images:1,2=128..1280/128",
    ),
    "deeplabv3plus": Curve(
        "DeepLabv3+",
        "deeplabv3plus --batch 1 --size free --middle-blocks 1 --optimizer sgd",
        "--device soft:400MiB --feed labels=randint:0:21 --sweep images:1,2+labels:1,2=64..640/64",
    ),
    "googlenet": Curve(
        "GoogLeNet",
        "googlenet --batch 1 --size free --classes 10 --optimizer sgd",
        "--device soft:96MiB --feed labels=randint:0:10 --sweep images:1,2=32..640/32",
    ),
    "isensee3d": Curve(
        "3D U-Net",
        "isensee3d --batch 1 --size free --base-filters 4 --optimizer sgd",
        "--device soft:96MiB --feed truth=randint:0:2 --sweep volumes:1,2,3+truth:1,2,3=16..112/16",
        dimensions=3,
    ),
}
STEPS = "--threads 1 --steps 1"


def measure(name, curve, asker, charts):
    """Runs the sweep and draws it; returns its document."""
    graph = asker.export(name, curve.export)
    sweep = f"lms-train {graph} {curve.sweep} {STEPS}"
    asker.note(f"{sweep} --sweep-file {name}.jsonl --plot {name}.svg")
    command = [asker.programs / "lms-train", *shlex.split(sweep)[1:], "--sweep-file", f"{name}.jsonl"]
    command = [str(word) for word in (*command, "--plot", charts / f"{name}.svg", "--json")]
    softgpu = {"LMS_SOFTGPU": str(asker.programs / "libsoftgpu.so")}
    done = subprocess.run(command, cwd=asker.work, env=softgpu | environment() | ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"curves.py: {shlex.join(command)}: exit status {done.returncode}")
    return json.loads(done.stdout)


def row(name, curve, document):
    """A line of the table: both limits, how many times larger, and what stopped the sweep."""
    without = document["largest_without_lms"] or 0
    swapped = document["largest_with_lms"] or without
    times = f"{(swapped / without) ** curve.dimensions:.1f}x" if without else ""
    power = "²" if curve.dimensions == 2 else "³"
    memory = curve.sweep.split("soft:")[1].split()[0]
    last = document["rows"][-1]
    message = " ".join((last["message"] or "").split()).replace(f"{name}.meta: ", "")
    stopped = "" if last["outcome"] == "trained" else f"{last['size']}{power}: {message}"
    chart = f"[{curve.title}](charts/{name}.svg)"
    return f"| {chart} | {memory} | {without}{power} | {swapped}{power} | {times} | {stopped} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs are [%(default)s]")
    parser.add_argument("--work", default=str(ROOT / "target/curves"), help="graphs and finished points [%(default)s]")
    parser.add_argument("--charts", default=str(ROOT / "docs/charts"), help="where charts go [%(default)s]")
    parser.add_argument("--only", choices=CURVES, action="append", help="only this model (may be repeated)")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write makes the whole table: it does not go with --only")
    charts = Path(args.charts).resolve()
    charts.mkdir(parents=True, exist_ok=True)
    asker = Asker(args.bin, args.work, python())
    chosen = {name: curve for name, curve in CURVES.items() if not args.only or name in args.only}
    rows = [row(name, curve, measure(name, curve, asker, charts)) for name, curve in chosen.items()]
    head = "| model | memory | largest without LMS | with LMS | times as many | what stopped it |\n"
    text = head + "|---|--:|--:|--:|--:|---|\n" + "\n".join(rows) + "\n\n```\n" + "\n".join(asker.commands) + "\n```\n"
    print(text, end="")
    if args.write:
        pages.write(args.write, "curves.py", "\n" + text + "\n")


if __name__ == "__main__":
    sys.exit(main())
