"""How tests run programs: each in a process of its own, on the software GPU."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).parent


def run_program(*command, folder=TESTS, **environment):
    """Runs a Python program; returns what came of it."""
    words = [sys.executable, *map(str, command)]
    env = {**os.environ, "PYTHONPATH": str(TESTS), **environment}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


def last_json(done):
    """The last line that a program printed, as JSON."""
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def _trained(*arguments):
    return last_json(run_program("train.py", *arguments))


@pytest.fixture
def trained():
    """Trains a case: `trained(case, mode, memory, budget)`; the same is trained once."""
    return _trained


@pytest.fixture
def program():
    """Runs lines of Python in a process of their own, and returns what came of it."""

    def run(lines, **environment):
        return run_program("-c", lines, **environment)

    return run
