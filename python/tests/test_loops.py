"""Steps with loops and branches take what is predicted, and there are plans for them."""

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


def test_what_a_branch_saves_has_the_size_of_what_is_in_it():
    dropped = last_json(run_program("loops.py", "dropped"))
    assert dropped["report"]["verdict"] == "fits"
    # Which layers run is by chance; all of them count.
    assert dropped["lms"]["peak"] < 1.02 * dropped["report"]["peak"]
