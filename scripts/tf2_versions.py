#!/usr/bin/env python3
"""Load rewritten SavedModels of TensorFlow 2 in Python, and train them beside the originals, in each version of TensorFlow.

    scripts/tf2_versions.py pair ORIGINAL REWRITTEN             # by the Python that runs this; prints a line of JSON
    scripts/tf2_versions.py table FOLDER --bin target/release   # by environments in FOLDER, which are made if they are not there
    scripts/tf2_versions.py table FOLDER --bin target/release --write docs/lms-tune.md

Both are loaded by `tf.saved_model.load`, and by Keras as a layer where Keras wrote them; what trains is the signature. Losses and all
variables are compared bit by bit, and the swaps of the plan are looked for in what was loaded. All of it runs on the CPU.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pages

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

#: What is loaded: a folder of testdata, or what export_models.py makes with these flags. Whether Keras wrote it.
MODELS = {
    "mnist_cnn_tf2": (None, True),
    "keras_lstm_tf2": (None, True),
    "googlenet": ("googlenet --batch 2 --size 64 --classes 10", False),
    "resnet50": ("resnet50 --batch 1 --size 32 --classes 10 --optimizer momentum", True),
    "mobilenet": ("mobilenet --batch 4 --size 32 --blocks 4 --base-filters 8 --classes 10", False),
    "deeplabv3plus": ("deeplabv3plus --batch 1 --size 33 --middle-blocks 1 --optimizer momentum", False),
    "unet3d": ("unet3d --batch 1 --size 16 --base-filters 4", False),
    "bert": ("bert --batch 4 --size 16 --vocabulary 10 --hidden 32 --heads 2 --intermediate 64 --layers 2 --positions 16", False),
    "gpt": ("gpt --batch 4 --size 16 --vocabulary 10 --hidden 32 --heads 2 --intermediate 64 --layers 2 --positions 16", False),
    "vit, fp16": (
        "vit --batch 4 --size 32 --patch 8 --layers 2 --hidden 32 --heads 2 --intermediate 64 --classes 10 --fp16 --dynamic-loss-scale",
        False,
    ),
    "static_lstm": ("static_lstm --batch 4 --size 6 --layers 1 --units 32 --vocabulary 10", False),
    "dynamic_rnn": ("dynamic_rnn --batch 4 --size 10 --units 16 --vocabulary 10", False),
    "cond_cnn": ("cond_cnn", False),
    "while_rnn": ("while_rnn", False),
}

VERSIONS = ["2.16", "2.17", "2.18", "2.19", "2.20", "2.21"]

#: What the name of an op that brings a tensor back begins with.
SWAP_IN = "lms/swap_in/"


def graph_ops(step):
    """The names of the ops of what was loaded, those of the function as it was before aside."""
    graph = step.graph.as_graph_def()
    functions = [each for each in graph.library.function if not each.signature.name.startswith("lms_original_of_")]
    return {node.name for nodes in [graph.node, *[each.node_def for each in functions]] for node in nodes}


def trained(folder, as_layer, args):
    """What a SavedModel's losses and variables are after some steps, and how many swaps it has."""
    import numpy
    import tensorflow as tf
    from train_signature import made_up, training_signature

    loaded = tf.saved_model.load(str(folder))
    name = training_signature(loaded)
    step = concrete = loaded.signatures[name]
    if as_layer:
        import keras

        # Whoever calls what a layer calls has to keep the layer, which holds the variables.
        loaded = keras.layers.TFSMLayer(str(folder), call_endpoint=name)
        step = loaded.call_endpoint_fn
        concrete = step.concrete_functions[0]
    random = numpy.random.default_rng(args.seed)
    given, named = concrete.structured_input_signature
    given = [tf.constant(made_up(spec, args, random)) for spec in given]
    named = {name: tf.constant(made_up(spec, args, random)) for name, spec in sorted(named.items())}
    losses = [tf.nest.flatten(step(*given, **named))[0].numpy().tobytes().hex() for _ in range(args.steps)]
    swaps = sum(name.startswith(SWAP_IN) for name in graph_ops(concrete))
    return losses, [variable.numpy().tobytes() for variable in concrete.variables], swaps


def pair(args):
    """Trains both, and says how they compare."""
    import tensorflow as tf
    from train_signature import EXACT

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options(EXACT)
    told = {"tensorflow": tf.__version__}
    if args.keras:
        import keras

        told["keras"] = keras.__version__
    found = {}
    for which, folder in [("original", args.original), ("rewritten", args.rewritten)]:
        try:
            found[which] = trained(folder, args.keras, args)
        except Exception as error:  # whatever a version cannot do is part of the table
            told["failed"] = f"{which}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            break
    else:
        (losses, values, _), (losses_after, values_after, swaps) = found["original"], found["rewritten"]
        told |= {
            "losses_are_same": losses == losses_after,
            "losses_differ_by_step": len(set(losses)) > 1,
            "variables": len(values),
            "variables_differing": sum(a != b for a, b in zip(values, values_after, strict=True)),
            "swaps": swaps,
        }
    print(json.dumps(told))


