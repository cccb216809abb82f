"""A session of version 1 with a hook."""

import json

from conftest import TESTS, last_json, run_program


def test_a_session_trains_the_same_in_less_memory():
    plain = last_json(run_program("v1_session.py", "images", "256MiB"))
    assert "out_of_memory" in last_json(run_program("v1_session.py", "images", "3MiB"))
    lms = last_json(run_program("v1_session.py", "images", "3MiB", "3MiB"))
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) == 4
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) == 13
    [device] = lms["report"]["devices"]
    for before, after in zip(plain["batches"], lms["batches"], strict=True):
        assert after[0]["out"] - before[0]["out"] == device["swapout_bytes"] > 0
        assert after[0]["in"] - before[0]["in"] == device["swapin_bytes"]
        assert abs(after[0]["peak"] - device["peak_after"]) < device["peak_after"] / 20


def test_branches_and_loops_that_are_functions_are_made_flat(tmp_path):
    # A link so slow that what a copy's beginning waits for, a message of no bytes, is there before the copy in front has ended, and that
    # copies take most of the time, on whichever machine: their rate is known.
    rates = {"link_out_bytes_per_second": 3e8, "link_in_bytes_per_second": 3e8}
    profile = tmp_path / "slow.json"
    profile.write_text(json.dumps(json.loads((TESTS / "soft_small.json").read_text()) | rates))
    slow = {"SOFTGPU_RATE": "300MB/s", "PROFILE": str(profile)}
    plain, lms = (last_json(run_program("v1_session.py", "calls", "256MiB", *budget, **slow)) for budget in ([], ["5MiB"]))
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) == 4
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) == 15
    [device] = lms["report"]["devices"]
    assert lms["report"]["verdict"] == "fits_with_swapping" and device["swapout_bytes"] > 0
    for batch in lms["batches"]:
        assert abs(batch[0]["peak"] - device["peak_after"]) < device["peak_after"] / 20


def test_sizes_and_iterations_that_are_fed_are_given():
    plain, lms = (last_json(run_program("v1_session.py", "fed", "256MiB", *budget)) for budget in ([], ["5MiB"]))
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) == 4
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) == 13
    [device] = lms["report"]["devices"]
    assert lms["report"]["verdict"] == "fits_with_swapping"
    for before, after in zip(plain["batches"], lms["batches"], strict=True):
        assert abs(before[0]["peak"] - device["peak_before"]) < device["peak_before"] / 50
        # The message by which a copy's beginning is waited for takes 32 bytes beside it.
        assert 0 <= after[0]["out"] - before[0]["out"] - device["swapout_bytes"] <= 32
        assert abs(after[0]["peak"] - device["peak_after"]) < device["peak_after"] / 20


def test_what_is_fed_is_asked_for_and_must_fit(program):
    done = program(
        """
import json
import numpy as np
import tensorflow.compat.v1 as tf
import tf_lms
tf.disable_eager_execution()
images, batch = tf.placeholder(tf.float32, [None, 64], name="images"), tf.placeholder(tf.int32, [], name="batch")
weights = tf.get_variable("w", [64, 64])
noise = tf.random.stateless_normal([batch, 64], [1, 2])
times = tf.placeholder(tf.int32, [], name="times")
x = tf.while_loop(lambda i, _: i < times, lambda i, x: (i + 1, tf.tanh(x)), [tf.constant(0), noise @ weights + images])[1]
train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(x))
told = []
for said in (
    {},
    {"batch_size": 8},
    {"batch_size": 8, "values": {"batch": 8}},
    {"shapes": {images: (8, 64)}, "values": {batch: np.int64(8)}, "iterations": 4},
    {"shapes": {"images": (8, 32)}},
    {"shapes": {"images": (8, None)}},
    {"shapes": {"images": "8"}},
    {"shapes": {"image": (8, 64)}},
    {"values": {"images": 8}},
    {"values": {"batch": [8, 8]}},
    {"values": {"batch": 8.5}},
    {"values": {"batch": 1 << 40}},
    {"iterations": -1},
    {"iterations": {"while": "many"}},
):
    try:
        hook = tf_lms.LMSHook("64MiB", strict=True, **said)
        hook.begin()
        told.append(hook.report.verdict)
    except tf_lms.LMSError as error:
        told.append(f"{type(error).__name__}: {error}")
print(json.dumps(told))
"""
    )
    asked_for_size, asked_for_value, asked_for_times, fits, *refused = last_json(done)
    assert asked_for_size.startswith("CannotRewrite: the sizes of ") and "as these inputs are open: images" in asked_for_size
    assert "as what is fed to batch decides them" in asked_for_value and 'values={"batch": N}' in asked_for_value
    assert asked_for_times.startswith("CannotRewrite: how often the loop ") and "iterations=" in asked_for_times
    assert fits == "fits"
    said = [
        "images has the shape (None, 64) and cannot be fed what has (8, 32)",
        "leaves sizes open",
        "is no shape",
        "no placeholder 'image'; it has batch, images, times",
        "images takes float32",
        "batch has the shape () and cannot be fed what has (2,)",
        "8.5 of batch is no whole number",
        "1099511627776 of batch does not fit in int32",
        "iterations=-1 is no number of times",
        "iterations='many' of 'while' is no number of times",
    ]
    for sentence, expected in zip(refused, said, strict=True):
        assert sentence.startswith("UsageError: ") and expected in sentence


def test_a_graph_with_calls_is_rewritten_as_a_message(program):
    done = program(
        """
import json
import tensorflow.compat.v1 as tf
import tf_lms
tf.disable_eager_execution()
x = images = tf.placeholder(tf.float32, [8192, 64])
weights = tf.get_variable("w", [64, 64])
for number in range(8):
    x = tf.cond(tf.placeholder_with_default(True, []), lambda x=x: tf.nn.dropout(tf.tanh(x @ weights), rate=0.1), lambda x=x: x)
train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(tf.reduce_mean(x), name="train")
told = []
for message in (tf.get_default_graph().as_graph_def(add_shapes=True), tf.train.export_meta_graph()):
    rewritten, report = tf_lms.rewrite_graph(message, gpu_memory="24MiB", train_op="train", memory_ratio=1)
    graph = getattr(rewritten, "graph_def", rewritten)
    calls = [node.name for node in graph.node if node.op in ("If", "StatelessIf")]
    told.append([type(rewritten).__name__, report.verdict, report.changed, calls, len(graph.node) > 50])
print(json.dumps(told))
"""
    )
    expected = ["fits_with_swapping", True, [], True]
    assert last_json(done) == [["GraphDef", *expected], ["MetaGraphDef", *expected]]
