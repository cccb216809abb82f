"""Trains a case on the software GPU, and prints one line of JSON: `train.py CASE plain|lms MEMORY BUDGET [ALLOCATOR]`.

With `SOFTGPU_LAYOUT=1` the program turns off none of TensorFlow's optimizations, as one of a user.
With `both` it trains plain and then with large model support in the same process, of which peaks cannot be compared.
"""

import json
import os
import sys

import soft


def main():
    case, mode, memory, budget, *rest = sys.argv[1:]
    allocator = rest[0] if rest else "exact"
    tf = soft.load(memory, allocator, gpus=2 if case == "mirrored" else 1, exact="SOFTGPU_LAYOUT" not in os.environ)
    import cases

    told = {}
    for one in ["plain", "lms"] if mode == "both" else [mode]:
        try:
            told[one] = cases.run(case, budget if one == "lms" else None)
        except (tf.errors.ResourceExhaustedError, tf.errors.InternalError) as error:
            # What a copy has no room for is told as an error of another kind.
            if isinstance(error, tf.errors.InternalError) and "Dst tensor is not initialized" not in error.message:
                raise
            told[one] = {"out_of_memory": error.message.splitlines()[0]}
    print(json.dumps(told if mode == "both" else told[mode]))


if __name__ == "__main__":
    main()
