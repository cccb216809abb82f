#!/usr/bin/env python3
"""Predict the figures that the articles on TFLMS published, at their full scale, and write them beside ours.

    scripts/articles.py --bin target/release                            # all, to standard output
    scripts/articles.py --bin target/release --write docs/benchmarks.md # into the page
    scripts/articles.py --only resnet50                                 # one part; may be given several times

Exports the graphs into the folder of --work and asks lms-tune and lms-rewrite about them. Answers are kept there: a run
that was broken off goes on where it was, and another program or another graph is asked anew. Needs the Python packages
of scripts/requirements.txt, in .venv or in the Python that runs this.
"""

import argparse
import sys
from pathlib import Path

import pages
from limits import python
from reproducing import deeplab, googlenet, resnet50, scaling, unet3d
from reproducing.asking import ROOT, Asker
from reproducing.published import table

PARTS = {"resnet50": resnet50, "unet3d": unet3d, "deeplab": deeplab, "googlenet": googlenet, "scaling": scaling}


def part_text(part, asker):
    """The table of a part and the commands that made it."""
    asker.commands.clear()
    rows = table(list(part.figures(asker)))
    if hasattr(part, "more"):
        rows += "\n" + part.more(asker)
    commands = "\n".join(asker.commands)
    return f"### {part.TITLE}\n\n{rows}\n<details><summary>Commands</summary>\n\n```\n{commands}\n```\n\n</details>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "target/release"), help="where the programs are [%(default)s]")
    parser.add_argument("--work", default=str(ROOT / "target/articles"), help="graphs and answers [%(default)s]")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part (may be repeated)")
    parser.add_argument("--write", metavar="FILE", help="put the tables into this page")
    args = parser.parse_args()
    Path(args.work).mkdir(parents=True, exist_ok=True)
    asker = Asker(args.bin, args.work, python())
    for name, part in PARTS.items():
        if args.only and name not in args.only:
            continue
        text = part_text(part, asker)
        print(text, flush=True)
        if args.write:
            pages.write(args.write, "articles.py", "\n" + text + "\n", name)


if __name__ == "__main__":
    sys.exit(main())
