"""Exports graphs and asks the tools about them. Answers are kept: a run that was broken off goes on where it was."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import profiles
from limits import environment

ROOT = Path(__file__).resolve().parent.parent.parent

# What TensorFlow 1 takes of a V100: 95% of what the driver's context leaves. All of it counts: these limits are real.
V100_16 = ("--gpu-mem", "15117MiB", "--memory-ratio", "1")
V100_32 = ("--gpu-mem", "30458MiB", "--memory-ratio", "1")
NVLINK = ("--device-profile", "v100-nvlink2")

# Exit status of lms-tune: fits, or does not.
JUDGED = (0, 3)


class Asker:
    """Asks the programs of a folder about graphs in another, and remembers which commands it took."""

    def __init__(self, programs, work, python):
        self.programs, self.work, self.python = Path(programs).resolve(), Path(work).resolve(), python
        self.answers = self.work / "answers"
        self.answers.mkdir(parents=True, exist_ok=True)
        self.hashes = {}
        self.commands = []

    def export(self, name, arguments):
        """Exports a graph, unless it is there already from the same command."""
        path, about = self.work / f"{name}.meta", self.work / f"{name}.json"
        command = f"scripts/export_models.py {arguments} -o {path.name}"
        self.note(command)
        if not about.exists() or json.loads(about.read_text())["command"] != command:
            self.run([self.python, ROOT / "scripts/export_models.py", *shlex.split(arguments), "-o", path], (0,))
        return path.name

    def tune(self, graph, *flags):
        """The report of lms-tune."""
        return self.ask("lms-tune", graph, flags, JUDGED)

    def rewrite(self, graph, *flags):
        """The report of lms-rewrite, which writes no graph."""
        return self.ask("lms-rewrite", graph, (*flags, "--dry-run"), (0,))

    def tune_at(self, graph, parameters, shapes, *flags):
        """The report of lms-tune on the plan that given parameters of TFLMSv2 come to."""
        rewritten = (*shlex.split(parameters), *shapes, "--dry-run")
        plan = f"{Path(graph).stem}-{digest(repr((self.hash(self.work / graph), rewritten)).encode())[:12]}.plan.json"
        self.note(f"lms-rewrite {graph} {shlex.join(rewritten)} --plan-out plan.json")
        self.note(f"lms-tune {graph} {shlex.join([*flags, *shapes])} --plan plan.json")
        if not (self.work / plan).exists():
            self.run([self.programs / "lms-rewrite", graph, *rewritten, "--quiet", "--plan-out", plan], (0,))
        return self.ask("lms-tune", graph, (*flags, *shapes, "--plan", plan), JUDGED, noted=False)

    def ask(self, program, graph, flags, good, noted=True):
        """The JSON document that a program prints; from the folder of answers if it was asked before."""
        path = self.programs / program
        if noted:
            self.note(f"{program} {graph} {shlex.join(flags)}")
        asked = (self.hash(path), self.hash(self.work / graph), flags)
        profile = flags[flags.index("--device-profile") + 1] if "--device-profile" in flags else ""
        if (self.work / profile).is_file():
            asked += (self.hash(self.work / profile),)
        answer = self.answers / f"{digest(repr(asked).encode())}.json"
        if not answer.exists():
            print(f"{program} {graph} {shlex.join(flags)}", file=sys.stderr, flush=True)
            text = self.run([path, graph, *flags, "--json", "--quiet"], good)
            unfinished = answer.with_suffix(".unfinished")
            unfinished.write_text(text)
            unfinished.rename(answer)
        return json.loads(answer.read_text())

    def run(self, command, good):
        command = [str(word) for word in command]
        done = subprocess.run(command, cwd=self.work, env=environment(), capture_output=True, text=True)
        if done.returncode not in good:
            raise SystemExit(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
        return done.stdout

    def profile(self, name, like, **changes):
        """Writes a device profile that is like a built-in one but for some fields; returns its file."""
        path = self.work / f"{name}.json"
        profiles.write(path, name, like, **changes)
        return path.name

    def hash(self, path):
        if path not in self.hashes:
            self.hashes[path] = digest(Path(path).read_bytes())
        return self.hashes[path]

    def note(self, command):
        command = command.replace(str(self.work) + os.sep, "")
        if command not in self.commands:
            self.commands.append(command)


def linked(bytes_per_second):
    """Fields of a device profile: a link of so much each way."""
    return {"link_out_bytes_per_second": bytes_per_second, "link_in_bytes_per_second": bytes_per_second}


def kernels_at(efficiency):
    """Fields of a device profile: kernels that reach so much of the peaks."""
    return {"compute_efficiency": efficiency, "memory_efficiency": efficiency}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def fits(report):
    return report["verdict"] != "does_not_fit"
