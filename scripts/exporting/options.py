"""The command line."""

import argparse

from models import MODELS
from models.model import FREE
from models.recurrent import CELLS
from records import LAYOUTS

from .step import OPTIMIZERS
from .towers import PARAMETER_DEVICES

DESCRIPTION = """\
Exports TensorFlow training graphs: forward, backward and optimizer.

A graph is written with its initialization, train step and loss in the standard collections (init_op, train_op,
losses), a signature "train" that names its inputs, and a manifest beside it (NAME.json) that says how to feed it."""

EXAMPLES = """\
examples:
  ResNet50, batch 1, images of 2000x2000, as binary MetaGraphDef:
    export_models.py resnet50 --batch 1 --size 2000 -o resnet50_2000_b1.meta

  batch size left open, reference variables (VariableV2), momentum:
    export_models.py mnist_cnn --batch free --ref-variables --optimizer momentum -o mnist.meta

  a bare GraphDef without shapes; then the same graph as text:
    export_models.py cond_cnn --graphdef --no-shapes -o cond.pb
    export_models.py cond_cnn --graphdef --no-shapes --text -o cond.pbtxt

  train it for three steps on the CPU, from the file, and put the losses into the manifest:
    export_models.py unet3d --batch 1 --size 16 --reference-steps 3 -o unet3d_16_b1.meta

  read TFRecords of images with masks, in random parts; scripts/make_records.py makes such records:
    export_models.py deeplabv3plus --data voc/records --augment -o deeplab_voc.meta

  two GPUs, variables on the CPU, values that are made once on each GPU:
    export_models.py googlenet --batch 15 --size 2240 --towers 2 --parameter-device cpu --synthetic -o googlenet.meta

  make the whole folder of test data; then see whether this machine computes the same losses:
    export_models.py --testdata testdata
    export_models.py --check testdata

'export_models.py MODEL --help' lists a model's own flags and defaults."""

# Flags that only some models have. A model's `flags` says which, and the default.
SPECIFIC = {
    "dynamic_learning_phase": {
        "action": "store_true",
        "help": "decide between training and inference at run time, by a boolean placeholder and tf.cond",
    },
    "base_filters": {"type": int, "metavar": "N", "help": "filters of the first convolution"},
    "depth": {"type": int, "metavar": "N", "help": "levels, each of half the size of the one before"},
    "deconvolution": {"action": "store_true", "help": "learn the way up, by transposed convolutions"},
    "output_stride": {
        "type": int,
        "choices": [8, 16],
        "help": "how many times smaller than the image the backbone's features are",
    },
    "middle_blocks": {"type": int, "metavar": "N", "help": "blocks in the middle of the backbone; 16 make Xception-65"},
    "fp16": {"action": "store_true", "help": "compute in half precision; variables and loss stay float32"},
    "loss_scale": {
        "type": float,
        "metavar": "X",
        "help": "with --fp16: factor on the loss, taken off the gradients again",
    },
    "dynamic_loss_scale": {
        "action": "store_true",
        "help": "with --fp16: the factor is a variable, which begins with --loss-scale and is halved where a gradient overflows; "
        "such a step trains nothing",
    },
    "steps": {"type": int, "metavar": "N", "help": "length of the sequence"},
    "blocks": {"type": int, "metavar": "N", "help": "blocks of the network, the first ones"},
    "latent": {"type": int, "metavar": "N", "help": "random values that an image is made of"},
    "patch": {"type": int, "metavar": "N", "help": "height and width of a patch of the image"},
    "units": {"type": int, "metavar": "N", "help": "values of a cell's state"},
    "features": {"type": int, "metavar": "N", "help": "values of each frame"},
    "cell": {"choices": sorted(CELLS), "help": "kind of recurrent cell"},
    "layers": {"type": int, "metavar": "N", "help": "layers of the encoder, of recurrent cells, or of the whole network"},
    "hidden": {"type": int, "metavar": "N", "help": "values for each token between the layers"},
    "heads": {"type": int, "metavar": "N", "help": "heads of attention, each with its part of these values"},
    "intermediate": {"type": int, "metavar": "N", "help": "values for each token inside a layer's dense ones"},
    "vocabulary": {"type": int, "metavar": "N", "help": "how many tokens there are"},
    "positions": {"type": int, "metavar": "N", "help": "length of the longest sequence that has embeddings"},
    "dropout": {"type": float, "metavar": "X", "help": "part of the values that dropout leaves out; 0 for no dropout"},
}

