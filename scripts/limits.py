#!/usr/bin/env python3
"""Finds the least memory in which each of the five models trains, as it is and rewritten, and writes docs/limits.md.

    scripts/limits.py                      on the software GPU; writes docs/limits.md
    scripts/limits.py --only unet3d -o -   one model, to standard output
    scripts/limits.py --device gpu         on a GPU: scripts/gpu_check does this, and says so where there is none

The models are exported into a temporary folder, in sizes where activations need more memory than variables. Needs
what scripts/requirements.txt lists, in .venv or in the Python that runs this.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# How the table calls each model, what is exported of it, and whether swapping must gain something: not where a single op takes
# nearly all memory.
MODELS = {
    "resnet50": ("ResNet50, 8 images of 224²", "--batch 8 --size 224 --classes 10 --optimizer momentum", True),
    "deeplabv3plus": ("DeepLabv3+, 2 images of 257²", "--batch 2 --size 257 --middle-blocks 4", True),
    "unet3d": ("3D U-Net, a volume of 48³, 8 filters first", "--batch 1 --size 48 --base-filters 8", True),
    "googlenet": ("GoogLeNet, 8 images of 224²", "--batch 8 --size 224 --classes 10 --ref-variables", True),
    "mnist_cnn": ("MNIST CNN, 256 images of 28²", "--batch 256", False),
}
# The ways to train, and how the table calls them.
WAYS = {
    "as it is": [],
    "rewritten, 1/1/0/0": ["--rewrite"],
    "rewritten, 1/1/0/3": ["--swapout-threshold", "1", "--sync-mode", "3"],
}

# How far the first two losses may be apart on a real GPU, as a part of them: its kernels add in any order, so that from step to step two
# trainings of the same graph part too.
LOSS_TOLERANCE = 0.01


class Failed(Exception):
    """A program that did not do what it was to do."""


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def build():
    """Builds lms-train and the software GPU; returns the program."""
    command = ["cargo", "build", "--release", "-p", "tf-lms", "-p", "softgpu", "--bins", "--lib"]
    lines = run([*command, "--message-format", "json-render-diagnostics"], cwd=ROOT).splitlines()
    programs = [json.loads(line).get("executable") or "" for line in lines]
    return next(program for program in programs if os.path.basename(program) == "lms-train")


def python():
    """A Python that has TensorFlow: the project's, or else the one that runs this."""
    own = os.path.join(ROOT, ".venv", "bin", "python")
    return own if os.path.exists(own) else sys.executable


def environment():
    """What the tools run with in another folder: the project's TensorFlow, unless one is named."""
    own = os.path.join(ROOT, ".venv")
    return ({"LMS_TENSORFLOW": own} if os.path.isdir(own) else {}) | os.environ


def export(name, folder):
    """Exports a model; returns its file and the flags that feed it."""
    path = os.path.join(folder, f"{name}.meta")
    if not os.path.exists(path):
        script = os.path.join(ROOT, "scripts", "export_models.py")
        run([python(), script, name, *MODELS[name][1].split(), "-o", path])
    return path, feeds(path)


def feeds(model):
    """The flags of lms-train that feed a model, by what export_models.py wrote beside it."""
    with open(model[: -len(".meta")] + ".json") as file:
        inputs = json.load(file)["inputs"]
    kinds = {"int": "randint:{lo}:{hi}", "const": "const:{value}"}
    fed = [i for i in inputs if i["kind"] in kinds]
    values = [f"{i['name'].split(':')[0]}={kinds[i['kind']].format(**{'lo': 0, **i})}" for i in fed]
    return [flag for value in values for flag in ("--feed", value)]


def is_real(device):
    """Whether a device is a GPU, some of whose kernels add in any order."""
    return device.startswith("gpu")


def determinism(device):
    """What has TensorFlow compute the same each time, as far as it can. Of a real GPU's kernels it refuses some if all must."""
    return {"TF_CUDNN_DETERMINISTIC": "1"} if is_real(device) else {"TF_DETERMINISTIC_OPS": "1"}


class Trainer:
    """Runs lms-train on one device."""

    def __init__(self, program, device):
        self.program, self.device = program, device

    def report(self, model, flags):
        """The JSON document of a run."""
        return json.loads(run([self.program, model, "--device", self.device, "--json", *flags]))

    def model(self, name, folder):
        """All facts of a model, but for its limits."""
        model, feeds = export(name, folder)
        steps = [*feeds, "--steps", "2"]
        title, _, gains = MODELS[name]
        facts = {"title": title, "gains": gains, "limits": {}, "device": self.device}
        comparison = self.report(model, [*steps, "--threads", "1", "--compare"])
        facts["difference"] = comparison["first_difference"]
        facts["losses"] = list(zip(comparison["original_losses"], comparison["rewritten_losses"]))
        plain = self.report(model, steps)
        swapped = self.report(model, [*steps, "--rewrite"])
        facts["kept"], facts["plan"] = swapped["swapins_kept"], swapped["plan"]
        traffic = [swapped["traffic"], plain["traffic"]]
        if all(traffic):
            facts["moved"] = {key: traffic[0][key] - traffic[1][key] for key in ("bytes_out", "bytes_in")}
        return facts

    def limit(self, name, way, folder):
        """The least memory in which a model trains."""
        model, feeds = export(name, folder)
        limit = self.report(model, [*feeds, "--quiet", "--find-limit", *WAYS[way]])
        print(f"{name}, {way}: {mebibytes(limit['trains_bytes'])} MiB", file=sys.stderr, flush=True)
        return limit


