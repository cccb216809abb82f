"""The software GPU in a program that trains: `load("300MiB")` before TensorFlow does anything, then `counters()`."""

from __future__ import annotations

import ctypes
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

ROOT = pathlib.Path(__file__).parents[2]


def library() -> pathlib.Path:
    """Where `cargo build -p softgpu` puts it, or where LMS_SOFTGPU says."""
    if "LMS_SOFTGPU" in os.environ:
        return pathlib.Path(os.environ["LMS_SOFTGPU"])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for place in ("release", "debug", "release/deps", "debug/deps"):
        if (target / place / "libsoftgpu.so").is_file():
            return target / place / "libsoftgpu.so"
    raise SystemExit("no libsoftgpu.so: run `cargo build -p softgpu` first")


class Copies(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ["bytes", "copies", "busy_ns"]]


class Counters(ctypes.Structure):
    """The beginning of what `softgpu_counters` writes."""

    _fields_ = (
        [("struct_size", ctypes.c_uint64), ("version", ctypes.c_uint32), ("device", ctypes.c_uint32)]
        + [(name, ctypes.c_uint64) for name in ["limit", "live", "peak", "allocations", "failed", "largest"]]
        + [("copies_in", Copies), ("copies_out", Copies)]
    )


_library = None


def load(memory, allocator="exact", gpus=1, exact=True):
    """Makes TensorFlow use the software GPU, with one thread, and without what decides about the last bit."""
    global _library  # noqa: PLW0603
    os.environ.update(SOFTGPU_MEMORY=str(memory), SOFTGPU_ALLOCATOR=allocator, SOFTGPU_DEVICES=str(gpus))
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context
    from tensorflow.python.framework import load_library

    config = config_pb2.ConfigProto()
    # Before TensorFlow 2.17 or so they are among those of GPUs.
    getattr(config, "pluggable_device_options", config.gpu_options).per_process_gpu_memory_fraction = 1.0
    context.context()._config = config  # nothing public sets these options without a session
    load_library.load_pluggable_device_library(str(library()))
    _library = ctypes.CDLL(str(library()))
    threads = gpus if gpus > 1 else 1
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    if exact:
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False, "constant_folding": False})
    return tf


def counters(gpu=0):
    """What the software GPU counted since `reset`; copied bytes since it was loaded."""
    counted = Counters(struct_size=ctypes.sizeof(Counters))
    assert _library.softgpu_counters(gpu, ctypes.byref(counted)) == 0
    return {
        "live": counted.live,
        "peak": counted.peak,
        "in": counted.copies_in.bytes,
        "out": counted.copies_out.bytes,
    }


def reset():
    _library.softgpu_reset(-1)
