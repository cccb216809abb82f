"""The software GPU in a Python program, and what it counts."""

import ctypes
import os


class Copies(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ["bytes", "copies", "busy_ns"]]


class Counters(ctypes.Structure):
    """The beginning of what `softgpu_counters` writes."""

    _fields_ = (
        [("struct_size", ctypes.c_uint64), ("version", ctypes.c_uint32), ("device", ctypes.c_uint32)]
        + [(name, ctypes.c_uint64) for name in ["limit", "live", "peak", "allocations", "failed", "largest"]]
        + [("copies_in", Copies), ("copies_out", Copies)]
    )


class SoftGpu:
    """Has TensorFlow use the library at `path` as its GPUs; to be made before TensorFlow looks for devices."""

    def __init__(self, path, memory, allocator, gpus=1):
        path = str(path)
        os.environ.update(SOFTGPU_MEMORY=str(memory), SOFTGPU_ALLOCATOR=allocator, SOFTGPU_DEVICES=str(gpus))
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.python.eager import context
        from tensorflow.python.framework import load_library

        config = config_pb2.ConfigProto()
        # Before TensorFlow 2.17 or so they are among those of GPUs.
        getattr(config, "pluggable_device_options", config.gpu_options).per_process_gpu_memory_fraction = 1.0
        context.context()._config = config  # nothing public sets these options without a session
        load_library.load_pluggable_device_library(path)
        self.library = ctypes.CDLL(path)

    def reset(self):
        """Counts peaks anew, on all GPUs."""
        self.library.softgpu_reset(-1)

    def counters(self, gpu=0):
        """What a GPU counted: bytes that it holds, the most since `reset`, and copied bytes since it was loaded."""
        counters = Counters(struct_size=ctypes.sizeof(Counters))
        if self.library.softgpu_counters(gpu, ctypes.byref(counters)) != 0:
            raise SystemExit("the software GPU has no counters")
        return {
            "live_bytes": counters.live,
            "peak_bytes": counters.peak,
            "in_bytes": counters.copies_in.bytes,
            "out_bytes": counters.copies_out.bytes,
        }
