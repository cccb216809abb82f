"""Steps with loops and branches take what is predicted, and there are plans for them."""

import re

from conftest import last_json, run_program


def test_what_a_loop_carries_from_the_host_is_on_the_gpu():
    """As it is, TensorFlow copies it out and in in each iteration, and keeps it twice: it would run out where the step is said to fit."""
    carried = last_json(run_program("loops.py", "carried"))
    lms, plain, report = carried["lms"], carried["plain"], carried["report"]
    assert report["verdict"] == "fits" and report["changed"]
    assert "begins with on the host" in report["text"]
    assert plain["peak"] > 1.3 * lms["peak"]
    # The argument may be there beside what the loop makes of it.
    assert lms["peak"] <= report["peak"] + carried["argument"]
    assert lms["losses"] == plain["losses"]


def test_short_loops_have_plans_too():
    """With fewer iterations than TensorFlow has under way at once, elements come back one by one as in longer loops."""
    for plan in last_json(run_program("loops.py", "short")):
        assert plan["verdict"] == "fits_with_swapping"
        assert plan["after"] < 0.6 * plan["before"]


def test_a_branch_counts_with_what_it_keeps():
    branches = last_json(run_program("loops.py", "branches"))
    taken = branches["lms"]["peak"]
    assert 0.98 * taken < branches["report"]["peak"] < 1.15 * taken


def test_a_list_is_as_long_as_a_shape_says():
    stacked = last_json(run_program("loops.py", "stacked"))
    taken = stacked["lms"]["peak"]
    assert stacked["report"]["verdict"] == "fits"
    assert 0.9 * taken < stacked["report"]["peak"] < 1.3 * taken


def test_a_list_that_grows_is_as_long_as_its_loop_makes_it():
    written = last_json(run_program("loops.py", "written"))
    assert "how long the list is" in written["refused"] and "give iterations=" in written["refused"]
    taken = written["lms"]["peak"]
    assert written["report"]["verdict"] == "fits"
    assert 0.97 * taken < written["report"]["peak"] < 1.05 * taken


def test_what_a_branch_saves_has_the_size_of_what_is_in_it():
    dropped = last_json(run_program("loops.py", "dropped"))
    assert dropped["report"]["verdict"] == "fits"
    # Which layers run is by chance; all of them count.
    assert dropped["lms"]["peak"] < 1.02 * dropped["report"]["peak"]


def test_arguments_count_where_they_are():
    """What a caller has on the GPU stays there as long as the step runs."""
    on_host, on_gpu = last_json(run_program("loops.py", "given"))
    assert "CPU" in on_host["device"] and "GPU" in on_gpu["device"]
    for found in (on_host, on_gpu):
        taken = found["lms"]["peak"]
        assert 0.97 * taken < found["report"]["peak"] < 1.03 * taken
        assert found["predicted"] == found["report"]["peak"]
    # The argument is of 4 MiB.
    assert on_gpu["report"]["peak"] > on_host["report"]["peak"] + 3 * 2**20


def test_parts_of_a_batch_come_one_after_the_other():
    """As it is, all eight are in memory at once: the step would be said to fit into a third of what it takes."""
    parts = last_json(run_program("loops.py", "parts"))
    report, taken = parts["report"], parts["lms"]["peak"]
    assert report["verdict"] == "fits_with_swapping"
    assert 0.97 * taken < report["peak"] < 1.03 * taken
    assert parts["plain"]["peak"] > 2 * taken
    assert parts["lms"]["losses"] == parts["plain"]["losses"]
    assert "do not wait for one another" in parts["as_it_is"]


def test_what_does_not_wait_for_the_loop_is_told_of():
    """It was said to fit into a fourth of what it may take, without a word; how much it takes depends on how busy the machine is."""
    ahead = last_json(run_program("loops.py", "ahead"))
    most = re.search(r"do not wait for one another.*may take up to ([0-9.]+) MiB", ahead["text"])
    assert most and float(most[1]) * 2**20 >= 0.98 * ahead["taken"]
    assert ahead["verdict"] != "fits" or ahead["is_tight"]


def test_what_reads_no_element_from_the_host_waits_for_what_does():
    """Ten iterations ahead of the others it took more than the memory that the plan was for, which was called certain."""
    attended = last_json(run_program("loops.py", "attended"))
    taken = attended["lms"]["peak"]
    assert attended["verdict"] == "fits_with_swapping" and not attended["is_tight"]
    assert 0.8 * attended["after"] < taken < 1.02 * attended["after"]
    assert attended["lms"]["losses"] == attended["plain"]["losses"]


def test_how_often_a_loop_runs_is_given_where_only_the_data_know(program):
    """As of a library's: the exponential of a matrix squares it as often as its norm says."""
    done = program(
        """
import json
import soft
tf = soft.load("64MiB")
import tf_lms

weights = tf.Variable(tf.random.stateless_normal([128, 128], [1, 2]) / 100)

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ tf.linalg.expm(weights)) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss

x = tf.ones([512, 128])
told = []
for said in ({}, {"iterations": 4}, {"iterations": {"matrix_exponential/while": 8}}):
    try:
        lms = tf_lms.function(step, gpu_memory="64MiB", memory_ratio=1.0, strict=True, **said)
        lms(x)
        told.append(lms.report.devices[0]["peak_before"])
        assert told[-1] == tf_lms.predict(tf.function(step), "64MiB", data=(x,), memory_ratio=1.0, **said).peak_before
    except tf_lms.CannotRewrite as error:
        told.append(str(error))
print(json.dumps(told))
"""
    )
    refused, fewer, more = last_json(done)
    assert "matrix_exponential/while" in refused and "give iterations=" in refused
    assert fewer < more
