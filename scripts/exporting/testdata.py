"""The project's folder of test data: which graphs, and how to make them all."""

import pathlib
import shlex
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parent.parent / "export_models.py"

# File or directory, what it is for, flags. Each entry is one run of the script, so that none depends on another.
ENTRIES = [
    ("mnist_cnn.meta", "the smallest whole training graph", "mnist_cnn --reference-steps 3"),
    (
        "mnist_cnn_ref_momentum.meta",
        "reference variables (VariableV2), momentum",
        "mnist_cnn --ref-variables --optimizer momentum --learning-rate 0.001 --reference-steps 3",
    ),
    (
        "mnist_cnn_bN_sgd.meta",
        "batch size free, plain gradient descent",
        "mnist_cnn --batch free --optimizer sgd --learning-rate 0.001 --reference-steps 3",
    ),
    ("mnist_cnn_text.pbtxt", "MetaGraphDef as text", "mnist_cnn --text --reference-steps 3"),
    (
        "mnist_cnn_noshapes.pb",
        "bare GraphDef without _output_shapes",
        "mnist_cnn --graphdef --no-shapes --reference-steps 3",
    ),
    (
        "resnet50_64_b2.meta",
        "ResNet50 that trains on a CPU",
        "resnet50 --batch 2 --size 64 --classes 10 --optimizer momentum --learning-rate 5e-5 --reference-steps 3",
    ),
    ("resnet50_2000_b1.meta", "the worked example: ResNet50, images of 2000x2000", "resnet50 --batch 1 --size 2000"),
    ("cond_cnn.meta", "v1 conditions: Switch, Merge, dead branches", "cond_cnn --reference-steps 4"),
    (
        "cond_cnn_ref.meta",
        "v1 conditions on reference variables: RefSwitch",
        "cond_cnn --ref-variables --reference-steps 4",
    ),
    ("while_rnn.meta", "v1 while loop: frames, stacks", "while_rnn --reference-steps 3"),
]


def make(directory, only=None):
    """Makes the folder, or the entries named in `only`."""
    known = [name for name, _, _ in ENTRIES]
    for name in only or []:
        if name not in known:
            raise SystemExit(f"--only {name}: no such entry; there are {', '.join(known)}")
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    for name, _, flags in ENTRIES:
        if not only or name in only:
            run = subprocess.run([sys.executable, SCRIPT, *arguments(name, flags)], cwd=directory)
            if run.returncode:
                raise SystemExit(f"{name}: could not be made (status {run.returncode}); see above")


def arguments(name, flags):
    """The script's arguments for an entry; a name without suffix is a SavedModel, whose flag the entry ends in."""
    words = shlex.split(flags)
    return [*words, name] if words[-1].endswith("saved-model") else [*words, "-o", name]
