"""`tf_lms.predict` and `tf_lms.largest_batch`: will it fit, and how much of it?"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from . import _native, devices, private_hooks
from .errors import CannotRewrite, UsageError
from .flatten import flatten, open_sizes
from .options import LEAST_MEMORY, Iterations, Memory, Options, iterations_of
from .planning import Task, look
from .report import Report
from .step import Step, task_of

#: The largest batch that is tried.
LARGEST = 1 << 20


def predict(
    what: Any,
    gpu_memory: Memory | None = None,
    *,
    data: Any = None,
    batch_size: int | None = None,
    memory_ratio: float | None = None,
    device_profile: str | None = None,
    cache_dir: Any = None,
    iterations: Iterations = None,
) -> Report:
    """Says whether a training step fits into a GPU's memory, and with what; nothing is run.

    Args:
        what: a compiled Keras model; a `tf_lms.function`, `tf.function`, or what that traced; or the path of a GraphDef, MetaGraphDef or
            SavedModel.
        gpu_memory: the memory of each GPU, as bytes or `"16GiB"`; None: that of the visible GPUs.
        data: what the step takes, as tensors, arrays, or `tf.TensorSpec`: `(x, y)` of a model, or a `tf.data.Dataset`; the arguments of a
            function, as a tuple. None: what the model's inputs and its loss, or the function's `input_signature`, say.
        batch_size: the size of first dimensions that are left open.
        memory_ratio, device_profile, cache_dir, iterations: as of `tf_lms.function`.

    Returns:
        The report. That nothing fits is no error.

    Raises:
        UsageError: if it is nothing of the above, or sizes are missing.
        CannotRewrite: if it cannot be looked into.
    """
    options = Options(gpu_memory, memory_ratio, batch_size, device_profile, True, True, False, cache_dir, iterations)
    if isinstance(what, str | os.PathLike):
        return look(_file_task(pathlib.Path(what), options))[1]
    subject = _subject(what, data, options)
    return subject.report(subject.size(batch_size))


def least_memory(
    what: Any,
    *,
    data: Any = None,
    batch_size: int | None = None,
    memory_ratio: float | None = None,
    device_profile: str | None = None,
    iterations: Iterations = None,
) -> int | None:
    """The least memory of a GPU in bytes for which there is a plan, to about a hundredth; None if there is none for any.

    The arguments, and what is raised, are those of `predict`.
    """
    options = Options(LEAST_MEMORY, memory_ratio, batch_size, device_profile, True, True, False, None, iterations)
    if isinstance(what, str | os.PathLike):
        return _native.least_memory(_file_task(pathlib.Path(what), options))
    subject = _subject(what, data, options)
    return _native.least_memory(subject.task(subject.size(batch_size))[0])


@dataclasses.dataclass(frozen=True)
class LargestBatch:
    """How large a batch may be.

    Attributes:
        as_it_is: the largest batch with which the step fits as it is; None: not even 1.
        with_lms: the same with large model support.
        reports: what was found out of each batch that was tried.
    """

    as_it_is: int | None
    with_lms: int | None
    reports: dict[int, Report]

    def __str__(self) -> str:
        told = ["none" if size is None else str(size) for size in (self.as_it_is, self.with_lms)]
        return f"largest batch as it is: {told[0]}\nlargest batch with large model support: {told[1]}"


def largest_batch(
    what: Any,
    gpu_memory: Memory | None = None,
    *,
    data: Any = None,
    memory_ratio: float | None = None,
    device_profile: str | None = None,
    cache_dir: Any = None,
    iterations: Iterations = None,
) -> LargestBatch:
    """The largest batch with which a training step fits into a GPU's memory: doubled until it does not, then halved in between.

    The arguments are those of `predict`; first dimensions of `data` count as open.

    Raises:
        UsageError: if the step has no open batch, or sizes are missing.
        CannotRewrite: if it cannot be looked into.
    """
    options = Options(gpu_memory, memory_ratio, None, device_profile, True, True, False, cache_dir, iterations)
    subject = _subject(what, data, options)
    if not subject.is_open:
        raise UsageError("the step has no open batch size; give data or an input_signature with None for it")
    reports: dict[int, Report] = {}

    def verdict(size: int) -> str:
        if size not in reports:
            reports[size] = subject.report(size)
        # A size that fits only without a margin is none to be told.
        return "does_not_fit" if reports[size].data.get("takes_margin") else reports[size].verdict

    as_it_is = _largest(lambda size: verdict(size) == "fits")
    with_lms = _largest(lambda size: verdict(size) != "does_not_fit", as_it_is or 0)
    return LargestBatch(as_it_is or None, with_lms or None, dict(sorted(reports.items())))


def _largest(fits: Any, low: int = 0) -> int:
    high = max(1, 2 * low)
    while high <= LARGEST and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


@dataclasses.dataclass(frozen=True)
class _Subject:
    """A traced step to plan for."""

    concrete: Any
    name: str
    options: Options
    batch: int | None
    given: Sequence[Any] = ()
    #: Whether another function calls it, as Keras has one around its step.
    in_function: bool = False

    @property
    def is_open(self) -> bool:
        return bool(open_sizes(self.concrete))

    def size(self, given: int | None) -> int | None:
        """The batch size; None if the step has no open one."""
        size = given or self.batch
        if self.is_open and size is None:
            raise UsageError("the batch size is open; give batch_size=")
        return size

    def report(self, batch: int | None) -> Report:
        task, others = self.task(batch)
        return dataclasses.replace(look(task)[1], other_bytes=others)

    def task(self, batch: int | None) -> tuple[Task, tuple[int, ...]]:
        """What there is to plan for, and what else is in use on each GPU, in bytes."""
        sizes = {}
        for number, dimension in open_sizes(self.concrete):
            if dimension != 0 or batch is None:
                raise CannotRewrite(f"dimension {dimension} of argument {number} of {self.name} is open; give data with its size")
            sizes[number, dimension] = batch
        flat = flatten(self.concrete, sizes, given=self.given, in_function=self.in_function)
        return task_of(flat, self.name, self.options)


def _file_task(path: pathlib.Path, options: Options) -> Task:
    file = path / "saved_model.pb" if path.is_dir() else path
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    return Task(
        graph=content,
        name=str(path),
        train_ops=(),
        memory_bytes=devices.gpu_memory(options, {}).memory,
        profile=devices.profile(options),
        memory_ratio=options.memory_ratio,
        cache_dir=options.cache_dir,
        iterations=iterations_of(options.iterations),
    )


def _subject(what: Any, data: Any, options: Options) -> _Subject:
    if isinstance(what, Step):
        return _of_function(what.traced, what.name, data, options)
    if private_hooks.is_tf_function(what):
        return _of_function(what, getattr(what, "__name__", "the function"), data, options)
    if isinstance(what, tf.types.experimental.ConcreteFunction):
        return _Subject(what, what.name.decode() if isinstance(what.name, bytes) else str(what.name), options, None)
    from . import keras_model

    if keras_model.is_model(what):
        return _of_model(what, data, options)
    raise UsageError(f"{type(what).__name__} is no Keras model, no tf.function, and no path")


def _of_function(function: Any, name: str, data: Any, options: Options) -> _Subject:
    if data is None and function.input_signature is None:
        raise UsageError(f"what {name} takes is not known; give data=, a tuple of its arguments or of their tf.TensorSpec")
    args = () if data is None else tuple(data)
    concrete = private_hooks.trace(function, args, {})
    if data is None or any(isinstance(leaf, tf.TypeSpec) for leaf in tf.nest.flatten(args)):
        return _Subject(concrete, name, options, None)
    return _Subject(concrete, name, options, None, private_hooks.flat_arguments(concrete, *private_hooks.with_defaults(function, args, {})))


def _of_model(model: Any, data: Any, options: Options) -> _Subject:
    from . import keras_data, keras_model

    keras_model.check_model(model)
    specs, batch = keras_data.specs(model, data)
    made: list[Any] = []

    def keep(one_step: Any) -> Any:
        made.append(one_step)
        return one_step

    before = model.train_function
    try:
        found = keras_model.make_step(model, lambda: type(model).make_train_function(model, force=True), keep)
    finally:
        model.train_function = before
    if not found:
        raise CannotRewrite("the model makes its training function in a way of its own; give its step to tf_lms.predict")
    concrete = private_hooks.trace(made[-1], (specs,), {})
    return _Subject(concrete, f"the step of {model.name}", options, batch, in_function=True)
