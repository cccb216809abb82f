"""Runs scripts/make_records.py and scripts/export_models.py on a small made-up data set.

    cases.py graphs OUT    writes records and graphs that read them, OUT/NAME.meta
    cases.py refused OUT   tries what cannot work, and looks at what is said of it

The last line is `ok CASE` if all went well.
"""

import contextlib
import io
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import export_models  # noqa: E402
import make_records  # noqa: E402
import numpy as np  # noqa: E402
import shapes  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import meta_graph_pb2  # noqa: E402

COUNT, SIZE = 24, 32

# What is in them is what tests/train/data.rs looks for.
GRAPHS = [
    "mnist_cnn --data records/classes --batch 12 --classes 3 --base-filters 4 --learning-rate 3e-3 -o classes.meta",
    "deeplabv3plus --data records/masks --augment --size 17 --batch 2 --classes 4 --middle-blocks 1 -o masks.meta",
    "unet3d --data records/volumes --size 8 --base-filters 2 --depth 2 -o volumes.meta",
    "mnist_cnn --data records/classes/train-* --batch 4 --classes 3 --towers 2 --parameter-device cpu -o towers.meta",
    "unet3d --synthetic --size 8 --base-filters 2 --depth 2 -o synthetic.meta",
    "mnist_cnn --data records/classes --batch 4 --classes 3 --base-filters 2 --saved-model saved_model",
]

RECORDS = [
    "classes shapes/classes -o records/classes --shards 3",
    "masks shapes/images shapes/masks --classes 4 -o records/masks --shards 2",
    "volumes shapes/volumes shapes/truths -o records/volumes",
]


def run(main, line):
    """The output of a program that must end well."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(line.split())
    return said.getvalue()


def refused(main, line, *words):
    """A program must end with an error that says all of this."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main(line.split())
        except SystemExit as error:
            text = said.getvalue() + str(error.code)
            missing = [word for word in words if word not in text]
            assert error.code not in [None, 0] and not missing, f"{line}: without {missing}: {text}"
            return
    raise AssertionError(f"{line}: no error")


def graphs():
    shapes.main(pathlib.Path("shapes"), COUNT, SIZE)
    for line in RECORDS:
        run(make_records.main, line)
    shards = sorted(pathlib.Path("records").rglob("train-*"))
    assert len(shards) == 6, shards
    before = [path.read_bytes() for path in shards]
    for line in RECORDS:
        run(make_records.main, line)
    assert before == [path.read_bytes() for path in shards], "the same files and flags, other bytes"
    assert pathlib.Path("records/classes/classes.txt").read_text() == "0 disc\n1 square\n2 stripe\n"
    for line in GRAPHS:
        run(export_models.main, line)
    reads_are_with_their_variables("towers.meta")


def reads_are_with_their_variables(path):
    """That whoever reads the file need not know where TensorFlow puts a read that names no device."""
    nodes = meta_graph_pb2.MetaGraphDef.FromString(pathlib.Path(path).read_bytes()).graph_def.node
    devices = {node.name: node.device for node in nodes}
    reads = [node for node in nodes if node.op == "ReadVariableOp"]
    elsewhere = [node.name for node in reads if node.device != devices[node.input[0]]]
    assert reads and not elsewhere, elsewhere


def write_png(path, values):
    pathlib.Path(path).write_bytes(tf.io.encode_png(np.asarray(values, np.uint8)).numpy())


def refused_records():
    shapes.main(pathlib.Path("shapes"), 3, SIZE)
    refuse = lambda line, *words: refused(make_records.main, line, *words)  # noqa: E731
    masks = "masks shapes/images shapes/masks --classes 4 -o out"
    refuse("classes nowhere -o out", "nowhere: no such folder")
    refuse("classes shapes/volumes -o out", "neither folders", "list.txt")
    refuse("classes shapes/classes -o out --shards 4", "only 3 examples")
    refuse("masks shapes/images shapes/masks --classes 2 -o out", "masks/1.png: class 2, expected 0 to 1, or 255")
    os.rename("shapes/masks/1.png", "kept.png")
    refuse(masks, "images/1.jpg: no mask 1.png in shapes/masks")
    write_png("shapes/masks/1.png", np.zeros([SIZE, SIZE - 1, 1]))
    refuse(masks, f"masks/1.png: {SIZE - 1}x{SIZE} pixels", f"has {SIZE}x{SIZE}")
    write_png("shapes/masks/1.png", np.zeros([SIZE, SIZE, 3]))
    refuse(masks, "masks/1.png: a PNG in colours")
    pathlib.Path("shapes/masks/1.png").write_bytes(pathlib.Path("kept.png").read_bytes()[:60])
    refuse(masks, "masks/1.png: cannot be decoded")
    assert not list(pathlib.Path("out").glob("*")), "half of the records were left behind"
    os.rename("kept.png", "shapes/masks/1.png")
    pathlib.Path("shapes/classes/disc/0.jpg").write_text("no image")
    refuse("classes shapes/classes -o out", "disc/0.jpg: neither JPEG nor PNG")
    pathlib.Path("shapes/images/list.txt").write_text("0.jpg 1\n1.jpg one\n")
    refuse("classes shapes/images -o out", "list.txt:2: expected 'IMAGE CLASS'")
    pathlib.Path("shapes/images/list.txt").write_text("0.jpg 7\n\n2.jpg 7\n")
    run(make_records.main, "classes shapes/images -o listed")
    run(make_records.main, masks)
    refuse(f"{masks} --shards 2", "train-00000-of-00001 is from another run")
    refuse("volumes shapes/volumes shapes/images -o out", "no files *.npy")


def refused_graphs():
    refuse = lambda line, *words: refused(export_models.main, f"{line} -o bad.meta", *words)  # noqa: E731
    pathlib.Path("empty").mkdir()
    pathlib.Path("empty/notes.txt").write_text("no record")
    classifier = "googlenet --size 32 --batch 2"
    refuse(f"{classifier} --data nowhere", "--data nowhere: no such file")
    refuse(f"{classifier} --data empty", "no train-* and no *.tfrecord* in this folder")
    refuse(f"{classifier} --data empty/notes.txt", "no TFRecord file")
    pathlib.Path("empty/train-00000-of-00001").write_text("")
    refuse(f"{classifier} --data empty", "no record in it")
    refuse(f"{classifier} --data out", "no feature image/class/label, which the imagenet layout has", "image/height")
    refuse("deeplabv3plus --size 33 --batch 2 --data listed", "no feature image/segmentation/class/encoded")
    refuse(f"{classifier} --data listed --classes 7 --size 32", "record 1: class 7, but the graph has 7 classes, from 0")
    refuse("googlenet --size free --data listed", "--data needs a fixed --batch and --size")
    refuse("while_rnn --data listed", "while_rnn has no --data: it is a flag of resnet50")
    refuse("resnet50 --towers 2", "resnet50 has no --towers")
    refuse("unet3d --augment", "unet3d has no --augment")
    refuse("googlenet --augment", "--augment goes with --data")
    refuse("googlenet --parameter-device cpu", "--parameter-device goes with --towers")
    refuse("googlenet --towers 2 --device /device:GPU:0", "leave out --device")
    assert not pathlib.Path("bad.meta").exists()


def main(case, folder):
    os.chdir(folder)
    if case == "graphs":
        graphs()
    else:
        refused_records()
        refused_graphs()
    print(f"ok {case}")


if __name__ == "__main__":
    main(*sys.argv[1:])
