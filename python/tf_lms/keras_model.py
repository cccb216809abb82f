"""Large model support for Keras, 3 or 2: `tf_lms.LMS`, a callback, and `tf_lms.apply`, the same without one."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from . import keras_2, private_hooks
from .errors import AlreadyRewritten, CannotRewrite, UsageError
from .log import warn
from .options import Iterations, Options
from .report import Report
from .step import Step

keras = private_hooks.check_keras()

#: Where a model keeps what was done to it.
_ATTRIBUTE = "_tf_lms"


class _Applied:
    """What was done to a model's training function."""

    def __init__(self, model: Any, options: Options, by_callback: bool) -> None:
        self.options = options
        self.by_callback = by_callback
        self.step: Step | None = None
        self._model = weakref.ref(model)
        self._make = model.make_train_function
        self._seen: Any = None
        self._fell_back = False
        self._refusal: CannotRewrite | None = None
        model.make_train_function = self.make_train_function
        model.train_function = None

    @property
    def report(self) -> Report | None:
        """What was found out of the step; None before it is known."""
        return self.step.report if self.step is not None else None

    def undo(self) -> None:
        model = self._model()
        if model is not None:
            with contextlib.suppress(AttributeError):
                del model.make_train_function
            model.train_function = None

    def make_train_function(self, force: bool = False) -> Any:
        """In place of the model's own: the same, with its step rewritten."""
        model = self._model()
        if model is None or (model.train_function is not None and not force):
            return model and model.train_function
        if model.run_eagerly:
            raise UsageError("the model runs eagerly, so there is no graph to rewrite; compile it without run_eagerly=True")
        self._refusal = self.step = None
        make_step(model, lambda: self._make(force=True), self._wrap)
        if self._refusal is not None:
            return self._as_it_is(self._refusal)
        if self.step is None:
            return self._as_it_is(
                CannotRewrite("the model makes its training function in a way of its own; give its step to tf_lms.function")
            )
        inner = model.train_function
        model.train_function = lambda iterator: self._train(inner, iterator)
        return model.train_function

    def _as_it_is(self, error: CannotRewrite) -> Any:
        """The model trains as it did before, and that is said."""
        model = self._model()
        if self.options.strict:
            raise error
        if not self._fell_back:
            warn(f"the model trains as it is, without large model support: {error}")
            self._fell_back = True
        return model.train_function if model is not None else None

    def _wrap(self, one_step: Any) -> Any:
        model = self._model()
        replicas = model.distribute_strategy.num_replicas_in_sync if model is not None else 1
        if replicas > 1 and not (keras_2.is_model(model) or private_hooks.runs_all_replicas(one_step)):
            self._refusal = CannotRewrite(
                f"with Keras {keras.__version__} each of {replicas} replicas runs a step of its own; install a newer Keras"
            )
            return one_step
        name = f"the step of {model.name}" if model is not None else "the step"
        step = self.step = Step(one_step, self.options, name)

        def one_step_on_data(data: Any) -> Any:
            return step(data)

        return one_step_on_data

    def _train(self, inner: Callable[..., Any], iterator: Any) -> Any:
        step = self.step
        if step is not None and isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            self._expect(iterator)
            model = self._model()
            if model is not None and step.planned_batch is not None and (step.expected_batch or 0) > step.planned_batch:
                # The trace around the step serves this batch, but what is in it was planned for less.
                expected = step.expected_batch
                self.make_train_function(force=True)
                assert self.step is not None
                self.step.expected_batch = expected
                return model.train_function(iterator)
        with private_hooks.exact_calls() if self.options.exact else contextlib.nullcontext():
            return inner(iterator)

    def _expect(self, iterator: Any) -> None:
        """Finds out how large the batches of an iterator become, once for each."""
        if (self._seen is not None and self._seen() is iterator) or self.step is None:
            return
        self._seen = weakref.ref(iterator)
        whole = private_hooks.fit_batch_size(depth=2) or private_hooks.iterator_batch_size(iterator)
        model = self._model()
        replicas = model.distribute_strategy.num_replicas_in_sync if model is not None else 1
        self.step.expected_batch = None if whole is None else -(-whole // replicas)


def make_step(model: Any, make: Callable[[], None], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Has a model make its training function by `make`, with `wrap` in place of the `tf.function` of its step on a batch.

    Returns:
        Whether there was such a function.
    """
    return (keras_2.make_step if keras_2.is_model(model) else private_hooks.make_keras_step)(model, make, wrap)


def is_model(model: Any) -> bool:
    """Whether this is a model of Keras 3, or of Keras 2."""
    return isinstance(model, keras.Model) or keras_2.is_model(model)


def check_model(model: Any) -> None:
    """Raises `UsageError` for what has no step to rewrite."""
    if not is_model(model):
        raise UsageError(f"tf_lms.apply takes a Keras model, not {type(model).__name__}; a step of your own goes to tf_lms.function")
    is_of_2 = keras_2.is_model(model)
    if is_of_2:
        private_hooks.check_keras_2(keras_2.module())
    if not (keras_2.is_compiled(model) if is_of_2 else model.compiled):
        raise UsageError("the model is not compiled, so it has no step to rewrite; call model.compile(optimizer=..., loss=...) first")
    if model.run_eagerly:
        raise UsageError("the model runs eagerly, so there is no graph to rewrite; compile it without run_eagerly=True")


def _apply(model: Any, options: Options, by_callback: bool) -> _Applied:
    check_model(model)
    before: _Applied | None = getattr(model, _ATTRIBUTE, None)
    if before is not None:
        if by_callback and before.by_callback and before.options == options:
            return before
        if not (by_callback and before.by_callback):
            raise AlreadyRewritten(
                f"{model.name} has large model support already; call tf_lms.remove(model) first, or leave the callback out"
            )
        before.undo()
    applied = _Applied(model, options, by_callback)
    object.__setattr__(model, _ATTRIBUTE, applied)
    return applied


def apply(
    model: Any,
    *,
    gpu_memory: Any = None,
    memory_ratio: float | None = None,
    batch_size: int | None = None,
    device_profile: str | None = None,
    exact: bool = True,
    strict: bool = False,
    cache_dir: Any = None,
    iterations: Iterations = None,
) -> Any:
    """Has a compiled Keras model train within a GPU's memory: `fit` and `train_on_batch` run a rewritten step from now on.

    Args:
        model: the model; it must be compiled.
        gpu_memory, memory_ratio, device_profile, exact, strict, cache_dir, iterations: as of `tf_lms.function`.
        batch_size: the largest batch of one replica, in examples, where the data does not say it.

    Returns:
        The model.

    Raises:
        UsageError: if it is no compiled model, or an argument cannot be meant.
        AlreadyRewritten: if it was called for the model before.
    """
    _apply(
        model,
        Options(gpu_memory, memory_ratio, batch_size, device_profile, exact, strict, False, cache_dir, iterations),
        by_callback=False,
    )
    return model


def remove(model: Any) -> Any:
    """Has a model train as it did before `tf_lms.apply` or the callback. Returns the model."""
    applied: _Applied | None = getattr(model, _ATTRIBUTE, None)
    if applied is not None:
        applied.undo()
        object.__delattr__(model, _ATTRIBUTE)
    return model


def report(model: Any) -> Report | None:
    """What was found out of a model's step; None before it trains, or without large model support."""
    applied: _Applied | None = getattr(model, _ATTRIBUTE, None)
    return applied.report if applied is not None else None


class LMS(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
    """A Keras callback with which `fit` trains within a GPU's memory.

        model.fit(dataset, callbacks=[tf_lms.LMS(gpu_memory="16GiB")])

    The model keeps it for later calls of `fit` and `train_on_batch`, until `tf_lms.remove(model)`.
    """

    def __init__(
        self,
        gpu_memory: Any = None,
        *,
        memory_ratio: float | None = None,
        batch_size: int | None = None,
        device_profile: str | None = None,
        exact: bool = True,
        strict: bool = False,
        cache_dir: Any = None,
        iterations: Iterations = None,
        log_dir: Any = None,
    ) -> None:
        """The arguments are those of `tf_lms.apply`.

        Args:
            log_dir: a folder for TensorBoard: peak, bytes and slowdown are written there as scalars.

        Raises:
            UsageError: if an argument cannot be meant.
        """
        super().__init__()
        self._options = Options(gpu_memory, memory_ratio, batch_size, device_profile, exact, strict, False, cache_dir, iterations)
        self._log_dir = log_dir
        self._applied: _Applied | None = None
        self._written: Report | None = None

    @property
    def report(self) -> Report | None:
        """What was found out of the step; None before the first batch."""
        return self._applied.report if self._applied is not None else None

    def set_model(self, model: Any) -> None:
        """Keras calls this before it makes the training function."""
        super().set_model(model)
        self._applied = _apply(model, self._options, by_callback=True)

    def _implements_train_batch_hooks(self) -> bool:
        """Keras 2 asks this of its callbacks."""
        return self._log_dir is not None

    def _implements_test_batch_hooks(self) -> bool:
        """As `_implements_train_batch_hooks`."""
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        """As `_implements_train_batch_hooks`."""
        return False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes what was found out, once it is."""
        found = self.report
        if self._log_dir is None or found is None or found is self._written or not found.devices:
            return
        self._written = found
        values = {
            "peak_bytes_before": found.peak_before,
            "peak_bytes_after": found.peak_after,
            "bytes_out": found.bytes_out,
            "bytes_in": found.bytes_in,
            "slowdown": found.slowdown or 0.0,
        }
        # Written by TensorFlow alone: tf.summary.scalar asks for TensorBoard where the program trains.
        summary = tf.compat.v1.Summary()
        for name, value in values.items():
            summary.value.add(tag=f"lms/{name}", simple_value=value)
        with tf.summary.create_file_writer(str(self._log_dir)).as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=batch)
