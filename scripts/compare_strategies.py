#!/usr/bin/env python3
"""Hold the planner against TFLMSv2's parameters at parts of each graph's memory, as predicted, and print a table in Markdown.

    scripts/compare_strategies.py --bin target/release                          # the larger graphs of testdata
    scripts/compare_strategies.py --bin target/release --write docs/planner-figures.md  # into the page
    scripts/compare_strategies.py --bin target/release MODEL[,FLAG…] …          # others, with flags as --train-op=NAME

For each graph and part of the peak that it has with no plan: the step time in multiples of that of the graph as it is where
memory has no end, and the bytes that a step copies, out and in together.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pages

ROOT = Path(__file__).resolve().parent.parent
MODELS = [str(ROOT / "testdata" / f"{name}.meta") for name in ("resnet50_2000_b1", "deeplabv3plus_513_b16")]
PARTS = (0.7, 0.5, 0.3)
STRATEGIES = {
    "tflms": ("--strategy", "tflms"),
    "planned": ("--strategy", "planned"),
    "planned, no recompute": ("--strategy", "planned", "--no-recompute"),
}
GIB = 1 << 30


def tune(program, model, profile, memory, *flags):
    path, *model_flags = model.split(",")
    command = [program, path, *model_flags, "--json", "--device-profile", profile, "--memory-ratio", "1", "--gpu-mem", str(memory), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"compare_strategies.py: {' '.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def compare(program, model, profile):
    """Rows of a model: its name, the part, and the report of each strategy; none where it has no plan."""
    peak = tune(program, model, profile, 1 << 50)["peak_before"]
    for part in PARTS:
        reports = {name: tune(program, model, profile, int(peak * part), *flags) for name, flags in STRATEGIES.items()}
        reports = {name: report if report["verdict"] == "fits_with_swapping" else None for name, report in reports.items()}
        yield Path(model.split(",")[0]).stem, part, peak, reports


def slowdown(report):
    return report["step_seconds_after"] / report["step_seconds_before"]


def moved(report):
    return report["copied_out_bytes"] + report["copied_in_bytes"]


def shown(report):
    if report is None:
        return "- | -"
    again = f" ({report['recomputed_ops']} again)" if report["recomputed_ops"] else ""
    return f"{slowdown(report):.2f}x | {moved(report) / GIB:.2f}{again}"


def table(rows):
    heads = " | ".join(f"{name}, step | copies, GiB" for name in STRATEGIES)
    lines = [f"| graph | part of its peak | GiB | {heads} |", "|---|--:|--:|" + "--:|--:|" * len(STRATEGIES)]
    for name, part, peak, reports in rows:
        cells = " | ".join(shown(report) for report in reports.values())
        lines.append(f"| {name} | {part:.0%} | {peak * part / GIB:.2f} | {cells} |")
    return "\n".join(lines) + "\n"


def against_tflms(steps, copies):
    """What the planner's step times and bytes come to, as parts of those of tflms, in sentences."""
    named = {"Step time": steps, "Bytes": copies}
    return [f"{name} against tflms: {statistics.median(parts):.2f} in the median, {max(parts):.2f} at worst." for name, parts in named.items()]


def summary(rows):
    both = [reports for *_, reports in rows if reports["tflms"] and reports["planned"]]
    only = sum(1 for *_, reports in rows if reports["planned"] and not reports["tflms"])
    lines = [f"Rows: {len(rows)}; with a plan of both {len(both)}, of the planner alone {only}."]
    if both:
        steps = [slowdown(reports["planned"]) / slowdown(reports["tflms"]) for reports in both]
        copies = [moved(reports["planned"]) / moved(reports["tflms"]) for reports in both]
        lines += against_tflms(steps, copies)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL[,FLAG…]")
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where lms-tune is [%(default)s]")
    parser.add_argument("--device-profile", default="v100-pcie3", help="[%(default)s]")
    parser.add_argument("--write", metavar="FILE", help="put the table into this page")
    args = parser.parse_args()
    program = str(Path(args.bin).resolve() / "lms-tune")
    rows = [row for model in args.models for row in compare(program, model, args.device_profile)]
    text = f"On {args.device_profile}:\n\n{table(rows)}\n{summary(rows)}"
    print(text, end="")
    if args.write:
        pages.write(args.write, "compare_strategies.py", "\n" + text + "\n")


if __name__ == "__main__":
    sys.exit(main())
