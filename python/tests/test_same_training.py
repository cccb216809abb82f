"""With large model support everything is as without it: losses, metrics and every variable, bit by bit; and bytes are as planned."""

import statistics

import pytest
from conftest import last_json, run_program

#: Cases, and a memory in which the original does not train.
CASES = {
    "cnn": "5MiB",
    "arrays": "5MiB",
    "partial": "5500KiB",
    "several_steps": "4500KiB",
    "custom": "6500KiB",
    "on_batch": "6500KiB",
    "function": "8MiB",
    "recomputed": "5500KiB",
    "gradients": "6MiB",
    "functions": "6MiB",
    "attention": "6MiB",
    "inner_training": "3500KiB",
    "lstm": "2200KiB",
    "lstm_partial": "2200KiB",
    "masked_gru": "2600KiB",
    "mirrored": "3MiB",
}

#: How many steps are run at a time.
STEPS = {"several_steps": 4}


def of(names):
    """Cases whose tests share trainings: one worker has them all."""
    return pytest.mark.parametrize("case", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names])


def values(told):
    return [digest for _, digest in told["variables"]]


def usual_peak(told):
    """The median of batches' peaks: on a busy machine a copy ends later in some, and its buffer is there a moment longer."""
    return statistics.median_low(devices[0]["peak"] for devices in told["batches"])


@of(CASES)
def test_everything_is_the_same(case, trained):
    both = trained(case, "both", "1GiB", CASES[case])
    plain, lms = both["plain"], both["lms"]
    assert lms["report"]["changed"]
    # A tight plan runs out of memory in some runs, on a machine that does other things too.
    assert not lms["report"]["is_tight"]
    assert lms["losses"] == plain["losses"]
    assert lms.get("history") == plain.get("history")
    assert len(values(lms)) == len(values(plain)) >= (3 if case == "inner_training" else 20)
    assert values(lms) == values(plain)
    # Losses that stay where they began would be the same too.
    assert len(set(plain["losses"])) > 1


@of(case for case in CASES if case not in ("on_batch", "mirrored", "inner_training"))
def test_bytes_are_as_planned(case, trained):
    both = trained(case, "both", "1GiB", CASES[case])
    steps = STEPS.get(case, 1)
    for number, device in enumerate(both["lms"]["report"]["devices"]):
        # The first batches are as large as what was planned for; a last one may be smaller.
        for plain, lms in list(zip(both["plain"]["batches"], both["lms"]["batches"], strict=True))[:2]:
            out = lms[number]["out"] - plain[number]["out"]
            assert out == steps * device["added_out_bytes"]
            assert lms[number]["in"] - plain[number]["in"] == steps * device["added_in_bytes"]
        assert device["swapout_bytes"] > 0


@of(["cnn", "partial", "custom", "functions", "attention", "inner_training"])
def test_the_peak_is_as_predicted(case, trained):
    """In the memory that it was planned for; the original's where there is enough."""
    lms = trained(case, "lms", CASES[case], CASES[case])
    [device] = lms["report"]["devices"]
    assert usual_peak(lms) == pytest.approx(device["peak_after"], rel=0.05)
    plain = trained(case, "both", "1GiB", CASES[case])["plain"]
    assert usual_peak(plain) == pytest.approx(device["peak_before"], rel=0.05)


@of(["lstm", "lstm_partial", "masked_gru"])
def test_the_peak_of_loops_is_nearly_as_predicted(case, trained):
    """When lists grow, and when copies end meanwhile, differs from run to run: from 8% less to 7% more was seen."""
    lms = trained(case, "lms", CASES[case], CASES[case])
    [device] = lms["report"]["devices"]
    assert usual_peak(lms) == pytest.approx(device["peak_after"], rel=0.12)
    plain = trained(case, "both", "1GiB", CASES[case])["plain"]
    assert usual_peak(plain) == pytest.approx(device["peak_before"], rel=0.05)