# Those that count something, of which there must be one at least.
COUNTS = [name for name, settings in SPECIFIC.items() if settings.get("type") is int and "choices" not in settings]


def flag(name):
    """`base_filters` as the user writes it."""
    return "--" + name.replace("_", "-")


def count_or_free(text):
    """A number above zero, or the word that leaves it open."""
    if text == FREE:
        return FREE
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, or '{FREE}', not '{text}'")
    return value


class Parser(argparse.ArgumentParser):
    """Takes no abbreviations, and keeps the layout of its texts."""

    def __init__(self, **settings):
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)


def parser():
    """The parser of the whole command line, with one for each model below it."""
    top = Parser(prog="export_models.py", description=DESCRIPTION, epilog=EXAMPLES)
    top.add_argument("--testdata", metavar="DIR", help="make the project's folder of test data")
    top.add_argument(
        "--check", metavar="DIR", help="train every graph of a folder again and compare with what its manifest says"
    )
    top.add_argument(
        "--only", metavar="NAME", action="append", help="with --testdata: only this entry (may be repeated)"
    )
    subparsers = top.add_subparsers(dest="model", metavar="MODEL", title="models", parser_class=Parser)
    for model in MODELS.values():
        add_model(subparsers.add_parser(model.name, help=model.summary, description=model.summary), model)
    return top


def add_model(sub, model):
    graph = sub.add_argument_group("the graph")
    graph.add_argument(
        "--batch", type=count_or_free, default=model.batch, metavar="N|free", help=f"batch size (default {model.batch})"
    )
    graph.add_argument(
        "--size",
        type=count_or_free,
        default=model.size,
        metavar="N|free",
        help=f"height and width, depth of a volume, or length of a sequence (default {model.size})",
    )
    if model.classes:
        graph.add_argument("--classes", type=int, default=model.classes, metavar="N", help=f"(default {model.classes})")
    else:
        sub.set_defaults(classes=None)
    graph.add_argument(
        "--optimizer", choices=sorted(OPTIMIZERS), default=model.optimizer, help=f"(default {model.optimizer})"
    )
    graph.add_argument(
        "--learning-rate", type=float, default=model.learning_rate, metavar="X", help=f"(default {model.learning_rate})"
    )
    graph.add_argument(
        "--forward", action="store_true", help="the forward pass alone: a step computes the loss and changes nothing"
    )
    graph.add_argument(
        "--ref-variables", action="store_true", help="reference variables (VariableV2) in place of resource variables"
    )
    graph.add_argument(
        "--ungated",
        action="store_true",
        help="let each gradient be used before the op's others are there, and leave out those that nobody uses, as Keras does",
    )
    graph.add_argument(
        "--updates-first",
        action="store_true",
        help="let gradients and optimizer wait for the updates of batch normalization's averages, as is usual in handwritten "
        "code; without it they are one more part of the train step",
    )
    graph.add_argument(
        "--data-format",
        choices=["channels_last", "channels_first"],
        default="channels_last",
        help="CPUs run channels_last only (default)",
    )
    graph.add_argument(
        "--device", metavar="NAME", help="put all operations on this device, such as /device:GPU:0 (default: on none)"
    )
    graph.add_argument(
        "--seed", type=int, default=87654321, metavar="N", help="seed of all random operations (default 87654321)"
    )
    add_input(sub, model)
    if model.towers:
        add_towers(sub)
    if model.flags:
        own = sub.add_argument_group(f"{model.name} only")
        for name, default in model.flags.items():
            settings = dict(SPECIFIC[name])
            if settings.get("action") != "store_true":
                settings["help"] += f" (default {default})"
            own.add_argument(flag(name), default=default, **settings)
    file = sub.add_argument_group("the file")
    target = file.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="FILE", help="(default MODEL_SIZE_bBATCH.meta, .pb or .pbtxt)")
    target.add_argument("--saved-model", metavar="DIR", help="write a SavedModel, with initial values of the variables")
    if not model.turns:
        target.add_argument(
            "--tf2-saved-model", metavar="DIR", help="write a SavedModel of a TensorFlow 2 training step, a tf.function"
        )
    if model.wraps_too:
        file.add_argument(
            "--wrapped",
            action="store_true",
            help="with --tf2-saved-model the step that the graph has, not one that was written for TensorFlow 2",
        )
    file.add_argument(
        "--frozen",
        action="store_true",
        help="a bare GraphDef with initial values as constants in place of variables; goes with --forward",
    )
    file.add_argument("--graphdef", action="store_true", help="a bare GraphDef in place of a MetaGraphDef")
    file.add_argument("--text", action="store_true", help="text in place of binary")
    file.add_argument("--no-shapes", action="store_true", help="leave out the attribute _output_shapes")
    file.add_argument(
        "--reference-steps",
        type=int,
        default=0,
        metavar="N",
        help="train the written graph for N steps on the CPU and record the losses in the manifest",
    )


