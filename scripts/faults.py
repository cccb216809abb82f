#!/usr/bin/env python3
"""Kills and stops workers of a training, and sees that nobody hangs and nothing is lost but some steps.

    scripts/faults.py --times 20                each worker of two, killed and stopped, in a step and between two, 20 times each
    scripts/faults.py --only SIGSTOP            stopped alone
    scripts/faults.py --times 2 --workers 3     fewer times, and one worker more

Half of the times workers are started by themselves (--cluster, --rank), and all again with --resume; the other half by
--workers with --restarts, which does that alone. Prints a table in Markdown; ends with 1 if anything was not as it should be.
Needs target/release/lms-train or the program that LMS_TRAIN names, and TensorFlow in .venv or where LMS_TENSORFLOW says.
"""

import argparse
import glob
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# A graph that draws no random numbers: these would begin anew after a restart.
GRAPH = ["testdata/mobilenet_64_b4.meta", "--feed", "labels=randint:0:10", "--device", "cpu", "--threads", "1", "--warmup", "0"]
STEPS, SAVE_EVERY = 30, 5
# Seconds that a worker is waited for in a step, what finding out who it was may take on top, and the pause between steps, for faults there.
TIMEOUT, GRACE, PAUSE = 3.0, 2.0, 0.25
ENDS_FOR_ANOTHER = 4
FAULTS = {"kill -9": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}


def program():
    return os.environ.get("LMS_TRAIN") or os.path.join(ROOT, "target", "release", "lms-train")


def environment():
    here = os.path.join(ROOT, ".venv")
    return {"LMS_TENSORFLOW": here, "TF_DETERMINISTIC_OPS": "1", "TF_ENABLE_ONEDNN_OPTS": "0", **os.environ}


class Started:
    """A process, with what it said and when."""

    def __init__(self, flags):
        command = [program(), *GRAPH, "--steps", str(STEPS), "--json", *flags]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, **pipes)
        self.out, self.said, self.ended = "", [], None
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self.read, self.listen)]
        for thread in self.threads:
            thread.start()

    def read(self):
        self.out = self.process.stdout.read()
        self.process.wait()
        self.ended = time.monotonic()

    def listen(self):
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.strip()))

    def end(self, seconds=120):
        """Its exit status; none if it hangs."""
        for thread in self.threads:
            thread.join(seconds)
        return self.process.poll()

    def words(self):
        return " ".join(line for _, line in self.said if line.startswith("lms-train: "))


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return ",".join(addresses)


def start_each(count, flags):
    cluster = free_addresses(count)
    return [Started(["--cluster", cluster, "--rank", str(rank), *flags]) for rank in range(count)]


