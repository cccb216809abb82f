"""Where batches come from: placeholders that are fed, records that the graph reads, or values that it makes once."""

from dataclasses import dataclass, field

import tensorflow as tf
from records import LAYOUTS, files, pipeline
from records.layout import Form

tf1 = tf.compat.v1

CPU = "/device:CPU:0"


@dataclass
class Batch:
    """The tensors of a batch by name, for each tower; what of them must be fed; and what must run before."""

    towers: list = field(default_factory=list)  # of dictionaries
    inputs: list = field(default_factory=list)  # of models.model.Input: those that are fed
    placeholders: list = field(default_factory=list)  # in the order of `inputs`
    initializer: tf.Operation | None = None
    about: dict = field(default_factory=dict)  # for the manifest


def make(model, options):
    """The batch of a graph without towers, on the devices of the scope; a pipeline is on the CPU all the same."""
    inputs, batch = model.inputs(options), Batch()
    tensors = {each.name: None for each in inputs}
    if options.data:
        with tf.device(CPU):
            tensors.update(read(model, inputs, options, 1, batch))
    elif options.synthetic:
        tensors.update(made_up(inputs, options, "", batch))
        finish_made_up(batch)
    for each in inputs:
        if tensors[each.name] is None:
            tensors[each.name] = fed(each, batch)
    batch.towers = [tensors]
    return batch


def make_for_towers(model, options, devices):
    """The batch of several towers: a large one in parts, or values on each tower's device."""
    inputs, batch = model.inputs(options), Batch()
    towers = len(devices)
    if options.synthetic:
        for tower, device in enumerate(devices):
            with tf.device(device):
                batch.towers.append(made_up(inputs, options, f"tower_{tower}/", batch))
        finish_made_up(batch)
        return batch
    with tf.device(CPU):
        if options.data:
            whole = read(model, inputs, options, towers, batch)
        else:
            whole = {each.name: fed(each.times(towers), batch) for each in inputs}
        parts = {name: tf.split(tensor, towers, name=f"{name}_parts") for name, tensor in whole.items()}
    batch.towers = [{name: parts[name][tower] for name in parts} for tower in range(towers)]
    return batch


def fed(each, batch):
    """A placeholder."""
    placeholder = each.placeholder()
    batch.inputs.append(each)
    batch.placeholders.append(placeholder)
    return placeholder


def form_of(inputs, options):
    """What is wanted of each example. The first input is the image, or the volume."""
    channel_axis = 1 if options.data_format == "channels_first" else -1
    return Form(
        size=options.static_size,
        channels=inputs[0].shape[channel_axis],
        classes=options.classes,
        augment=options.augment,
        seed=options.seed,
    )


def read(model, inputs, options, towers, batch):
    """A pipeline's tensors: those of all inputs that are in the records."""
    layout, form = LAYOUTS[model.records], form_of(inputs, options)
    found = files.find(options.data)
    files.check(found, layout, form)
    iterator = pipeline.iterator(found, layout, form, options.static_batch * towers)
    batch.initializer = iterator.initializer
    batch.about["data"] = {"layout": layout.name, "files": options.data, "augment": options.augment}
    tensors = iterator.get_next()
    return {each.name: turned(tensors[each.name], each, options) for each in inputs if each.name in tensors}


def turned(tensor, each, options):
    """An input's tensor in the graph's data format, under the name that its placeholder would have."""
    rank = tensor.shape.rank
    if options.data_format == "channels_first" and rank > 2:
        tensor = tf.transpose(tensor, [0, rank - 1, *range(1, rank - 1)])
    return tf.identity(tensor, each.name)


def made_up(inputs, options, scope, batch):
    """Variables with random values, drawn once, on the device of the scope; what each step decides anew is fed."""
    tensors = {}
    for number, each in enumerate(inputs):
        if each.feed["kind"] in ["normal", "int"]:
            tensors[each.name] = drawn_once(each, scope + each.name, [options.seed, number], options)
        else:
            tensors[each.name] = fed(each, batch)
    return tensors


def drawn_once(each, name, seed, options):
    """A local variable: initialized like others, but no part of a checkpoint."""
    if each.feed["kind"] == "normal":
        value = tf.random.stateless_normal(each.shape, seed)
    else:
        value = tf.random.stateless_uniform(each.shape, seed, each.feed["lo"], each.feed["hi"], tf.int32)
    variable = tf1.get_variable(
        name,
        initializer=tf.cast(value, tf.float32),  # of any type: GPUs have no variables of 32-bit integers
        trainable=False,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES],
        use_resource=not options.ref_variables,
    )
    return tf.cast(variable, each.dtype)


def finish_made_up(batch):
    batch.initializer = tf1.variables_initializer(tf1.local_variables(), name="init_input")
    batch.about["synthetic"] = True
