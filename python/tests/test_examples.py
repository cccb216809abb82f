"""Each example trains in a memory in which it runs out without large model support, with the same losses."""

import re

import pytest
from conftest import run_program

#: A memory in which each fails without the line.
EXAMPLES = {"images": "28MiB", "unet3d": "13MiB", "gpt": "12MiB", "session": "10MiB"}


def losses(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return re.findall(r"loss:? (\d+\.\d+)", done.stdout)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_trains_in_little_memory(example):
    def run(memory, *arguments):
        return run_program("run_example.py", memory, f"../examples/{example}.py", *arguments)

    without = run(EXAMPLES[example], "--without")
    assert without.returncode == 3 and "out of memory" in without.stdout, without.stderr[-3000:]
    lms = run(EXAMPLES[example])
    assert losses(lms) == losses(run("1GiB", "--without"))
    assert "fits with swapping" in lms.stdout
