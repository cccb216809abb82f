"""A session of version 1 with a hook."""

from conftest import last_json, run_program


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


def test_branches_and_loops_that_are_functions_are_made_flat():
    # A link so slow that what a copy's beginning waits for, a message of no bytes, is there before the copy in front has ended.
    plain, lms = (last_json(run_program("v1_session.py", "calls", "256MiB", *budget, SOFTGPU_RATE="1GB/s")) for budget in ([], ["5MiB"]))
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) == 4
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) == 15
    [device] = lms["report"]["devices"]
    assert lms["report"]["verdict"] == "fits_with_swapping" and device["swapout_bytes"] > 0
    for batch in lms["batches"]:
        assert abs(batch[0]["peak"] - device["peak_after"]) < device["peak_after"] / 20


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