def python_of(folder, version):
    """The Python of an environment with this version of TensorFlow."""
    place = folder / version
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"tensorflow-cpu=={version}.*"], check=True)
        # Optimizers of Keras 2 are loaded by the package that has it, which asks for the GPU build of TensorFlow.
        subprocess.run([*pip, "--no-deps", f"tf_keras=={version}.*"], check=True)
        (place / "installed").touch()
    return python


def layers_function(folder, signature="train"):
    """The function that a layer of Keras calls: what is called like the signature in the object graph."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    nodes = saved.meta_graphs[0].object_graph_def.nodes
    found = next(child.node_id for child in nodes[0].children if child.local_name == signature)
    return nodes[found].function.concrete_functions[0]


def told_by(command):
    """The JSON of the last line that a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.splitlines() or [f"exit status {done.returncode}"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def cell(told, swaps):
    if "failed" in told:
        return told["failed"]
    if not told["losses_are_same"] or told["variables_differing"]:
        return f"**{told['variables_differing']} of {told['variables']} variables differ**"
    if told["swaps"] != swaps:
        return f"**{told['swaps']} swaps of {swaps}**"
    return f"the same, {told['variables']}"


def table(args):
    """A row for each model, a column for each version."""
    lines = [f"| model | loaded by | swaps | {' | '.join(args.versions)} |\n", f"|---|---|--:|{'---|' * len(args.versions)}\n"]
    for name in args.only:
        flags, is_of_keras = MODELS[name]
        with tempfile.TemporaryDirectory() as folder:
            original = pathlib.Path(folder, "original")
            if flags is None:
                original = ROOT / "testdata" / name
            else:
                command = [sys.executable, HERE / "export_models.py", *flags.split(), "--tf2-saved-model", original]
                subprocess.run(command, check=True, capture_output=True)
            for is_layer in [False, True][: 1 + is_of_keras]:
                rewritten = pathlib.Path(folder, f"rewritten_{is_layer}")
                flags = ["--function", layers_function(original)] if is_layer else []
                command = [args.bin / "lms-rewrite", original, "-o", rewritten, "--json", *flags]
                plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                # The same integers for all arguments: as large as the one with the least of them may be.
                inputs = json.loads(original.with_name(original.name + ".json").read_text())["inputs"]
                largest = min(each["hi"] - 1 for each in inputs if each["kind"] == "int")
                cells = []
                for version in args.versions:
                    command = [python_of(args.folder, version), __file__, "pair", original, rewritten, *["--keras"][: int(is_layer)]]
                    command += ["--largest-integer", str(largest)]
                    cells.append(cell(told_by(command), plan["swapins"]))
                by = "`keras.layers.TFSMLayer`" if is_layer else "`tf.saved_model.load`"
                lines.append(f"| {name} | {by} | {plan['swapins']} | {' | '.join(cells)} |\n")
                print(lines[-1], end="", flush=True)
    if args.write:
        # Of the other models the page's rows stay, if they are of the same versions.
        before = pages.read(args.write, "tf2_versions.py").splitlines(keepends=True)
        others = before[2:] if before[:2] == lines[:2] else []
        kept = [line for line in others if line.split(" | ")[0] not in {new.split(" | ")[0] for new in lines[2:]}]
        order = list(MODELS)
        rows = sorted(kept + lines[2:], key=lambda line: order.index(line.split(" | ")[0].removeprefix("| ")))
        pages.write(args.write, "tf2_versions.py", "".join(lines[:2] + rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("pair", help="train an original and what it was rewritten to")
    one.add_argument("original", type=pathlib.Path)
    one.add_argument("rewritten", type=pathlib.Path)
    one.add_argument("--keras", action="store_true", help="load both as layers of Keras")
    one.add_argument("--steps", type=int, default=4)
    one.add_argument("--batch", type=int, default=4, help="size of the dimensions that the signature leaves free")
    one.add_argument("--largest-integer", type=int, default=9, help="integers are made up between 0 and this")
    one.add_argument("--seed", type=int, default=3)
    all_of_them = commands.add_parser("table", help="do so for several models in several versions of TensorFlow")
    all_of_them.add_argument("folder", type=pathlib.Path, help="where the environments are, or are made")
    all_of_them.add_argument("--bin", type=pathlib.Path, required=True, help="the folder of lms-rewrite")
    all_of_them.add_argument("--only", nargs="+", choices=MODELS, metavar="MODEL", default=list(MODELS))
    all_of_them.add_argument("--versions", nargs="+", default=VERSIONS)
    all_of_them.add_argument("--write", help="the page with the table's place")
    args = parser.parse_args()
    pair(args) if args.command == "pair" else table(args)


if __name__ == "__main__":
    main()