def processes(word):
    """The processes with this in their command line, by their numbers; those that have ended have none."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word in each for each in words) and "lms-train" in words[0]:
            found[int(path.split("/")[2])] = words
    return found


def newest(folder):
    names = glob.glob(os.path.join(folder, "m-*.index"))
    return max((int(name[:-6].rsplit("-", 1)[1]) for name in names), default=0)


def wait_for(what, seconds=120):
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            raise TimeoutError("no checkpoint came")
        time.sleep(0.002)


class Fault:
    """A training with one fault, and what came of it."""

    def __init__(self, options, how, victim, where, supervised, unbroken):
        self.wrong, self.lost, self.left = [], None, []
        with tempfile.TemporaryDirectory(prefix="lms_faults_") as folder:
            self.folder, self.count, self.victim = folder, options.workers, victim
            # Others come to the next reduce after their own pause.
            self.most_seconds = TIMEOUT + GRACE + (PAUSE if where == "between steps" else 0)
            flags = ["--save", os.path.join(folder, "m"), "--save-every", str(SAVE_EVERY), "--worker-timeout", str(TIMEOUT)]
            broken = flags + (["--pause", str(PAUSE)] if where == "between steps" else [])
            try:
                again = self.supervised(how, where, broken) if supervised else self.by_hand(how, where, broken, flags)
                self.compare(again, unbroken)
            except (TimeoutError, ValueError, KeyError) as error:
                self.wrong.append(repr(error))
            self.left = processes(folder)
            for left in self.left:
                os.kill(left, signal.SIGKILL)
            if self.left:
                self.wrong.append("a process was left behind")

    def hit(self, how, where, pid):
        """Kills or stops a worker; returns when that was, and of which step the newest checkpoint then is."""
        wait_for(lambda: newest(self.folder) >= 2 * SAVE_EVERY)
        # After a checkpoint all workers pause. In a training without pauses they are in a step but for moments.
        time.sleep(PAUSE / 4 if where == "between steps" else random.uniform(0.01, 0.4))
        kept = newest(self.folder)
        os.kill(pid, how)
        return time.monotonic(), kept

    def expect(self, right, words):
        if not right:
            self.wrong.append(words)

    def by_hand(self, how, where, broken, flags):
        workers = start_each(self.count, broken)
        at, kept = self.hit(how, where, workers[self.victim].process.pid)
        others = [worker for rank, worker in enumerate(workers) if rank != self.victim]
        steps = []
        for other in others:
            status = other.end()
            self.expect(status == ENDS_FOR_ANOTHER, f"another worker ended with {status}: {other.words()}")
            self.expect(f"worker {self.victim} (" in other.words(), f"not named: {other.words()}")
            steps += re.findall(r": step (\d+): ", other.words())
        self.seconds = max((other.ended or float("inf")) - at for other in others)
        workers[self.victim].process.kill()
        resumed = start_each(self.count, [*flags, "--resume", self.folder])
        statuses = [worker.end() for worker in resumed]
        self.expect(statuses == [0] * self.count, f"resumed: {statuses}: {' / '.join(worker.words() for worker in resumed)}")
        reports = [json.loads(worker.out) for worker in resumed]
        self.expect(len({report["variables_digest"] for report in reports}) == 1, "resumed workers differ")
        went_on = STEPS - len(reports[0]["losses"])
        self.expect(went_on >= kept, f"went on at step {went_on}, though {kept} was saved")
        if steps:
            # The step that they were in was not done.
            self.lost = max(map(int, steps)) - 1 - went_on
            self.expect(self.lost <= SAVE_EVERY, f"{self.lost} steps are lost")
        return reports[0]

    def supervised(self, how, where, broken):
        run = Started(["--workers", str(self.count), "--restarts", "1", *broken])
        wait_for(lambda: newest(self.folder) >= SAVE_EVERY)
        ranks = {int(words[words.index("--rank") + 1]): pid for pid, words in processes(self.folder).items() if "--rank" in words}
        at, kept = self.hit(how, where, ranks[self.victim])
        status = run.end()
        self.expect(status == 0, f"the run ended with {status}: {run.words()}")
        said = [(when, line) for when, line in run.said if "beginning again" in line]
        self.expect(len(said) == 1 and f"worker {self.victim} " in said[0][1], f"not named: {run.words()}")
        self.seconds = said[0][0] - at if said else float("inf")
        report = json.loads(run.out)
        went_on = STEPS - len(report["losses"])
        self.expect(went_on >= kept, f"went on at step {went_on}, though {kept} was saved")
        return report

    def compare(self, report, unbroken):
        self.expect(report["variables_digest"] == unbroken, "other variables than those of the unbroken run")
        self.expect(self.seconds <= self.most_seconds, f"the others ended after {self.seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="faults of each kind")
    parser.add_argument("--only", choices=FAULTS, help="this fault alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the moments in a step")
    options = parser.parse_args()
    random.seed(options.seed)

    whole = Started(["--workers", str(options.workers)])
    if whole.end() != 0:
        sys.exit(f"the unbroken run failed: {whole.words()}")
    unbroken = json.loads(whole.out)["variables_digest"]

    print("| fault | where | times | others ended after, median and most | named, bit-equal after resuming | most steps lost |")
    print("|---|---|--:|--:|--:|--:|")
    failed = 0
    for name, how in ((name, how) for name, how in FAULTS.items() if options.only in (None, name)):
        for victim in range(options.workers):
            for where in ("in a step", "between steps"):
                faults = []
                for number in range(options.times):
                    faults.append(Fault(options, how, victim, where, number % 2 == 1, unbroken))
                    for wrong in faults[-1].wrong:
                        print(f"{name} of worker {victim} {where}, number {number}: {wrong}", file=sys.stderr, flush=True)
                good = sum(not fault.wrong for fault in faults)
                failed += options.times - good
                seconds = [fault.seconds for fault in faults if hasattr(fault, "seconds")] or [float("inf")]
                lost = max((fault.lost for fault in faults if fault.lost is not None), default="–")
                took = f"{statistics.median(seconds):.1f} s, {max(seconds):.1f} s"
                print(f"| {name} of worker {victim} | {where} | {options.times} | {took} | {good} | {lost} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
