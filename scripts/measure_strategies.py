#!/usr/bin/env python3
"""Hold the planner against TFLMSv2's parameters, trained on the software GPU, and print a table in Markdown.

    scripts/measure_strategies.py --bin target/release
    scripts/measure_strategies.py --bin target/release --write docs/planner-figures.md  # into the page

Each of the models of scripts/limits.py, exported into --work, trains as it is, and in parts of the memory that this takes
with the plans of both strategies: a process for each, in TensorFlow's own pool, with one thread, over a link of --rate.
Printed are the median step, in multiples of that of the graph as it is, and the bytes that a step copies beyond what the
graph copies by itself. The exit status is 1 if a plan runs out of memory or losses differ in a bit.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import limits
import pages
import profiles
from compare_strategies import against_tflms

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("resnet50", "deeplabv3plus", "unet3d", "googlenet")
PARTS = (0.7, 0.5, 0.3)
STRATEGIES = ("tflms", "planned")
MIB = 1 << 20
# What the programs exit with if memory is not enough.
DOES_NOT_FIT = 3


class Bench:
    """Plans and trains models of a folder over a link of one rate."""

    def __init__(self, programs, work, steps, rate):
        self.programs, self.work, self.steps, self.rate = Path(programs).resolve(), Path(work).resolve(), steps, rate
        self.work.mkdir(parents=True, exist_ok=True)
        self.environment = limits.environment() | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_DETERMINISTIC_OPS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
        self.environment.setdefault("LMS_SOFTGPU", str(self.programs / "libsoftgpu.so"))
        self.profile = self.work / "profile.json"
        rate = float(rate.removesuffix("GB/s")) * 1e9
        profiles.write(self.profile, f"soft-{self.rate}", "soft", link_out_bytes_per_second=rate, link_in_bytes_per_second=rate)

    def report(self, program, *flags):
        """The JSON document of a run; none if a model does not train in its memory."""
        command = [self.programs / program, *flags, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode not in (0, DOES_NOT_FIT):
            raise SystemExit(f"measure_strategies.py: {' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def trained(self, model, feeds, memory, *flags):
        device = f"soft:{memory},{self.rate}"
        return self.report("lms-train", model, *feeds, "--device", device, "--threads", "1", "--steps", str(self.steps), *flags)

    def rows(self, name):
        """A row for each part: model, part, budget, and of each strategy what came of it, none where it has no plan."""
        model, feeds = limits.export(name, self.work)
        flags = ("--device-profile", self.profile)
        least = self.report("lms-tune", model, *flags, "--gpu-mem", "1TiB")["least_memory_before"]
        original = self.trained(model, feeds, "16GiB")
        for part in PARTS:
            budget = int(least * part)
            found = {}
            for strategy in STRATEGIES:
                plan = self.work / "plan.json"
                tuned = self.report("lms-tune", model, *flags, "--gpu-mem", str(budget), "--strategy", strategy, "-o", plan)
                has_plan = tuned["verdict"] == "fits_with_swapping"
                found[strategy] = Measured(original, self.trained(model, feeds, budget, "--plan", plan)) if has_plan else None
            yield name, part, budget, found


class Measured:
    """What a plan costs."""

    def __init__(self, original, rewritten):
        self.fits = rewritten is not None
        if self.fits:
            self.same = rewritten["losses"] == original["losses"]
            self.slowdown = rewritten["step_seconds"]["median"] / original["step_seconds"]["median"]
            moved = [report["traffic"]["bytes_out"] + report["traffic"]["bytes_in"] for report in (rewritten, original)]
            self.moved = moved[0] - moved[1]

    def __str__(self):
        return f"{self.slowdown:.2f}x | {self.moved / MIB:.1f}" if self.fits else "out of memory | "


def table(rows):
    heads = " | ".join(f"{name}, step | copies, MiB" for name in STRATEGIES)
    lines = [f"| graph | part of its memory | MiB | {heads} |", "|---|--:|--:|" + "--:|--:|" * len(STRATEGIES)]
    for model, part, budget, found in rows:
        cells = " | ".join(str(of) if of else "no plan | " for of in found.values())
        lines.append(f"| {model} | {part:.0%} | {budget / MIB:.1f} | {cells} |")
    return "\n".join(lines) + "\n"


def summary(rows):
    plans = [of for *_, found in rows for of in found.values() if of]
    fit = [of for of in plans if of.fits]
    lines = [f"Plans that train in the memory that they were made for: {len(fit)} of {len(plans)}. Losses that are the same to the bit: {sum(of.same for of in fit)}."]
    both = [list(found.values()) for *_, found in rows if all(of and of.fits for of in found.values())]
    if both:
        steps = [planned.slowdown / tflms.slowdown for tflms, planned in both]
        copies = [planned.moved / tflms.moved for tflms, planned in both]
        lines += [f"Rows with both: {len(both)}.", *against_tflms(steps, copies)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs and libsoftgpu.so are [%(default)s]")
    parser.add_argument("--work", default=str(ROOT / "target/measured"), help="graphs and plans [%(default)s]")
    parser.add_argument("--rate", default="0.25GB/s", help="of the link, each way [%(default)s]")
    parser.add_argument("--steps", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    bench = Bench(args.bin, args.work, args.steps, args.rate)
    rows = [row for model in args.models for row in bench.rows(model)]
    text = f"On the software GPU with a link of {args.rate}:\n\n{table(rows)}\n{summary(rows)}"
    print(text, end="")
    if args.write:
        pages.write(args.write, "measure_strategies.py", "\n" + text + "\n")
    plans = [of for *_, found in rows for of in found.values() if of]
    return 0 if all(of.fits and of.same for of in plans) else 1


if __name__ == "__main__":
    sys.exit(main())
