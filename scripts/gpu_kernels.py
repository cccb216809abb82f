#!/usr/bin/env python3
"""Writes the table of the real GPU's kernels, softgpu/data/gpu_kernels.pb.

    gpu_kernels.py OUT.pb

Run it with a Python that has a CUDA build of TensorFlow (the `tensorflow` wheel for Linux) of the version that softgpu
is checked with. No GPU is needed: the kernels register themselves when the library is loaded. The table is a serialized
KernelList with the kernels of device type GPU, sorted, so that the same version gives the same bytes.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tensorflow.core.framework import kernel_def_pb2
from tensorflow.python.framework import kernels


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    found = [k for k in kernels.get_all_registered_kernels().kernel if k.device_type == "GPU"]
    if not any(k.op == "Conv2D" for k in found):
        raise SystemExit("this TensorFlow has no GPU kernels: it is not a CUDA build")
    found.sort(key=lambda k: (k.op, k.SerializeToString(deterministic=True)))
    table = kernel_def_pb2.KernelList(kernel=found)
    with open(sys.argv[1], "wb") as out:
        out.write(table.SerializeToString(deterministic=True))
    print(f"{len(found)} kernels of {len({k.op for k in found})} ops")


main()
