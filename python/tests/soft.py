"""The software GPU in a program that trains: `load("300MiB")` before TensorFlow does anything, then `counters()`."""

from __future__ import annotations

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))  # behind the tests' own modules, of which one has the name of one there

from softgpu import SoftGpu  # noqa: E402


def library() -> pathlib.Path:
    """Where `cargo build -p softgpu` puts it, or where LMS_SOFTGPU says."""
    if "LMS_SOFTGPU" in os.environ:
        return pathlib.Path(os.environ["LMS_SOFTGPU"])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for place in ("release", "debug", "release/deps", "debug/deps"):
        if (target / place / "libsoftgpu.so").is_file():
            return target / place / "libsoftgpu.so"
    raise SystemExit("no libsoftgpu.so: run `cargo build -p softgpu` first")


_gpu = None


def load(memory, allocator="exact", gpus=1, exact=True):
    """Makes TensorFlow use the software GPU, with one thread, and without what decides about the last bit."""
    global _gpu  # noqa: PLW0603
    _gpu = SoftGpu(library(), memory, allocator, gpus)
    import tensorflow as tf

    threads = gpus if gpus > 1 else 1
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    if exact:
        tf.config.optimizer.set_experimental_options(
            {"arithmetic_optimization": False, "constant_folding": False, "layout_optimizer": False}
        )
    return tf


def counters(gpu=0):
    """What the software GPU counted since `reset`, in bytes; copied bytes since it was loaded."""
    return {name.removesuffix("_bytes"): counted for name, counted in _gpu.counters(gpu).items()}


def reset():
    _gpu.reset()