@of(["cnn", "lstm", "masked_gru", "mirrored", "recomputed", "inner_training"])
def test_it_trains_where_the_original_runs_out(case, trained):
    memory = CASES[case]
    assert "out_of_memory" in trained(case, "plain", memory, memory)
    lms = trained(case, "lms", memory, memory)
    plain = trained(case, "both", "1GiB", memory)["plain"]
    assert lms["losses"] == plain["losses"]
    assert values(lms) == values(plain)


@of(["inner_training"])
def test_sums_stay_as_they_are_where_memory_is_nearly_full(case, trained):
    """TensorFlow's own memory optimizer would add in another order, in memory that nobody planned."""
    memory = "6500KiB"
    lms = trained(case, "lms", memory, memory, "bfc")
    assert not lms["report"]["changed"]
    assert values(lms) == values(trained(case, "both", "1GiB", CASES[case])["plain"])


@pytest.mark.xdist_group("function")
def test_another_batch_is_planned_for_anew(trained):
    assert trained("function", "both", "1GiB", CASES["function"])["lms"]["traces"] == 3


def test_images_keep_their_order():
    """TensorFlow puts channels first on a GPU, and would turn images back at both ends of a copy: memory that nobody planned."""
    lms = last_json(run_program("train.py", "cnn", "lms", CASES["cnn"], CASES["cnn"], SOFTGPU_LAYOUT="1"))
    [device] = lms["report"]["devices"]
    assert device["swapout_bytes"] > 0
    assert usual_peak(lms) == pytest.approx(device["peak_after"], rel=0.02)
    turned = last_json(run_program("train.py", "cnn", "plain", "1GiB", "1GiB", SOFTGPU_LAYOUT="1"))
    assert usual_peak(turned) > 1.02 * device["peak_before"]


def test_plans_are_for_the_allocator_that_tensorflow_takes(program):
    """In no pieces less memory will do. What the software GPU hands out tensor by tensor is that of CUDA's allocator."""
    lines = """
import json, os
import numpy as np
import soft
tf = soft.load("1GiB")
import tf_lms

random = np.random.default_rng(0)
initial = [random.normal(0, 0.1, (3, 3, 16, 16)).astype("float32") for _ in range(12)]
kernels = [tf.Variable(value) for value in initial]

def step(x):
    with tf.GradientTape() as tape:
        state = x
        for kernel in kernels:
            state = tf.nn.relu(tf.nn.conv2d(state, kernel, 1, "SAME")) + 0.1 * state
        loss = tf.reduce_mean(state**2)
    for kernel, gradient in zip(kernels, tape.gradient(loss, kernels)):
        kernel.assign_sub(0.01 * gradient)
    return loss

with tf.device("/CPU:0"):
    x = tf.constant(random.random((4, 64, 64, 16), dtype="float32"))

def trained(step):
    for kernel, value in zip(kernels, initial):
        kernel.assign(value)
    step(x)
    soft.reset()
    return [float(step(x)) for _ in range(2)]

told = {"least": tf_lms.least_memory(tf.function(step), data=(x,), memory_ratio=1.0)}
if "TF_GPU_ALLOCATOR" in os.environ:
    lms = tf_lms.function(step, gpu_memory=told["least"], memory_ratio=1.0, strict=True)
    told["losses"], told["peak"] = trained(lms), soft.counters()["peak"]
    told["same"], told["text"] = told["losses"] == trained(tf.function(step)), str(lms.report)
print(json.dumps(told))
"""
    in_pieces, in_none = last_json(program(lines)), last_json(program(lines, TF_GPU_ALLOCATOR="cuda_malloc_async"))
    assert in_none["least"] < 0.9 * in_pieces["least"]
    assert "memory is that of CUDA's allocator" in in_none["text"]
    # On a busy machine what was copied out, 1 MiB each, is let go of late.
    assert in_none["peak"] <= in_none["least"] + 2**20
    assert in_none["same"]
