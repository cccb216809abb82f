#!/usr/bin/env python3
"""Hold what lms-tune predicts against what TensorFlow does, and print the comparison as a table in Markdown.

    scripts/accuracy.py --bin target/release                             # peaks and bytes of all models and plans
    scripts/accuracy.py --bin target/release --quick                     # of the smaller half
    scripts/accuracy.py --bin target/release --limits                    # least memory too; each takes minutes
    scripts/accuracy.py --bin target/release --limits --write docs/accuracy.md
    scripts/accuracy.py --bin target/release --device gpu:0,4GiB --device-profile h200

The folder holds lms-tune, lms-train, lms-rewrite and libsoftgpu.so. TensorFlow is found as lms-train finds it (LMS_TENSORFLOW).
Exit status: 0 if all errors are within the bounds that lms-tune states, else 1.
"""

import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import limits
import pages

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20

# lms-train fetches the loss, which a step by itself does not copy: one 32-bit number.
LOSS_BYTES = 4

# How often a plan is run.
REPETITIONS = 3

ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Model:
    name: str
    # What is fed, several parted by spaces: as for lms-train, or NAME=distinct, numbers of which no two are the same.
    feed: str
    flags: tuple = ()
    quick: bool = False
    # How many steps are run before one is measured.
    warmup: int = 1

    def feeds(self, folder):
        """The flags of lms-train that say so; files go to a folder."""
        for feed in self.feed.split():
            name, _, values = feed.partition("=")
            yield "--feed"
            yield f"{name}={self.distinct(name, folder)}" if values == "distinct" else feed

    def distinct(self, name, folder):
        """A file of NumPy's with what a placeholder of 32-bit integers is fed: 0, 1, 2, and so on."""
        inputs = json.loads((ROOT / "testdata" / f"{self.name}.json").read_text())["inputs"]
        (shape,) = (each["feed_shape"] for each in inputs if each["name"].split(":")[0] == name)
        header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".ljust(117) + "\n"
        numbers = range(math.prod(shape))
        path = Path(folder) / f"{self.name}.{name}.npy"
        content = struct.pack(f"<{len(numbers)}i", *numbers)
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)
        return path


@dataclass(frozen=True)
class Plan:
    name: str
    # None: the graph as it is.
    flags: tuple | None
    quick: bool = False


MODELS = (
    Model("mnist_cnn", "labels=randint:0:10", quick=True),
    Model("mnist_cnn_bN_sgd", "labels=randint:0:10", ("--batch-size", "256")),
    Model("googlenet_64_b2", "labels=randint:0:10", quick=True),
    Model("unet3d_16_b1", "truth=randint:0:2", quick=True),
    Model("resnet50_64_b2", "labels=randint:0:10"),
    Model("deeplabv3plus_65_b2", "labels=randint:0:21"),
    # Where the data decide how much there is, they are such that it is the most that it can be: the predictions are for that. No row of a
    # table is looked up twice, and the longest text is as long as can be.
    Model("gpt_32_b4", "tokens=distinct"),
    # Its loss scale is too large at first, so that the update, which is in a branch, is left out.
    Model("vit_32_b8_fp16", "labels=randint:0:10", warmup=12),
    Model("gan_16_b8", "", ("--train-op", "train_d")),
    Model("static_lstm_12_b8", "tokens=distinct next_tokens=randint:0:200"),
    Model("dynamic_rnn_20_b4", "tokens=distinct lengths=const:20 labels=randint:0:2"),
    Model("ctc_48_b4", "frame_lengths=const:48 labels=randint:0:10 label_lengths=const:12"),
    Model("mobilenet_64_b4", "labels=randint:0:10"),
    Model("efficientnet_64_b2", "labels=randint:0:10"),
)

PLANS = (
    Plan("as it is", None, quick=True),
    Plan("1/1/0/0", ("--swapout-threshold", "1", "--swapin-ahead", "1"), quick=True),
    Plan("1/1/0/3", ("--swapout-threshold", "1", "--swapin-ahead", "1", "--sync-mode", "3")),
    Plan("20/5/10/0", ("--swapout-threshold", "20", "--swapin-ahead", "5", "--swapin-groupby", "10")),
)


