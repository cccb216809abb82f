#!/usr/bin/env python3
"""Trains plans in the memory that they were made for, each several times in processes of its own, and prints a table in Markdown.

    scripts/trained_again.py --bin target/release                                   # all tables
    scripts/trained_again.py --bin target/release --write docs/planner-figures.md   # into the page
    scripts/trained_again.py --bin target/release --only parts --model gpt_32_b4
    scripts/trained_again.py --bin target/release --only least --keep FOLDER --times 4

`parts`: the newer models of testdata, in 60% and 40% of the peak that they have as they are, or in the least for which there is a plan,
if that is more. `least`: larger models, in the least that `--gpu-mem min` names; they are exported into a folder, which --keep keeps.
`links`: models of testdata in 70%, 50% and 30% of their peaks, or in the least, over links of two rates; each also with one thread beside
the original, where losses and all variables are compared after 20 steps, and bytes and steps with what was planned.

What lies where in TensorFlow's pool depends on when copies end and on what runs first, which is another order in each process; so a
plan that trains once need not train the next time. The exit status is 1 if a row trains less often than is promised.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pages
import profiles
from accuracy import LOSS_BYTES

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
NEWER = [
    "gpt_32_b4",
    "gan_16_b8",
    "vit_32_b8_fp16",
    "ctc_48_b4",
    "static_lstm_12_b8",
    "dynamic_rnn_20_b4",
    "mobilenet_64_b4",
    "efficientnet_64_b2",
]
PARTS = [60, 40]
LINKED = [
    "bert_32_b8",
    "gpt_32_b4",
    "vit_32_b8_fp16",
    "mobilenet_64_b4",
    "efficientnet_64_b2",
    "cond_cnn",
    "googlenet_64_b2",
    "deeplabv3plus_65_b2",
]
LINKED_PARTS = [70, 50, 30]
RATES = ["0.25GB/s", "1GB/s"]
# How each is called, how it is exported, and with which shapes.
LARGER = {
    "resnet50": ("ResNet50, 448²", "resnet50 --batch 1 --size free --classes 10 --optimizer sgd", ["images=1x448x448x3"]),
    "googlenet": ("GoogLeNet, 256²", "googlenet --batch 1 --size free --classes 10 --optimizer sgd", ["images=1x256x256x3"]),
    "deeplabv3plus": ("DeepLabv3+, 257²", "deeplabv3plus --batch 1 --size free --middle-blocks 1 --optimizer sgd", ["images=1x257x257x3", "labels=1x257x257x1"]),
    "unet3d": ("3D U-Net, 64³", "unet3d --batch 1 --size free --base-filters 8 --optimizer sgd", ["volumes=1x64x64x64x4", "truth=1x64x64x64x3"]),
    "unet3d_adam": ("3D U-Net, 64³, Adam", "unet3d --batch 1 --size free --base-filters 8", ["volumes=1x64x64x64x4", "truth=1x64x64x64x3"]),
}
# How often of ten each is to train.
PROMISED = {"parts": 10, "least": 9, "links": 10}
HEADS = {
    "parts": ["model", "in", "MiB", "peak as it is, MiB", "trained"],
    "least": ["model", "in", "MiB", "peak as it is, MiB", "trained"],
    "links": [
        "link", "model", "in", "MiB", "peak as it is, MiB", "trained", "out, MiB", "bytes out / in beside the predicted",
        "step, predicted", "measured", "after 20 steps",
    ],
}


class Tools:
    """The programs."""

    def __init__(self, folder, args):
        self.folder, self.times, threads = folder, args.times, args.threads
        self.ratio = ["--memory-ratio", args.memory_ratio] if args.memory_ratio else []
        self.profile, self.link = "soft", ""
        self.threads = ["--threads", str(threads)] if threads else []
        self.environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        self.environment.setdefault("LMS_SOFTGPU", str(folder / "libsoftgpu.so"))

    def over(self, rate, folder):
        """The same over a link of this rate."""
        other = copy.copy(self)
        other.profile, other.link = str(Path(folder) / "profile.json"), f",{rate}"
        bytes_per_second = float(rate.removesuffix("GB/s")) * 1e9
        profiles.write(other.profile, f"soft-{rate}", "soft", link_out_bytes_per_second=bytes_per_second, link_in_bytes_per_second=bytes_per_second)
        return other

    def tune(self, model, shapes, memory, plan=None):
        """What lms-tune says, of the step that needs the most, and whether there is a plan."""
        kept = ["-o", str(plan)] if plan else []
        command = [self.folder / "lms-tune", model, *shapes, "--device-profile", self.profile, *self.ratio, "--json", "--gpu-mem", str(memory), *kept]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode not in (0, 3):
            raise SystemExit(f"trained_again.py: {' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr.strip()}")
        report = json.loads(done.stdout)
        steps = report.get("steps", [report])
        return max(steps, key=lambda step: step["peak_before"]), done.returncode == 0

    def train(self, model, shapes, feeds, memory, plan):
        """How often it trains, and what was said the last time that it did not."""
        device = ["--device", f"soft:{memory}{self.link}", "--steps", "3", "--quiet", *self.threads]
        command = [self.folder / "lms-train", model, *shapes, *feeds, *device, "--plan", str(plan)]
        trained, said = 0, ""
        for _ in range(self.times):
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
            trained += done.returncode == 0
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if "tensor:" in line] or done.stderr.splitlines() or [""]
                said = f"exit status {done.returncode}, {lines[-1].strip()[:120]}"
        return trained, said

    def measured(self, model, fed, *flags):
        """The JSON document of a training with one thread, in ample memory."""
        command = [self.folder / "lms-train", model, *fed, "--device", f"soft:16GiB{self.link}", "--threads", "1", *flags, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if not done.stdout:
            raise SystemExit(f"trained_again.py: {' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr.strip()}")
        return json.loads(done.stdout)


def feeds(manifest):
    """The flags that feed a model what it reads."""
    kinds = {"int": "randint:{lo}:{hi}", "const": "const:{value}"}
    fed = [i for i in json.loads(Path(manifest).read_text())["inputs"] if i["kind"] in kinds]
    values = [f"{i['name'].split(':')[0]}={kinds[i['kind']].format(**{'lo': 0, **i})}" for i in fed]
    return [flag for value in values for flag in ("--feed", value)]


def python():
    own = ROOT / ".venv/bin/python"
    return str(own) if own.exists() else sys.executable


def parts(tools, folder, names):
    """A row for each model and part."""
    for name in [name for name in NEWER if not names or name in names]:
        for cells, trained, *_ in in_parts(tools, folder, name, PARTS):
            yield cells, trained


def in_parts(tools, folder, name, parts):
    """A row for each part of a model of testdata: its cells, how often it trained, how it was run, and what lms-tune said."""
    model = f"{ROOT}/testdata/{name}.meta"
    fed = feeds(f"{ROOT}/testdata/{name}.json")
    peak = tools.tune(model, [], 1 << 50)[0]["peak_before"]
    least = tools.tune(model, [], "min")[0]["gpu_mem"]
    for part in parts:
        memory = max(int(peak * part / 100), least)
        plan = Path(folder) / f"{name}.json"
        report, fits = tools.tune(model, [], memory, plan)
        which = f"{part}%" if memory > least else f"{part}%: the least"
        run = (model, [], fed, memory, plan)
        yield *row(tools, [name, which], report, fits, run, peak), run, report
        if memory == least:
            break


def links(tools, folder, names):
    """A row for each link, model and part."""
    for rate in RATES:
        over = tools.over(rate, folder)
        for name in [name for name in LINKED if not names or name in names]:
            for cells, trained, run, report in in_parts(over, folder, name, LINKED_PARTS):
                yield [rate, *cells, *beside_the_plan(over, run, report)], trained


def beside_the_plan(tools, run, report):
    """What was moved beside what was planned, a step as predicted and as measured, in multiples of the original's, and whether all is the same."""
    model, _, fed, _, plan = run
    if report["verdict"] != "fits_with_swapping":
        return [""] * 5
    plain = tools.measured(model, fed, "--steps", "5")
    swapped = tools.measured(model, fed, "--steps", "5", "--plan", plan)
    compared = tools.measured(model, fed, "--steps", "20", "--compare", "--plan", plan)
    moved = swapped["traffic"]
    beside = [moved["bytes_out"] - LOSS_BYTES - report["copied_out_bytes"], moved["bytes_in"] - report["copied_in_bytes"]]
    differing = len(compared["variables_differing"])
    same = "the same" if not compared["first_difference"] and not differing else f"{differing} differ"
    return [
        f"{swapped['plan']['bytes_out'] / MIB:.2f}",
        " / ".join(f"{bytes:+d}" for bytes in beside),
        f"{report['step_seconds_after'] / report['step_seconds_before']:.2f}x",
        f"{swapped['step_seconds']['median'] / plain['step_seconds']['median']:.2f}x",
        f"{same}, {compared['variables_compared']}",
    ]