def add_input(sub, model):
    """Where a batch comes from, if not from placeholders."""
    group = sub.add_argument_group("the input (default: placeholders, which are fed)")
    source = group.add_mutually_exclusive_group()
    if model.records:
        source.add_argument(
            "--data",
            metavar="DIR|PATTERN",
            help=f"read TFRecords of the layout '{model.records}': the train-* or *.tfrecord* of a folder, or files that "
            "match a pattern; paths go into the graph as they are given",
        )
    source.add_argument(
        "--synthetic", action="store_true", help="random values, made once on the device: nothing is fed or copied"
    )
    if model.records and LAYOUTS[model.records].augments:
        group.add_argument(
            "--augment", action="store_true", help="with --data: random parts, scales and mirror images, from the seed"
        )
    sub.set_defaults(data=None, augment=False, towers=None, parameter_device=None)


def add_towers(sub):
    group = sub.add_argument_group("several GPUs (default: one graph without towers)")
    group.add_argument(
        "--towers",
        type=int,
        metavar="N",
        help="the model on each of /device:GPU:0 … N-1, --batch examples on each; one update with the mean gradient",
    )
    group.add_argument(
        "--parameter-device",
        choices=sorted(PARAMETER_DEVICES),
        help="with --towers: where the variables are, on the first GPU (default) or on the CPU",
    )


def parse(arguments):
    """The options of one run, checked."""
    top = parser()
    options, unknown = top.parse_known_args(arguments)
    model = MODELS.get(options.model)
    if unknown:
        top.error(explain_unknown(unknown[0], model))
    if options.only and not options.testdata:
        top.error("--only goes with --testdata")
    if options.testdata or options.check:
        if model or (options.testdata and options.check):
            top.error("--testdata and --check take a whole folder: give one of them, and no model with it")
        return options
    if not model:
        top.error(f"which model? One of {', '.join(MODELS)}; or --testdata DIR, or --check DIR")
    check(top, options, model)
    settle(options, model)
    return options


def explain_unknown(argument, model):
    """Why an argument is not understood."""
    name = argument.split("=")[0].lstrip("-").replace("-", "_")
    able = {
        "data": [other.name for other in MODELS.values() if other.records],
        "augment": [other.name for other in MODELS.values() if other.records and LAYOUTS[other.records].augments],
        "towers": [other.name for other in MODELS.values() if other.towers],
        "parameter_device": [other.name for other in MODELS.values() if other.towers],
    }
    if model and name in able:
        return f"{model.name} has no {flag(name)}: it is a flag of {', '.join(able[name])}"
    owners = [other.name for other in MODELS.values() if name in other.flags]
    if owners and model:
        return f"{model.name} has no {flag(name)}: it is a flag of {', '.join(owners)}"
    if model:
        return f"{argument}: not understood; 'export_models.py {model.name} --help' lists the flags"
    return f"{argument}: not understood; a model's flags come after its name"


