"""Models of Keras 2, which are `tf_keras`: what they train to, what is copied, and what they take."""

import functools
import statistics

import pytest
from conftest import last_json, run_program

#: Cases, and the memory that each is given, in MiB. `words` needs no more than that as it is.
CASES = {"images": 11, "several_steps": 11, "old_optimizer": 11, "xla": 11, "half": 6, "own": 5, "replicas": 6, "words": 256}


def by_case(names):
    """Tests of one case run in one worker, which trains it once."""
    return pytest.mark.parametrize("case", [pytest.param(name, marks=pytest.mark.xdist_group(f"Keras 2 {name}")) for name in names])


@functools.cache
def trained(case, *budget):
    return last_json(run_program("keras_2.py", case, "256MiB", *budget))


def with_lms(case):
    return trained(case, f"{CASES[case]}MiB")


@by_case(CASES)
def test_it_trains_to_the_same(case):
    plain, lms = trained(case), with_lms(case)
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) > 3
    assert lms["history"] == plain["history"]
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) > 10


@by_case(case for case in CASES if case != "words")
def test_what_is_copied_and_the_peak_are_as_planned(case):
    plain, lms = trained(case), with_lms(case)
    steps = 2 if case == "several_steps" else 1
    # The first of the second epoch, when all is made, and the batch is a whole one.
    first = len(plain["batches"]) // 2
    for number, device in enumerate(lms["report"]["devices"]):
        before, after = (told["batches"][first][number] for told in (plain, lms))
        assert after["out"] - before["out"] == steps * device["added_out_bytes"]
        assert device["swapout_bytes"] > 0
        assert before["peak"] == pytest.approx(device["peak_before"], rel=0.05)
        if case == "replicas":
            # Their copies end when they may: one step may take a sixth more or less than the next.
            whole = [batch[number]["peak"] for batch in lms["batches"] if abs(batch[number]["out"] - after["out"]) <= 16]
            assert statistics.median(whole) == pytest.approx(device["peak_after"], rel=0.12) and len(whole) == 6
        else:
            # On a busy machine a copy may end later in some steps.
            whole = [batch[number]["peak"] for batch in lms["batches"] if batch[number]["out"] == after["out"]]
            assert statistics.median_low(whole) == pytest.approx(device["peak_after"], rel=0.05)


@pytest.mark.xdist_group("Keras 2 own")
def test_a_step_is_predicted_without_training():
    assert with_lms("own")["predicted"] == with_lms("own")["report"]["devices"][0]["peak_before"]
