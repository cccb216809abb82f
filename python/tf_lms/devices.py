"""The GPUs that TensorFlow sees: how much memory they have, and which profile is theirs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import tensorflow as tf

from . import private_hooks
from .errors import UsageError
from .log import say_once
from .options import Options, memory_bytes

#: The profile of a GPU that none is known for.
DEFAULT_PROFILE = "v100-pcie3"

#: Profiles by what is in a GPU's name; the first that is found counts.
PROFILES = [
    (r"GH200", "gh200"),
    (r"H200", "h200"),
    (r"H100", "h100"),
    (r"A100", "a100"),
    (r"V100.*(SXM|NVLINK)", "v100-nvlink2"),
    (r"V100", "v100-pcie3"),
    (r"SOFTGPU|SOFTWARE", "soft"),
]


@dataclasses.dataclass(frozen=True)
class Available:
    """The memory of each GPU, and what else is in use there, in bytes."""

    memory: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def for_step(self) -> tuple[int, ...]:
        """What is left to the step on each GPU."""
        return tuple(max(1, memory - other) for memory, other in zip(self.memory, self.others, strict=True))


def gpu_memory(options: Options, held_bytes: Mapping[str, int]) -> Available:
    """The memory of each GPU: what was given, or what TensorFlow may use; and what of it is in use.

    Args:
        options: what the user said.
        held_bytes: what the step itself has in use on devices such as `/device:GPU:0`, which counts in the plan: its variables.

    Raises:
        UsageError: if nothing was given, and there is no GPU.
    """
    gpus = tf.config.list_logical_devices("GPU")
    if options.gpu_memory is not None:
        memory = memory_bytes(options.gpu_memory)
    else:
        memory = private_hooks.gpu_memory_limits() if gpus else []
        if not memory or 0 in memory:
            raise UsageError('TensorFlow sees no GPU whose memory it knows; give gpu_memory, as in gpu_memory="16GiB"')
    several = [memory[min(number, len(memory) - 1)] for number in range(max(1, len(gpus)))]
    others = [max(0, used_bytes(gpu.name) - held_bytes.get(gpu.name, 0)) for gpu in gpus] or [0]
    return Available(tuple(several), tuple(others))


def used_bytes(device: str) -> int:
    """What is in use on a GPU now, in bytes; 0 where its allocator does not count."""
    try:
        return int(tf.config.experimental.get_memory_info(device.removeprefix("/device:"))["current"])
    except (ValueError, tf.errors.OpError):
        return 0


def profile(options: Options) -> str:
    """The device profile: what was given, or the one of the GPU's name."""
    if options.device_profile is not None:
        return options.device_profile
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return DEFAULT_PROFILE
    details = tf.config.experimental.get_device_details(gpus[0])
    name = str(details.get("device_name", gpus[0].device_type))
    for pattern, known in PROFILES:
        if re.search(pattern, name, re.IGNORECASE):
            return known
    say_once(
        f"there is no profile of the GPU {name!r}, so step times are predicted for {DEFAULT_PROFILE}; sizes do not depend on it. "
        'Give one with device_profile="..."'
    )
    return DEFAULT_PROFILE