def mebibytes(size):
    return f"{size / 2**20:,.0f}"


def table(facts):
    """The tables, as lines of Markdown."""
    yield "| model | as it is | rewritten, 1/1/0/0 | rewritten, 1/1/0/3 | of the original |"
    yield "|---|---|---|---|---|"
    for fact in facts:
        limits = [fact["limits"][way]["trains_bytes"] for way in WAYS]
        share = min(limits[1:]) / limits[0]
        sizes = " | ".join(f"{mebibytes(limit)} MiB" for limit in limits)
        yield f"| {fact['title']} | {sizes} | {share:.0%} |"
    yield ""
    yield "| model | losses | swaps that ran | planned out, in | measured out, in |"
    yield "|---|---|---|---|---|"
    for fact in facts:
        plan, moved = fact["plan"], fact.get("moved")
        planned = f"{mebibytes(plan['bytes_out'])}, {mebibytes(plan['bytes_in'])} MiB"
        measured = "not counted on this device"
        if moved:
            same = moved == {key: plan[key] for key in moved}
            measured = "the same to the byte" if same else f"{moved['bytes_out']:,}, {moved['bytes_in']:,} bytes"
        losses = "the same to the bit"
        if fact["difference"]:
            first = fact["difference"]
            losses = f"the first two at most {off(fact):.1g} of them apart; from step {first['step']} on: {first['original']:.6g}, {first['rewritten']:.6g}"
        yield f"| {fact['title']} | {losses} | {fact['kept']} of {plan['swapins']} | {planned} | {measured} |"


def page(facts, device, command):
    """The page, as text."""
    where = "the software GPU" if device.startswith("soft") else f"a GPU (`--device {device}`)"
    with open(os.path.join(ROOT, "scripts", "limits_page.md")) as file:
        text = file.read()
    return text.format(table="\n".join(table(facts)), where=where, command=command)


def off(fact):
    """How far the first two losses of a model are apart at most, as a part of them; the second one depends on all gradients."""
    return max(abs(ours - theirs) / abs(theirs) for theirs, ours in fact["losses"][:2])


def wrong(fact):
    """What of a model's facts is not as it must be, as sentences."""
    title, plan, moved = fact["title"], fact["plan"], fact.get("moved")
    if fact["difference"] and off(fact) > (LOSS_TOLERANCE if is_real(fact["device"]) else 0):
        yield f"{title}: the losses differ from step {fact['difference']['step']} on"
    if fact["kept"] != plan["swapins"]:
        yield f"{title}: {fact['kept']} of {plan['swapins']} swaps ran"
    if moved and moved != {key: plan[key] for key in moved}:
        yield f"{title}: other bytes moved than planned"
    original, *rewritten = [fact["limits"][way]["trains_bytes"] for way in WAYS]
    if fact["gains"] and min(rewritten) >= original:
        yield f"{title}: trains in {original} bytes as it is, and in no less rewritten"


def arguments(description, output):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="what lms-train is to train on")
    parser.add_argument("--lms-train", metavar="PATH", help="the program [default: built with cargo]")
    parser.add_argument("--only", choices=MODELS, action="append", help="only this model (may be repeated)")
    parser.add_argument("--models", metavar="DIR", help="keep the exported models here, and take what is there")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at a time (default 1)")
    parser.add_argument("-o", "--output", default=output, help="where to write; - for standard output")
    return parser


def measure(args, program, command):
    """Measures all models and writes the page."""
    # Losses are compared to the bit, but on a real GPU.
    os.environ.update(determinism(args.device), TF_ENABLE_ONEDNN_OPTS="0")
    trainer = Trainer(program, args.device)
    names = [name for name in MODELS if not args.only or name in args.only]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if args.models:
            os.makedirs(args.models, exist_ok=True)
        models = args.models or folder
        for name in names:
            export(name, models)
        facts = pool.map(lambda name: trainer.model(name, models), names)
        searches = [(name, way) for name in names for way in WAYS]
        limits = dict(zip(searches, pool.map(lambda search: trainer.limit(*search, models), searches)))
        facts = [fact | {"limits": {way: limits[name, way] for way in WAYS}} for name, fact in zip(names, facts)]
    text = page(facts, args.device, command)
    if args.output == "-":
        sys.stdout.write(text)
    else:
        with open(args.output, "w") as file:
            file.write(text)
    return facts


def main():
    parser = arguments(__doc__, os.path.join(ROOT, "docs", "limits.md"))
    parser.set_defaults(device="soft")
    args = parser.parse_args()
    try:
        measure(args, args.lms_train or build(), "scripts/limits.py")
    except Failed as failure:
        sys.exit(f"limits.py: {failure}")


if __name__ == "__main__":
    main()