def check(top, options, model):
    """Stops at what the model cannot do, and says what it can."""
    problems = [
        (
            options.size == FREE and not model.free_size,
            f"{model.name} needs a fixed --size: its dense layer has a weight for each pixel",
        ),
        (
            options.data_format == "channels_first" and not model.channels_first,
            f"{model.name} has channels last only",
        ),
        (
            options.ref_variables and model.resource_variables_only,
            f"{model.name} has no --ref-variables: Keras makes resource variables only",
        ),
        (
            options.size != FREE and options.size < model.smallest,
            f"--size {options.size}: {model.name} needs at least {model.smallest}",
        ),
        (options.classes is not None and options.classes < 2, f"--classes {options.classes}: expected at least 2"),
        (options.reference_steps < 0, f"--reference-steps {options.reference_steps}: expected 0 or more"),
    ]
    problems += check_input(options)
    problems += check_forward(options)
    problems += check_step(options, model)
    directory = options.saved_model or getattr(options, "tf2_saved_model", None)
    for name in ["graphdef", "text", "no_shapes"]:
        problems.append((directory and getattr(options, name), f"{flag(name)} does not go with a SavedModel"))
    problems += [
        (getattr(options, name, 1) < 1, f"{flag(name)} {getattr(options, name, 1)}: expected a number above 0")
        for name in COUNTS
    ]
    for wrong, message in problems:
        if wrong:
            top.error(message)
    if model.check:
        message = model.check(options)
        if message:
            top.error(message)


def check_forward(options):
    """What does not go together with a forward pass, each with a message."""
    tf2 = getattr(options, "tf2_saved_model", None)
    return [
        (options.frozen and not options.forward, "--frozen goes with --forward: constants cannot be trained"),
        (options.frozen and (options.data or options.saved_model), "--frozen writes a graph that needs no initialization"),
        (options.forward and (options.towers or tf2), "--forward goes with neither --towers nor --tf2-saved-model"),
    ]


def check_step(options, model):
    """What does not go together in the train step, each with a message."""
    scaled = getattr(options, "dynamic_loss_scale", False)
    tf2 = getattr(options, "tf2_saved_model", None)
    return [
        (scaled and not options.fp16, "--dynamic-loss-scale goes with --fp16"),
        (scaled and options.forward, "--dynamic-loss-scale does not go with --forward, which trains nothing"),
        (
            options.updates_first and (options.towers or options.forward),
            "--updates-first goes with neither --towers nor --forward",
        ),
        (options.forward and model.turns, f"{model.name} has no --forward: it is run for several losses"),
        (getattr(options, "wrapped", False) and not tf2, "--wrapped goes with --tf2-saved-model"),
    ]


def check_input(options):
    """What does not go together in the input and the towers, each with a message."""
    made = "--data" if options.data else "--synthetic"
    tf2 = getattr(options, "tf2_saved_model", None)
    return [
        (
            (options.data or options.synthetic) and FREE in [options.batch, options.size],
            f"{made} needs a fixed --batch and --size",
        ),
        ((options.data or options.synthetic) and tf2, f"{made} does not go with --tf2-saved-model, whose input is fed"),
        (options.augment and not options.data, "--augment goes with --data"),
        (options.parameter_device and options.towers is None, "--parameter-device goes with --towers"),
        (options.towers is not None and options.towers < 1, f"--towers {options.towers}: expected a number above 0"),
        (options.towers and options.device, "--towers puts each tower on its device: leave out --device"),
        (options.ref_variables and tf2, "--ref-variables does not go with --tf2-saved-model: TensorFlow 2 has none"),
    ]


def settle(options, model):
    """Derives what follows from the flags: static shapes, shapes to feed, the name of the file."""
    options.parameter_device = options.parameter_device or "gpu"
    options.static_batch = None if options.batch == FREE else options.batch
    options.static_size = None if options.size == FREE else options.size
    options.feed_batch = options.static_batch or model.batch
    options.feed_size = options.static_size or model.size
    if not options.output:
        suffix = ".pbtxt" if options.text else ".pb" if options.graphdef else ".meta"
        batch = "N" if options.batch == FREE else options.batch
        options.output = f"{model.name}_{options.size}_b{batch}{suffix}"
