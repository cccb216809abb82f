#!/usr/bin/env python3
"""Trains random pairs of a model and a budget with the plan that the planner makes for it, in that much memory of a software GPU.

    scripts/planned_pairs.py --bin target/release --pairs 100

A budget is between the least for which there is a plan (`lms-tune --gpu-mem min`) and what the graph takes as it is. What is
planned within a budget must train within it, so the exit status is 1 if one runs out of memory.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {
    "googlenet_64_b2": "labels=randint:0:10",
    "resnet50_64_b2": "labels=randint:0:10",
    "deeplabv3plus_65_b2": "labels=randint:0:21",
    "unet3d_16_b1": "truth=randint:0:2",
    "mnist_cnn": "labels=randint:0:10",
}
MIB = 1 << 20


def tune(folder, model, memory):
    command = [folder / "lms-tune", f"testdata/{model}.meta", "--json", "--device-profile", "soft", "--gpu-mem", str(memory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def trains(folder, model, budget):
    """Whether it trains, and what is said if it does not."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.setdefault("LMS_SOFTGPU", str(folder / "libsoftgpu.so"))
    flags = ["--gpu-mem", str(budget), "--device", f"soft:{budget}", "--device-profile", "soft", "--threads", "1", "--steps", "2", "--quiet"]
    command = [folder / "lms-train", f"testdata/{model}.meta", *flags, "--feed", MODELS[model]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    return done.returncode, done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs and libsoftgpu.so are [%(default)s]")
    parser.add_argument("--pairs", type=int, default=100, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="[%(default)s]")
    args = parser.parse_args()
    folder, chance = Path(args.bin).resolve(), random.Random(args.seed)
    ranges = {}
    for model in MODELS:
        report = tune(folder, model, "min")
        ranges[model] = (report["gpu_mem"], int(report["least_memory_before"] * 1.1) + 13 * MIB)
        print(f"{model}: plans from {ranges[model][0] / MIB:.1f} MiB, as it is in {report['least_memory_before'] / MIB:.1f} MiB")
    failed = 0
    for pair in range(args.pairs):
        model = chance.choice(list(MODELS))
        budget = chance.randint(*ranges[model])
        status, message = trains(folder, model, budget)
        failed += status != 0
        if status:
            print(f"{pair + 1}: {model} in {budget / MIB:.2f} MiB: exit status {status}: {message.splitlines()[-1][:160] if message else ''}", flush=True)
    print(f"{args.pairs - failed} of {args.pairs} pairs train within their budget")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
