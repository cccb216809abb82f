"""Runs an example on the software GPU: `run_example.py MEMORY FILE [ARGUMENTS]`. Exits with 3 if memory runs out."""

import pathlib
import runpy
import sys

import soft

memory, file, *arguments = sys.argv[1:]
tf = soft.load(memory, "bfc")
if pathlib.Path(file).stem == "session":
    # Eager mode's settings are not a session's.
    import tf_lms

    make = tf_lms.session_config

    def with_the_software_gpu(config=None):
        made = make(config)
        made.pluggable_device_options.per_process_gpu_memory_fraction = 1.0
        made.inter_op_parallelism_threads = made.intra_op_parallelism_threads = 1
        return made

    tf_lms.session_config = with_the_software_gpu
sys.argv = [file, *arguments]
try:
    runpy.run_path(file, run_name="__main__")
except tf.errors.ResourceExhaustedError as error:
    print("out of memory:", str(error).splitlines()[0])
    sys.exit(3)
