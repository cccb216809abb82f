#!/usr/bin/env python3
"""Write the two tables about TensorFlow's ops that the library embeds. No GPU is needed.

Signatures of all ops, from any build of TensorFlow:

    python3 -m venv cpu && cpu/bin/pip install tensorflow-cpu==2.21.0
    cpu/bin/python scripts/make_op_tables.py ops src/ops/op_defs.pb

Kernels of a GPU, which only the build with CUDA registers:

    python3 -m venv gpu && gpu/bin/pip install tensorflow==2.21.0
    gpu/bin/python scripts/make_op_tables.py gpu-kernels src/ops/gpu_kernels.pb
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tensorflow.core.framework import kernel_def_pb2, op_def_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import kernels

# What a signature needs; texts, limits and finer types are left out.
ARG_FIELDS = ("name", "type", "type_attr", "number_attr", "type_list_attr", "is_ref")
ATTR_FIELDS = ("name", "type", "default_value")
OP_FIELDS = (
    "name",
    "is_commutative",
    "is_aggregate",
    "is_stateful",
    "allows_uninitialized_input",
    "is_distributed_communication",
)


def copy(source, target, fields):
    """Copies the named fields that are set. Returns the target."""
    for descriptor, value in source.ListFields():
        if descriptor.name not in fields:
            continue
        if descriptor.message_type:
            getattr(target, descriptor.name).CopyFrom(value)
        else:
            setattr(target, descriptor.name, value)
    return target


def ops():
    """An OpList of every registered op, internal ones too, in the order of their names."""
    buffer = pywrap_tf_session.TF_GetAllOpList()
    registered = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(buffer))
    table = op_def_pb2.OpList()
    for op in sorted(registered.op, key=lambda op: op.name):
        kept = copy(op, table.op.add(), OP_FIELDS)
        kept.control_output.extend(op.control_output)
        for arg in op.input_arg:
            copy(arg, kept.input_arg.add(), ARG_FIELDS)
        for arg in op.output_arg:
            copy(arg, kept.output_arg.add(), ARG_FIELDS)
        for attr in op.attr:
            copy(attr, kept.attr.add(), ATTR_FIELDS)
    return table, len(table.op)


def gpu_kernels():
    """A KernelList of the kernels that a node on a GPU may get, in the order of their ops.

    TensorFlow takes a kernel registered for DEFAULT where the device itself has none that matches:
    many ops, such as NoOp and ReadVariableOp, have no other kernel on a GPU.
    """
    registered = kernels.get_all_registered_kernels().kernel
    kept = [kernel for kernel in registered if kernel.device_type in ("GPU", "DEFAULT")]
    if not any(kernel.op == "Conv2D" for kernel in kept):
        sys.exit("this TensorFlow is built without CUDA: its table would lack the GPU's kernels")
    table = kernel_def_pb2.KernelList()
    table.kernel.extend(sorted(kept, key=lambda k: (k.op, k.device_type, k.SerializeToString(deterministic=True))))
    return table, len(table.kernel)


TABLES = {"ops": ops, "gpu-kernels": gpu_kernels}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TABLES:
        sys.exit(__doc__)
    table, entries = TABLES[sys.argv[1]]()
    Path(sys.argv[2]).write_bytes(table.SerializeToString(deterministic=True))
    print(f"{entries} entries in {sys.argv[2]}")


if __name__ == "__main__":
    main()
