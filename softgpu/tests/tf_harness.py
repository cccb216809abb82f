"""What the scripts that run TensorFlow on the software GPU share."""

import ctypes
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


class Copies(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in ("bytes", "copies", "busy_ns")]


class Counters(ctypes.Structure):
    """`interface::Counters`."""

    _fields_ = (
        [("struct_size", ctypes.c_uint64), ("version", ctypes.c_uint32), ("device", ctypes.c_uint32)]
        + [
            (n, ctypes.c_uint64)
            for n in (
                "limit_bytes",
                "live_bytes",
                "peak_bytes",
                "allocations",
                "failed_allocations",
                "largest_allocation",
            )
        ]
        + [(n, Copies) for n in ("copies_in", "copies_out", "copies_on_device")]
        + [
            (n, ctypes.c_uint64)
            for n in ("kernels", "kernel_busy_ns", "copy_busy_ns", "overlap_ns", "forwarded_outputs")
        ]
    )


class SoftGpu:
    """The loaded plug-in."""

    def __init__(self, path):
        from tensorflow.python.framework import load_library

        load_library.load_pluggable_device_library(path)
        self.lib = ctypes.CDLL(path)
        self.lib.softgpu_last_error.restype = ctypes.c_char_p

    def check(self, code):
        if code != 0:
            raise RuntimeError(self.lib.softgpu_last_error().decode())

    def counters(self, device=0):
        out = Counters(struct_size=ctypes.sizeof(Counters))
        self.check(self.lib.softgpu_counters(device, ctypes.byref(out)))
        return out

    def reset(self):
        self.check(self.lib.softgpu_reset(-1))

    def trace(self, on):
        self.check(self.lib.softgpu_trace(int(on)))

    def write_trace(self, path):
        self.check(self.lib.softgpu_write_trace(path.encode()))


def config(soft=False, inter=0, **more):
    """Strict placement unless `soft`."""
    return tf1.ConfigProto(allow_soft_placement=soft, inter_op_parallelism_threads=inter, **more)
