"""The project's folder of test data: which graphs, and how to make them all."""

import inspect
import json
import pathlib
import shlex
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from . import feeds

SCRIPT = pathlib.Path(__file__).parent.parent / "export_models.py"

SMALL_STEP = "--optimizer momentum --learning-rate 0.001"  # the loss neither explodes nor vanishes in twenty steps


@dataclass(frozen=True)
class Entry:
    """A file or directory, what it is there for, and the flags of the run that makes it."""

    name: str
    purpose: str
    flags: str


# A network of few activations and large weights.
FORWARD = (
    "bert --forward --batch 1 --size 16 --layers 2 --hidden 32 --heads 2 --intermediate 512 --vocabulary 100"
    " --positions 32 --dropout 0"
)

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
    Entry(
        "keras_lstm_tf2",
        "an LSTM of Keras 3: `While`, lists of tensors, variables that are saved as copies",
        "keras_lstm --batch 4 --size 6 --layers 1 --units 16 --features 8 --tf2-saved-model",
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
        "unet3d_32_b1_towers.meta",
        "3D U-Net on two GPUs: a tower on each, the variables on the first",
        "unet3d --batch 1 --size 32 --base-filters 4 --towers 2 --optimizer sgd --reference-steps 3",
    ),
    Entry(
        "googlenet_64_b2.meta",
        "GoogLeNet, with reference variables as the original",
        "googlenet --batch 2 --size 64 --classes 10 --ref-variables --learning-rate 3e-5 --reference-steps 3",
    ),
    Entry(
        "bert_32_b8.meta",
        "BERT that trains on a CPU: 2 layers, 100 tokens; products of batches of matrices, tables of embeddings",
        "bert --batch 8 --size 32 --layers 2 --hidden 32 --heads 2 --intermediate 128 --vocabulary 100 --positions 32"
        " --reference-steps 3",
    ),
    Entry(
        "bert_16_b1_forward.meta",
        "BERT's forward pass: a step changes nothing, and weights are the most of its memory",
        f"{FORWARD} --reference-steps 3",
    ),
    Entry(
        "bert_16_b1_forward_ref.meta",
        "the same on reference variables",
        f"{FORWARD} --ref-variables --reference-steps 3",
    ),
    Entry(
        "bert_16_b1_frozen.pb",
        "the same with constants in place of variables, a bare GraphDef",
        f"{FORWARD} --frozen --reference-steps 3",
    ),
    Entry(
        "gpt_32_b4.meta",
        "GPT-2 that trains on a CPU: 2 layers, 200 tokens; gradients of embeddings whose sizes the data decides",
        "gpt --batch 4 --size 32 --layers 2 --hidden 32 --heads 2 --intermediate 128 --vocabulary 200 --positions 32"
        " --learning-rate 1e-3 --reference-steps 3",
    ),
    Entry(
        "gan_16_b8.meta",
        "two train ops, run in turn, each with variables of its own; reference variables",
        "gan --batch 8 --size 16 --base-filters 8 --latent 16 --ref-variables --reference-steps 4",
    ),
    Entry(
        "vit_32_b8_fp16.meta",
        "half precision; the update is in a branch, which steps whose gradients overflow do not take",
        "vit --batch 8 --size 32 --patch 8 --layers 2 --hidden 32 --heads 2 --intermediate 64 --classes 10 --fp16"
        " --dynamic-loss-scale --learning-rate 1e-3 --reference-steps 6",
    ),
    Entry(
        "ctc_48_b4.meta",
        "a bidirectional LSTM in two while loops with TensorArrays; a sparse tensor of as many labels as there are",
        "ctc --batch 4 --size 48 --layers 1 --units 32 --features 16 --classes 10 --reference-steps 3",
    ),
    Entry(
        "static_lstm_12_b8.meta",
        "an LSTM whose steps are all in the graph, and a sparse gradient",
        "static_lstm --batch 8 --size 12 --layers 1 --units 64 --vocabulary 200 --optimizer adam --learning-rate 1e-3"
        " --reference-steps 3",
    ),
    Entry(
        "dynamic_rnn_20_b4.meta",
        "`dynamic_rnn` over an embedding: a loop whose length the data decides, TensorArrays, stacks",
        "dynamic_rnn --batch 4 --size 20 --units 32 --vocabulary 200 --reference-steps 3",
    ),
    Entry(
        "mobilenet_64_b4.meta",
        "the first 4 blocks of MobileNetV2; gradients and optimizer wait for batch normalization's updates",
        "mobilenet --batch 4 --size 64 --blocks 4 --base-filters 16 --classes 10 --updates-first --learning-rate 1e-3"
        " --reference-steps 3",
    ),
    Entry(
        "mobilenet_64_b4_grouped.meta",
        "the same with these updates beside the optimizer's",
        "mobilenet --batch 4 --size 64 --blocks 4 --base-filters 16 --classes 10 --learning-rate 1e-3 --reference-steps 3",
    ),
    Entry(
        "efficientnet_64_b2.meta",
        "the first 3 blocks of EfficientNet-B0, with the updates first",
        "efficientnet --batch 2 --size 64 --blocks 3 --base-filters 16 --classes 10 --updates-first --learning-rate 1e-4"
        " --reference-steps 3",
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
            run = subprocess.run([sys.executable, SCRIPT, *arguments(entry)], cwd=directory, check=False)
            if run.returncode:
                raise SystemExit(f"{entry.name}: could not be made (status {run.returncode}); see above")
    write_readme(pathlib.Path(directory))


def arguments(entry):
    """The script's arguments for an entry; the flags of a SavedModel end in the one that its directory belongs to."""
    words = shlex.split(entry.flags)
    return [*words, entry.name] if words[-1].endswith("saved-model") else [*words, "-o", entry.name]


README = """\
# Training graphs to test with

Made by `scripts/export_models.py`, this page included: forward, backward and optimizer, with `_output_shapes` on
every node unless said otherwise. `NAME.json` beside each says what its inputs, loss, train step and initialization
are called, how to feed it, and which command made it. A name that ends in no suffix is a SavedModel.

    scripts/export_models.py --testdata testdata    # makes the folder again
    scripts/export_models.py --check testdata       # trains all of it, compares with the manifests

Made twice, each file has the same bytes, but for the `fingerprint.pb` of a SavedModel, which holds a random number.
What Python and packages this takes is in `scripts/requirements.txt`.

{table}

Steps are those of the recorded losses; without them, the graph is too large to train on a CPU in seconds. Flags of each
file follow below; `scripts/export_models.py --help` explains them.

{commands}

## Manifests

- `format`, `encoding`, `output_shapes`, `bytes`: what the file is. For a SavedModel also `tags`, and the bytes are
  those of `saved_model.pb`.
- `inputs`, in the order of the feeds below: `shape` has null where a dimension is free, `feed_shape` has numbers.
- `train_op`, `init_op`, `loss`: names, the same as in the collections `train_op`, `init_op` and `losses` of a
  MetaGraphDef. In the TensorFlow 2 SavedModel the first two are null: loading it restores the variables, and fetching
  the loss trains.
- `turns`, where several steps are run in turn: `train_op` and `loss` of each. Those above are the first one's, the collections hold all, and of
  the recorded losses the first is the first turn's, the second the second's, and so on.
- `variables`: `parameters` counts numbers in trainable variables; `global` counts the optimizer's variables too.
- `reference`: the losses of the first steps on a CPU with one thread and the given environment, and the bits of these
  32-bit floats. Fetch loss and train step in one run. Bits hold on the machine that made them; elsewhere the losses
  agree to about 1e-3.

## Feeds

{feeds}

With seed 1, the seed of all recorded losses:

{examples}
"""


def write_readme(directory):
    """Writes the folder's README.md from the manifests in it."""
    made = [(entry, json.loads(manifest_of(directory, entry).read_text())) for entry in ENTRIES]
    rows = ["| file | KiB | nodes | steps | what it is there for |", "|---|---|---|---|---|"]
    for entry, about in made:
        steps = len(about["reference"]["losses"]) if "reference" in about else ""
        rows.append(f"| `{entry.name}` | {about['bytes'] / 1024:.0f} | {about['nodes']} | {steps} | {entry.purpose} |")
    text = README.format(
        table="\n".join(rows),
        commands="\n".join(f"    {about['command']}" for _, about in made),
        feeds=inspect.cleandoc(feeds.__doc__).split("\n", 2)[2],
        examples=examples(),
    )
    (directory / "README.md").write_text(text)


def manifest_of(directory, entry):
    return (directory / entry.name).with_suffix(".json")


def examples():
    """Values to hold another implementation of the feeds against."""
    normal = {"kind": "normal"}
    label = {"kind": "int", "lo": 0, "hi": 10}
    lines = []
    for k in range(2):
        for i, number in enumerate(feeds.bits(1, k, 3)):
            value = feeds.values(normal, np.float32, [3], 1, k, 0)[i]
            whole = feeds.values(label, np.int32, [3], 1, k, 0)[i]
            values = f"normal {value!s:>12} = {value.view(np.uint32):08x}   int 0..10: {whole}"
            lines.append(f"    bits(1, {k}, {i}) = {number:016x}   {values}")
    return "\n".join(lines)
