"""The project's folder of test data: which graphs, and how to make them all."""

import pathlib
import shlex
import subprocess
import sys
from dataclasses import dataclass

SCRIPT = pathlib.Path(__file__).parent.parent / "export_models.py"

SMALL_STEP = "--optimizer momentum --learning-rate 0.001"  # the loss neither explodes nor vanishes in twenty steps


@dataclass(frozen=True)
class Entry:
    """A file or directory, what it is there for, and the flags that make it: one run of the script, whatever came before."""

    name: str
    purpose: str
    flags: str


ENTRIES = [
    Entry("mnist_cnn.meta", "the smallest whole training graph", "mnist_cnn --reference-steps 3"),
    Entry(
        "mnist_cnn_ref_momentum.meta",
        "reference variables (VariableV2), momentum",
        f"mnist_cnn --ref-variables {SMALL_STEP} --reference-steps 3",
    ),
    Entry(
        "mnist_cnn_bN_sgd.meta",
        "batch size free, plain gradient descent",
        "mnist_cnn --batch free --optimizer sgd --learning-rate 0.001 --reference-steps 3",
    ),
    Entry("mnist_cnn_text.pbtxt", "MetaGraphDef as text", "mnist_cnn --text --reference-steps 3"),
    Entry(
        "mnist_cnn_noshapes.pb",
        "bare GraphDef without `_output_shapes`",
        "mnist_cnn --graphdef --no-shapes --reference-steps 3",
    ),
    Entry(
        "mnist_cnn_saved_model",
        "SavedModel as TensorFlow 1 writes it, tag `train`",
        f"mnist_cnn --base-filters 2 {SMALL_STEP} --reference-steps 3 --saved-model",
    ),
    Entry(
        "mnist_cnn_tf2",
        "SavedModel as TensorFlow 2 writes it, tag `serve`: the training step is a function",
        f"mnist_cnn --base-filters 2 {SMALL_STEP} --reference-steps 3 --tf2-saved-model",
    ),
    Entry("cond_cnn.meta", "v1 conditions: `Switch`, `Merge`, dead branches", "cond_cnn --reference-steps 4"),
    Entry(
        "cond_cnn_ref.meta",
        "v1 conditions on reference variables: `RefSwitch`",
        "cond_cnn --ref-variables --reference-steps 4",
    ),
    Entry("while_rnn.meta", "v1 while loop: frames, stacks", "while_rnn --reference-steps 3"),
    Entry(
        "resnet50_64_b2.meta",
        "ResNet50 that trains on a CPU",
        "resnet50 --batch 2 --size 64 --classes 10 --optimizer momentum --learning-rate 5e-5 --reference-steps 3",
    ),
    Entry(
        "resnet50_2000_b1.meta",
        "ResNet50 in full, for images of 2000x2000: the worked example",
        "resnet50 --batch 1 --size 2000",
    ),
    Entry(
        "deeplabv3plus_65_b2.meta",
        "DeepLabv3+ that trains on a CPU: 4 blocks in the middle of the backbone, not 16",
        "deeplabv3plus --batch 2 --size 65 --middle-blocks 4 --reference-steps 3",
    ),
    Entry(
        "deeplabv3plus_513_b16.meta",
        "DeepLabv3+ in full, with reference variables as the original",
        "deeplabv3plus --batch 16 --size 513 --ref-variables",
    ),
    Entry("unet3d_16_b1.meta", "3D U-Net", "unet3d --batch 1 --size 16 --reference-steps 3"),
    Entry(
        "unet3d_16_b1_deconv.meta",
        "3D U-Net with transposed convolutions and reference variables",
        "unet3d --batch 1 --size 16 --deconvolution --ref-variables --reference-steps 3",
    ),
    Entry(
        "googlenet_64_b2.meta",
        "GoogLeNet, with reference variables as the original",
        "googlenet --batch 2 --size 64 --classes 10 --ref-variables --learning-rate 3e-5 --reference-steps 3",
    ),
    Entry(
        "googlenet_64_b2_fp16.meta",
        "GoogLeNet in half precision, with loss scaling",
        "googlenet --batch 2 --size 64 --classes 10 --fp16 --optimizer sgd --learning-rate 3e-5 --reference-steps 3",
    ),
]


def make(directory, only=None):
    """Makes the folder, or the entries named in `only`."""
    known = [entry.name for entry in ENTRIES]
    for name in only or []:
        if name not in known:
            raise SystemExit(f"--only {name}: no such entry; there are {', '.join(known)}")
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        if not only or entry.name in only:
            run = subprocess.run([sys.executable, SCRIPT, *arguments(entry)], cwd=directory)
            if run.returncode:
                raise SystemExit(f"{entry.name}: could not be made (status {run.returncode}); see above")


def arguments(entry):
    """The script's arguments for an entry; the flags of a SavedModel end in the one that its directory belongs to."""
    words = shlex.split(entry.flags)
    return [*words, entry.name] if words[-1].endswith("saved-model") else [*words, "-o", entry.name]
