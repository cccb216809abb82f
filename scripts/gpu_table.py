#!/usr/bin/env python3
"""Train large models on a GPU, as they are and within parts of their memory, beside what lms-tune predicts; print a table in Markdown.

    scripts/gpu_table.py --bin target/release --profile h200 MODEL.meta:70%,50%,30% …
    scripts/gpu_table.py --strategy tflms …          # with plans of TFLMSv2's strategy
    scripts/gpu_table.py --measured …                # plan by the op times and scratch memory of the run as it is
    scripts/gpu_table.py --allocator async …         # with CUDA's allocator
    scripts/gpu_table.py --device soft --profile soft …

A part is one of the peak that is predicted for the model as it is. Beside a model there is the .json that export_models.py writes, which
says what to feed. Each run is a process of its own that has so much memory and no more; the first steps, in which cuDNN's algorithms are
timed, are left out. `certain` is a plan that lms-tune calls one that fits, `tight` one of which it says that it may not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import limits

GIB = 1 << 30
WARMUP = "4"
NO_END = "1TiB"
OUT_OF_MEMORY = 3

# Of large graphs TensorFlow would say a lot.
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3"}


class Table:
    """Runs the tools, and keeps what they say of each row."""

    def __init__(self, args):
        self.args = args
        self.environment = os.environ | ENVIRONMENT
        if args.allocator == "async" and limits.is_real(args.device):
            self.environment["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"

    def run(self, program, model, *flags):
        """The document that a tool prints; none where memory does not suffice."""
        command = [str(Path(self.args.bin) / program), str(model), "--json", *flags]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode not in (0, OUT_OF_MEMORY):
            raise SystemExit(f"gpu_table.py: {' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def tune(self, model, memory, *flags):
        return self.run("lms-tune", model, "--gpu-mem", str(memory), "--device-profile", self.args.profile, *flags)

    def train(self, model, memory, *flags):
        mark = "," if limits.is_real(self.args.device) else ":"
        device = self.args.device + (f"{mark}{memory}" if memory else "")
        steps = ("--warmup", WARMUP, "--steps", str(self.args.steps + 1))
        return self.run("lms-train", model, "--device", device, *steps, *limits.feeds(str(model)), *flags)

    def rows(self, model, parts, folder):
        """The row of a model as it is, and one for each part of its peak."""
        profile = ("--profile", f"{folder}/profile.json")
        measured = self.train(model, None, *profile)
        times = ("--op-times", f"{folder}/profile.json") if self.args.measured else ()
        predicted = self.tune(model, NO_END, *times)
        yield row(model, "as it is", predicted, "", measured, before=True)
        for part in parts:
            memory = int(predicted["peak_before"] * float(part.rstrip("%")) / 100)
            plan = f"{folder}/plan.json"
            flags = ("--strategy", self.args.strategy, "--allocator", self.args.allocator, "-o", plan)
            found = self.tune(model, memory, *times, *flags)
            where = f"{part} = {memory / GIB:.2f} GiB"
            if found is None or found["verdict"] == "does_not_fit":
                yield cells(model, where, "no plan")
                continue
            sure = "tight" if found["is_tight"] else "certain"
            trained = self.train(model, memory, "--plan", plan)
            yield row(model, where, found, sure, trained) if trained else cells(model, where, sure, "out of memory")


def row(model, where, predicted, sure, measured, before=False):
    """What was predicted and what was measured."""
    when = "before" if before else "after"
    step, peak = predicted[f"step_seconds_{when}"], predicted[f"peak_{when}"]
    trained, took = measured["step_seconds"]["median"], measured["memory"]["peak_bytes"]
    moved = measured["traffic"]
    beyond = {way: moved[f"bytes_{way}"] - (0 if before else predicted[f"copied_{way}_bytes"]) for way in ("out", "in")}
    return cells(
        model,
        where,
        sure,
        f"{trained * 1e3:,.1f}",
        f"{step * 1e3:,.1f}",
        f"{step / trained - 1:+.1%}",
        f"{took / GIB:.2f}",
        f"{peak / GIB:.2f}",
        f"{moved['bytes_out'] / GIB:.2f}",
        f"{moved['bytes_in'] / GIB:.2f}",
        "" if before else f"{beyond['out']:+,}, {beyond['in']:+,}",
    )


HEAD = (
    "model",
    "memory",
    "plan",
    "step, ms",
    "predicted",
    "error",
    "peak, GiB",
    "predicted",
    "out, GiB",
    "in, GiB",
    "bytes beside the predicted ones, out, in",
)


def cells(model, *texts):
    """A row of the table, filled up with empty cells."""
    name = Path(model).stem
    return "| " + " | ".join([name, *texts, *[""] * (len(HEAD) - 1 - len(texts))]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.meta:PART,…", help="a model, and parts of its peak as 50%%")
    parser.add_argument("--bin", default="target/release", help="where the programs are [%(default)s]")
    parser.add_argument("--device", default="gpu:0", help="gpu:N or soft [%(default)s]")
    parser.add_argument("--profile", default="h200", help="what lms-tune takes the device for [%(default)s]")
    parser.add_argument("--strategy", default="planned", help="as for lms-tune [%(default)s]")
    parser.add_argument("--allocator", default="bfc", help="bfc, or async: TF_GPU_ALLOCATOR=cuda_malloc_async [%(default)s]")
    parser.add_argument("--measured", action="store_true", help="plan by what the run as it is took")
    parser.add_argument("--steps", type=int, default=8, help="how many steps are timed [%(default)s]")
    args = parser.parse_args()
    table = Table(args)
    print("| " + " | ".join(HEAD) + " |", flush=True)
    print("|---|---|---|" + "--:|" * (len(HEAD) - 3), flush=True)
    for each in args.models:
        model, _, parts = each.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            for line in table.rows(Path(model), [part for part in parts.split(",") if part], folder):
                print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
