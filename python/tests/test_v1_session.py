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
    plain = last_json(run_program("v1_session.py", "calls", "256MiB"))
    lms = last_json(run_program("v1_session.py", "calls", "256MiB", "5MiB"))
    assert lms["losses"] == plain["losses"] and len(set(plain["losses"])) == 4
    assert lms["variables"] == plain["variables"] and len(plain["variables"]) == 15
    [device] = lms["report"]["devices"]
    assert lms["report"]["verdict"] == "fits_with_swapping" and device["swapout_bytes"] > 0
    for batch in lms["batches"]:
        assert abs(batch[0]["peak"] - device["peak_after"]) < device["peak_after"] / 20
