"""Trains a case with and without large model support, and fails if anything differs: `compare.py CASE BUDGET`."""

import sys

from conftest import last_json, run_program

case, budget = sys.argv[1:]
both = last_json(run_program("train.py", case, "both", "1GiB", budget))
plain, lms = both["plain"], both["lms"]
assert lms["report"]["changed"], lms["report"]
assert plain["losses"] == lms["losses"]
assert [value for _, value in plain["variables"]] == [value for _, value in lms["variables"]]
gpus = len(plain["batches"][0])
moved = [after[0]["out"] - before[0]["out"] for before, after in zip(plain["batches"], lms["batches"], strict=True)] if gpus else []
planned = lms["report"]["devices"][0]["swapout_bytes"]
print(f"{case}: the same on {gpus} GPUs, {len(lms['variables'])} variables; bytes out {moved[:2]}, planned {planned}")
