"""What a user says of the memory and of how to plan for it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from . import _native
from .errors import UsageError

#: A memory in bytes, or as text with a unit: `"16GiB"`, `"900MiB"`. Several: one for each GPU, the last for all further ones.
Memory = int | str | Sequence[int | str]

#: How often loops run at most where the step does not tell: a number for all, or for some by their names.
Iterations = int | Mapping[str, int] | None

#: Less than this is no GPU's memory, but a number without its unit.
LEAST_MEMORY = 1 << 20

#: No loop is said to run more often: products of such numbers and sizes stay within 64 bits.
MOST_ITERATIONS = 1 << 24


def memory_bytes(memory: Memory) -> list[int]:
    """The memory of each GPU in bytes.

    Raises:
        UsageError: if it is no size, or one without a unit that no GPU has.
    """
    several = list(memory) if isinstance(memory, Sequence) and not isinstance(memory, str) else [memory]
    if not several:
        raise UsageError('gpu_memory has no size; give one such as "16GiB"')
    return [_one_memory(one) for one in several]


def _one_memory(memory: int | str) -> int:
    if isinstance(memory, bool) or not isinstance(memory, int | str):
        raise UsageError(f'gpu_memory={memory!r} is no size; give one such as "16GiB", or bytes')
    if isinstance(memory, str) and memory.strip().isdecimal() and int(memory) < LEAST_MEMORY:
        raise UsageError(f'gpu_memory="{memory}" has no unit; give "{memory.strip()}GiB" if that is what is meant')
    size = _native.parse_size(memory) if isinstance(memory, str) else memory
    if size < LEAST_MEMORY:
        raise UsageError(f'gpu_memory={memory!r} is {size} bytes, which no GPU has; give a size with a unit such as "16GiB"')
    return size


@dataclasses.dataclass(frozen=True)
class Options:
    """What to plan for, and how.

    Attributes:
        gpu_memory: the memory of each GPU; None: that of the visible GPUs, less what is in use there.
        memory_ratio: the part of it that a plan may count on, above 0, at most 1; None: what the measured error of predictions leaves.
        batch_size: the largest batch, in examples of one replica; None: what the data says.
        device_profile: a built-in profile's name or a profile's file; None: the one of the GPU's name.
        exact: whether TensorFlow's graph optimizations that decide about the last bit are off for the step.
        strict: whether a step that cannot be rewritten is an error, and not a warning.
        swap_weights: whether weights may go to the host, to be copied in for each step.
        cache_dir: a folder for plans; None: they are kept only while the program runs.
        iterations: how often loops run at most where the step does not tell.
    """

    gpu_memory: Memory | None = None
    memory_ratio: float | None = None
    batch_size: int | None = None
    device_profile: str | None = None
    exact: bool = True
    strict: bool = False
    swap_weights: bool = False
    cache_dir: str | os.PathLike[str] | None = None
    iterations: Iterations = None

    def __post_init__(self) -> None:
        """Refuses what cannot be meant, before anything is traced."""
        if self.gpu_memory is not None:
            memory_bytes(self.gpu_memory)
        iterations_of(self.iterations)
        ratio = self.memory_ratio
        if ratio is not None and not 0 < ratio <= 1:
            raise UsageError(f"memory_ratio={ratio!r} is no part; give a number above 0, at most 1")
        batch = self.batch_size
        if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 1):
            raise UsageError(f"batch_size={batch!r} is no number of examples; give a whole number of at least 1")
        profile = self.device_profile
        if profile is not None and profile not in _native.profile_names() and not pathlib.Path(profile).is_file():
            names = ", ".join(_native.profile_names())
            raise UsageError(f"device_profile={profile!r} is none of {names}, and no file")


def iterations_of(given: Iterations) -> tuple[tuple[str | None, int], ...]:
    """How often loops run, by the names of their frames, in an order of its own; None names all others.

    Raises:
        UsageError: if that cannot be meant.
    """
    if given is None:
        return ()
    named = dict(given) if isinstance(given, Mapping) else {None: given}
    for frame, times in named.items():
        if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= MOST_ITERATIONS:
            of = "" if frame is None else f" of {frame!r}"
            raise UsageError(f"iterations={times!r}{of} is no number of times; give a whole number up to {MOST_ITERATIONS}")
    return tuple(sorted(named.items(), key=str))