@dataclass
class Row:
    model: str
    plan: str
    # Pairs of bytes: measured, predicted.
    peak: tuple
    out: tuple
    into: tuple
    # Of a peak and of a least memory, as lms-tune states them.
    bounds: tuple
    # None: not looked for.
    limit: tuple | None = None
    # What suffices whenever copies end, as predicted.
    limit_whenever: int = 0

    def is_by_chance(self):
        """Whether the least memory is more than predicted by no more than the prediction says depends on when copies end."""
        return self.limit is not None and self.limit[1] < self.limit[0] <= self.limit_whenever


@dataclass
class Table:
    rows: list = field(default_factory=list)

    def worst(self, figure):
        """The largest error of a figure, as a part of what was measured, and where it is."""
        pairs = [(getattr(row, figure), row) for row in self.rows]
        errors = [(abs(error(pair)), row) for pair, row in pairs if pair is not None]
        return max(errors, key=lambda found: found[0]) if errors else None

    def wrong_bytes(self):
        return [row for row in self.rows if row.out[0] != row.out[1] or row.into[0] != row.into[1]]

    def markdown(self):
        lines = [
            "| model | plan | peak, MiB | predicted | error | least memory, MiB | predicted | error | whenever copies end "
            "| bytes out | predicted | bytes in | predicted |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for row in self.rows:
            limit = f"{compared(row.limit)} | {row.limit_whenever / MIB:.2f}" if row.limit else "| | | "
            lines.append(
                f"| {row.model} | {row.plan} | {compared(row.peak)} | {limit} "
                f"| {row.out[0]} | {row.out[1]} | {row.into[0]} | {row.into[1]} |"
            )
        return "\n".join(lines) + "\n"

    def summary(self):
        lines = []
        for figure, name in (("peak", "peak"), ("limit", "least memory")):
            if worst := self.worst(figure):
                part, row = worst
                lines.append(f"Worst error of the {name}: {part:.1%} ({row.model}, {row.plan}).")
        if chances := [f"{row.model} {row.plan}" for row in self.rows if row.is_by_chance()]:
            lines.append(f"Between what suffices as predicted and what does whenever copies end: {', '.join(chances)}.")
        wrong = self.wrong_bytes()
        where = ", ".join(f"{row.model} {row.plan}" for row in wrong)
        lines.append(f"Bytes moved: {len(self.rows) - len(wrong)} of {len(self.rows)} exact{': not ' + where if wrong else ''}.")
        return "\n".join(lines) + "\n"


def error(pair):
    measured, predicted = pair
    return (predicted - measured) / measured


def compared(pair):
    measured, predicted = pair
    return f"{measured / MIB:.2f} | {predicted / MIB:.2f} | {error(pair):+.1%}"


class Tools:
    """The programs that are compared."""

    def __init__(self, args):
        self.folder = Path(args.bin)
        self.device = args.device
        self.profile = args.device_profile
        self.limit_seconds = args.limit_seconds
        self.environment = os.environ | ENVIRONMENT | limits.determinism(self.device)
        if not limits.is_real(self.device):
            self.environment.setdefault("LMS_SOFTGPU", str((self.folder / "libsoftgpu.so").resolve()))

    def run(self, program, model, *flags, timeout=None):
        command = [str(self.folder / program), str(ROOT / "testdata" / f"{model.name}.meta"), *model.flags, *flags]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise SystemExit(f"accuracy.py: {' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
        return done.stdout

    def plan(self, model, plan, folder):
        """The plan's flags for lms-train and lms-tune."""
        if plan.flags is None:
            return ()
        path = str(Path(folder) / f"{model.name}.plan.json")
        self.run("lms-rewrite", model, *plan.flags, "--dry-run", "--quiet", "--plan-out", path)
        return ("--plan", path)

    def predict(self, model, plan_flags):
        flags = ("--json", "--device-profile", self.profile, "--gpu-mem", "1TiB", *plan_flags)
        return json.loads(self.run("lms-tune", model, *flags))

    def measure(self, model, plan_flags):
        """The report of the run with the median of peaks: where a plan does not wait for its copies, it is a matter of chance."""
        runs = [self.measure_once(model, plan_flags) for _ in range(REPETITIONS if plan_flags else 1)]
        return sorted(runs, key=lambda report: report["memory"]["peak_bytes"])[len(runs) // 2]

    def measure_once(self, model, plan_flags):
        flags = ["--json", "--device", self.device, "--threads", "1", "--steps", "3", "--warmup", str(model.warmup)]
        if self.device == "soft":
            flags.append("--exact-memory")
        with tempfile.TemporaryDirectory() as folder:
            return json.loads(self.run("lms-train", model, *flags, *model.feeds(folder), *plan_flags))

    def least_memory(self, model, plan_flags):
        """The least memory in which it trained; none if the search took too long."""
        flags = ("--find-limit", "--json", "--quiet", "--threads", "1", *plan_flags)
        try:
            with tempfile.TemporaryDirectory() as folder:
                report = self.run("lms-train", model, *flags, *model.feeds(folder), timeout=self.limit_seconds)
            return json.loads(report)["trains_bytes"]
        except subprocess.TimeoutExpired:
            print(f"{model.name}: no least memory in {self.limit_seconds} s", file=sys.stderr)
            return None


def compare(tools, model, plan, wants_limit):
    with tempfile.TemporaryDirectory() as folder:
        plan_flags = tools.plan(model, plan, folder)
        predicted = tools.predict(model, plan_flags)
        measured = tools.measure(model, plan_flags)
        row = Row(
            model.name,
            plan.name,
            (measured["memory"]["peak_bytes"], predicted["peak_after"]),
            (measured["traffic"]["bytes_out"] - LOSS_BYTES, predicted["copied_out_bytes"]),
            (measured["traffic"]["bytes_in"], predicted["copied_in_bytes"]),
            bounds(predicted),
        )
        if wants_limit and (least := tools.least_memory(model, plan_flags)):
            row.limit = (least, predicted["least_memory_after"])
            row.limit_whenever = predicted["least_memory_whenever_copies_end"]
        return row


def bounds(predicted):
    """The errors that lms-tune states: parts of what is measured, bytes that may be more, and the part that is most."""
    limit = predicted["least_memory_error_bound"]
    return (predicted["error_bound"], 0, 0.0), (limit["part"], limit["bytes"], limit["largest_part"])


def broken(table):
    """Which bounds are broken, in words."""
    for row in table.rows:
        for name, pair, bound in zip(("peak", "least memory"), (row.peak, row.limit), row.bounds):
            part, size, most = bound
            if name == "least memory" and row.is_by_chance():
                continue
            is_off = pair is not None and abs(error(pair)) > part
            if is_off and (abs(pair[0] - pair[1]) > size or abs(error(pair)) > most):
                yield f"{row.model}, {row.plan}: {name} is off by {error(pair):+.1%}, stated are {part:.0%} or {size // MIB} MiB"
    for row in table.wrong_bytes():
        yield f"{row.model}, {row.plan}: bytes out {row.out[0]}, not {row.out[1]}; in {row.into[0]}, not {row.into[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs are [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="the smaller half only")
    parser.add_argument("--model", action="append", help="only this model; may be given several times")
    parser.add_argument("--limits", action="store_true", help="look for the least memory too (software GPU)")
    parser.add_argument("--limit-seconds", type=float, default=600, help="for each search [%(default)s]")
    parser.add_argument("--device", default="soft", help="soft or gpu [%(default)s]")
    parser.add_argument("--device-profile", default="soft", help="what lms-tune takes the device for [%(default)s]")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    if args.limits and args.device != "soft":
        parser.error("--limits needs the software GPU")

    tools, table = Tools(args), Table()
    for model in MODELS:
        if args.model and model.name not in args.model or args.quick and not model.quick:
            continue
        for plan in PLANS:
            if args.quick and not plan.quick:
                continue
            table.rows.append(compare(tools, model, plan, args.limits))
            print(f"{model.name}, {plan.name}: peak {compared(table.rows[-1].peak)}", file=sys.stderr)
    text = table.markdown() + "\n" + table.summary()
    print(text, end="")
    if args.write:
        pages.write(args.write, "accuracy.py", "\n" + text + "\n")
    complaints = list(broken(table))
    for complaint in complaints:
        print(f"accuracy.py: {complaint}", file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
