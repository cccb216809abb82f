#!/usr/bin/env python3
"""Runs the examples of the Python package, and writes into their pages what they print, and in how little memory they train.

    example_pages.py                # all of them; some minutes
    example_pages.py gpt images

The pages are docs/examples/*.md. Needs `pip install ./python` and `cargo build --release -p softgpu`. Each run is a process of its own on
the software GPU.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import pages
from keras_table import KEPT_MEMORY, least, mib

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "python" / "examples"

#: The exit status of run_example.py where memory runs out.
OUT_OF_MEMORY = 3

#: From where on the least memory is looked for as it is, in bytes; with the line from half of what that is.
FIRST = {"images": 38 << 20, "unet3d": 16 << 20, "gpt": 18 << 20, "session": 14 << 20}


def ran(example, memory, *arguments):
    """What came of an example in so much memory, in bytes."""
    tests = ROOT / "python" / "tests"
    command = [sys.executable, tests / "run_example.py", str(memory), EXAMPLES / f"{example}.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **KEPT_MEMORY, "PYTHONPATH": str(tests)})
    if done.returncode == OUT_OF_MEMORY:
        return {"failed": "out of memory"}
    if "DoesNotFit" in done.stderr:
        return {"failed": "no plan"}
    if done.returncode:
        raise SystemExit(f"{example} in {memory} bytes: {done.stderr.strip().splitlines()[-1]}")
    return {"said": done.stdout}


def without_progress(text):
    """What a program printed, but for how long it took, which differs from run to run."""
    return re.sub(r"(?<= )\d+m?s(?:/step)?(?= |$)", "…", text, flags=re.MULTILINE).strip()


def part(example):
    """What the script writes into a page."""
    as_it_is, _ = least(f"{example} as it is", lambda memory: ran(example, memory, "--without"), FIRST[example])
    memory, there = least(f"{example} with the line", lambda memory: ran(example, memory), as_it_is // 2)
    return f"""| | least memory |
|---|--:|
| as it is (`--without`) | {mib(as_it_is):.1f} MiB |
| with large model support | {mib(memory):.1f} MiB |

In the last of these it prints:

```
{without_progress(there["said"])}
```
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = sorted(path.stem for path in EXAMPLES.glob("*.py"))
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(names))
    for example in parser.parse_args().examples or names:
        text = part(example)
        pages.write(ROOT / "docs" / "examples" / f"{example}.md", "example_pages.py", text)
        print(text, end="")


if __name__ == "__main__":
    main()