def least(tools, folder, names):
    """A row for each model."""
    for name in [name for name in LARGER if not names or name in names]:
        title, how, given = LARGER[name]
        model = Path(folder) / f"{name}.meta"
        if not model.exists():
            subprocess.run([python(), f"{ROOT}/scripts/export_models.py", *how.split(), "-o", model], check=True, capture_output=True)
        shapes = [flag for shape in given for flag in ("--shape", shape)]
        plan = Path(folder) / f"{name}_plan.json"
        report, fits = tools.tune(model, shapes, "min", plan)
        run = (model, shapes, feeds(model.with_suffix(".json")), report["gpu_mem"], plan)
        yield row(tools, [title, "the least"], report, fits, run, report["peak_before"])


def row(tools, cells, report, fits, run, peak):
    """The cells of a row, and how often it trained."""
    memory = run[3]
    if not fits:
        return [*cells, f"{memory / MIB:.2f}", f"{peak / MIB:.2f}", "no plan"], None
    trained, said = tools.train(*run)
    if said:
        print(f"{cells[0]}, {cells[1]}: {said}", file=sys.stderr, flush=True)
    tight = ", tight" if report["is_tight"] else ""
    how = "as it is" if report["verdict"] == "fits" else f"{trained} of {tools.times}{tight}"
    return [*cells, f"{memory / MIB:.2f}", f"{peak / MIB:.2f}", how], trained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs and libsoftgpu.so are [%(default)s]")
    parser.add_argument("--only", choices=PROMISED, help="one table")
    parser.add_argument("--model", action="append", help="only this one; may be given several times")
    parser.add_argument("--times", type=int, default=10, help="how many processes train a plan [%(default)s]")
    parser.add_argument("--threads", type=int, help="TensorFlow's [as many as there are cores]")
    parser.add_argument("--memory-ratio", metavar="RATIO", help="the part of the memory that a plan may use [as lms-tune has it]")
    parser.add_argument("--keep", metavar="FOLDER", help="keep exported models here, and take what is there")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    tools = Tools(Path(args.bin).resolve(), args)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or temporary
        Path(folder).mkdir(parents=True, exist_ok=True)
        for kind, rows in {"parts": parts, "least": least, "links": links}.items():
            if args.only not in (None, kind):
                continue
            heads = HEADS[kind]
            lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "--:|" * (len(heads) - 2)]
            print("\n".join(lines), flush=True)
            for cells, trained in rows(tools, folder, args.model):
                lines.append("| " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
                failed |= trained is not None and trained * 10 < PROMISED[kind] * tools.times
            if args.write:
                pages.write(args.write, "trained_again.py", "\n" + "\n".join(lines) + "\n\n", kind)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
