#!/usr/bin/env python3
"""Makes TFRecords that exported graphs can read; `make_records.py --help` says how."""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

from records import classified, segmented, shards, voxels  # noqa: E402
from records.sources import BadSource  # noqa: E402

DESCRIPTION = """\
Makes TFRecords for 'export_models.py MODEL --data OUT' of folders of images or volumes.

  classes    the ImageNet layout, for classifiers: images (JPEG, PNG) in a folder for each class, or a list.txt
             beside them whose lines are 'IMAGE CLASS', with a path relative to the folder and a number.
             Folders are numbered in the order of their names; OUT/classes.txt keeps which is which.
  masks      the PASCAL VOC layout, for segmentation: images in one folder, in the other for each a mask of the same
             name and size, a PNG whose values, gray or numbers of a palette, are classes; 255 does not count.
  volumes    for unet3d: arrays .npy of shape [depth, height, width, channels], and for each of the same name the truth
             with 0 or 1 in a channel for each class.

The same files and flags make the same bytes. Records are written in an order that the seed alone decides."""

EXAMPLES = """\
examples:
  make_records.py classes flowers -o flowers_records --shards 4
  make_records.py masks VOC2012/JPEGImages VOC2012/SegmentationClass -o voc_records --only VOC2012/train.txt
  make_records.py volumes scans truths -o scans_records"""


def number(text):
    """A count above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not '{text}'")
    return int(text)


def parser():
    top = argparse.ArgumentParser(
        prog="make_records.py",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    kinds = top.add_subparsers(dest="kind", metavar="KIND", required=True)
    classes = kinds.add_parser("classes", help="images with classes", allow_abbrev=False)
    classes.add_argument("images", metavar="DIR")
    classes.add_argument(
        "--first-class",
        type=int,
        default=0,
        metavar="N",
        help="the first folder's class; 1 leaves 0 for the background, as in TensorFlow's ImageNet (default 0)",
    )
    masks = kinds.add_parser("masks", help="images with masks", allow_abbrev=False)
    masks.add_argument("images", metavar="DIR")
    masks.add_argument("masks", metavar="MASKS")
    masks.add_argument("--classes", type=number, default=21, metavar="N", help="how many there are (default 21)")
    masks.add_argument("--only", metavar="FILE", help="only the images whose names, without suffix, this file lists")
    volumes = kinds.add_parser("volumes", help="volumes with their truth", allow_abbrev=False)
    volumes.add_argument("volumes", metavar="DIR")
    volumes.add_argument("truths", metavar="TRUTHS")
    for kind in [classes, masks, volumes]:
        kind.add_argument("-o", "--output", required=True, metavar="OUT", help="the folder of the records")
        kind.add_argument("--split", default="train", metavar="NAME", help="how the files' names begin (default train)")
        kind.add_argument("--shards", type=number, default=1, metavar="N", help="how many files (default 1)")
        kind.add_argument("--seed", type=int, default=1, metavar="N", help="of the order (default 1)")
    return top


def main(arguments):
    options = parser().parse_args(arguments)
    makers = {"classes": classified.examples, "masks": segmented.examples, "volumes": voxels.examples}
    output = pathlib.Path(options.output)
    try:
        examples, notes = makers[options.kind](options)
        count = shards.write(examples, output, options.split, options.shards, options.seed)
    except BadSource as error:
        sys.exit(f"make_records.py: {error}")
    for name, text in notes.items():
        (output / name).write_text(text)
    print(f"{output}: {count} examples in {options.shards} files, {options.split}-*")


if __name__ == "__main__":
    main(sys.argv[1:])
