"""`tf_lms.function`: a training step of your own, rewritten when it is traced."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from . import devices, private_hooks
from .errors import AlreadyRewritten, CannotRewrite, DoesNotFit, LMSError, UsageError
from .flatten import Flat, Sizes, argument_tensors, arguments_on_gpu, flatten, open_sizes
from .log import say, say_once, warn
from .options import Iterations, Options, iterations_of
from .planning import Task, plan
from .rebuild import rebuild
from .report import Report


@dataclasses.dataclass(frozen=True)
class _Called:
    """What decides about the order in which a step runs."""

    #: The arguments that are on a GPU.
    on_gpu: frozenset[int]
    #: Whether another function calls it.
    in_function: bool

    @classmethod
    def with_arguments(cls, given: list[Any]) -> _Called:
        return cls(frozenset(arguments_on_gpu(given)), not tf.executing_eagerly())


def task_of(flat: Flat, name: str, options: Options) -> tuple[Task, tuple[int, ...]]:
    """What there is to plan for a flat graph on the GPUs of this machine, and what else is in use on each of them, in bytes."""
    available = devices.gpu_memory(options, flat.held_bytes)
    task = Task(
        graph=flat.graph.SerializeToString(deterministic=True),
        name=name,
        train_ops=(flat.train_op,),
        memory_bytes=available.for_step,
        profile=devices.profile(options),
        memory_ratio=options.memory_ratio,
        swap_weights=options.swap_weights,
        of_function=True,
        cache_dir=options.cache_dir,
        iterations=iterations_of(options.iterations),
    )
    return task, available.others


@dataclasses.dataclass(frozen=True)
class _Planned:
    """A trace with the sizes that it was planned for, and what is run."""

    sizes: Sizes
    concrete: Any
    report: Report
    #: How it is called; None if that does not matter.
    called: _Called | None = None

    def serves(self, sizes: Sizes, called: _Called) -> bool:
        return self.called in (None, called) and all(size <= self.sizes[where] for where, size in sizes.items())


class Step:
    """A function that is traced as `tf.function` traces it, and rewritten so that it fits into the memory that it was given.

    It is called like the original, eagerly or in another `tf.function`, and retraces when that would. Gradients are computed inside;
    those of the function itself cannot be asked for once it is rewritten.
    """

    def __init__(self, function: Any, options: Options, name: str) -> None:
        """`function` is what `tf.function` makes; `name` is what messages call it."""
        private_hooks.check_versions()
        #: What `tf.function` made.
        self.traced = function
        self._options = options
        self._planned: dict[int, tuple[Any, list[_Planned]]] = {}
        self._lock = threading.RLock()
        self._says_nothing = False
        #: What messages call it.
        self.name = name
        #: A report for each trace that was planned for.
        self.reports: list[Report] = []
        #: The largest batch of one replica that callers expect, where shapes do not tell.
        self.expected_batch: int | None = None

    @property
    def report(self) -> Report | None:
        """What was found out of the latest trace; None before the first call."""
        return self.reports[-1] if self.reports else None

    @property
    def planned_batch(self) -> int | None:
        """The least first size, of those that traces left open, that a plan was made for; None if all were known."""
        batches = [
            size for _, several in self._planned.values() for one in several for (_, dimension), size in one.sizes.items() if dimension == 0
        ]
        return min(batches, default=None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = private_hooks.with_defaults(self.traced, args, kwargs)
        concrete = private_hooks.trace(self.traced, args, kwargs)
        flat = private_hooks.flat_arguments(concrete, args, kwargs)
        chosen = self._choose(concrete, flat)
        exact = self._options.exact and tf.executing_eagerly()
        with private_hooks.exact_calls() if exact else contextlib.nullcontext():
            return private_hooks.call(chosen, flat)

    def _choose(self, concrete: Any, flat: list[Any]) -> Any:
        with self._lock:
            _, several = self._planned.setdefault(id(concrete), (concrete, []))
            try:
                sizes = self._sizes(concrete, flat)
            except CannotRewrite as error:
                return self._original(concrete, several, error)
            called = _Called.with_arguments(flat)
            chosen = next((one for one in several if one.serves(sizes, called)), None)
            if chosen is None:
                chosen = self._plan(concrete, _largest(sizes, several), flat, called)
                several.append(chosen)
                self.reports.append(chosen.report)
            return chosen.concrete

    def _sizes(self, concrete: Any, flat: list[Any]) -> Sizes:
        """How large what the trace leaves open is, or may become."""
        sizes = {}
        for number, dimension in open_sizes(concrete):
            known = [flat[number].shape[dimension]]
            if dimension == 0:
                known += [self.expected_batch, self._options.batch_size]
            known = [size for size in known if size is not None]
            if not known:
                name = argument_tensors(concrete)[number].op.name
                what = "give batch_size=" if dimension == 0 else "give its data a shape, for instance with padded_batch(padded_shapes=...)"
                raise CannotRewrite(f"the data does not say how large dimension {dimension} of {name} can be; {what}")
            sizes[number, dimension] = max(int(size) for size in known)
        return sizes

    def _plan(self, concrete: Any, sizes: Sizes, given: list[Any], called: _Called) -> _Planned:
        try:
            if self._options.swap_weights:
                _check_weights(concrete)
            flat = flatten(concrete, sizes, self._options.swap_weights, given, in_function=called.in_function)
            task, others = task_of(flat, self.name, self._options)
            rewritten, report = plan(task)
            # What was predicted is what is run: a step in which XLA compiled something is another one without it.
            rewritten = rewritten or (task.graph if flat.without_xla else None)
            report = dataclasses.replace(report, other_bytes=others, changed=rewritten is not None, without_xla=flat.without_xla)
            changed = concrete if rewritten is None else rebuild(concrete, flat, rewritten)
        except UsageError:
            raise
        except LMSError as error:
            goes_on = isinstance(error, CannotRewrite) or (isinstance(error, DoesNotFit) and error.may_fit)
            if self._options.strict or not goes_on:
                raise
            return self._fall_back(concrete, sizes, error)
        except Exception as error:  # whatever TensorFlow says to a graph that nobody has seen: training goes on
            wrapped = CannotRewrite(f"the step cannot be rewritten: {type(error).__name__}: {error}")
            if self._options.strict:
                raise wrapped from error
            return self._fall_back(concrete, sizes, wrapped)
        self._tell(report)
        return _Planned(sizes, changed, report, called)

    def _original(self, concrete: Any, several: list[_Planned], error: CannotRewrite) -> Any:
        if self._options.strict:
            raise error
        if not any(one.report.original for one in several):
            several.append(self._fall_back(concrete, {}, error))
            self.reports.append(several[-1].report)
        return concrete

    def _fall_back(self, concrete: Any, sizes: Sizes, error: Exception) -> _Planned:
        warn(f"{self.name} runs as it is, without large model support: {error}")
        return _Planned(sizes, concrete, Report(data={}, original=str(error)))

    def _tell(self, report: Report) -> None:
        if report.changed:
            if getattr(self.traced, "_jit_compile", None) or report.without_xla:
                say_once(f"{self.name} is no longer compiled by XLA, which would ignore the swaps")
            say(f"{self.name}: " + ", ".join(f"{label} {text}" for label, text in report.rows() if label != "note"))
        else:
            say(f"{self.name} fits as it is, and is not changed: " + ", ".join(f"{label} {text}" for label, text in report.rows()[1:]))
        if report.is_tight:
            what = "its plan fits" if report.changed else "it fits"
            warn(f"{self.name} may run out of memory: {what} only if all goes as predicted; give more memory or a smaller batch")


def _largest(sizes: Sizes, several: list[_Planned]) -> Sizes:
    """One plan serves all that came before too."""
    before = [one.sizes for one in several if one.sizes.keys() == sizes.keys()]
    return {where: max([size, *(known[where] for known in before)]) for where, size in sizes.items()}


def _check_weights(concrete: Any) -> None:
    """Weights can be brought in from the host only if that is where they are."""
    handles = [external for external, _ in private_hooks.captures(concrete) if private_hooks.variable_type(external)]
    on_gpu = [handle for handle in handles if "GPU" in getattr(handle, "device", "")]
    if on_gpu:
        raise UsageError(
            f"swap_weights=True, but {len(on_gpu)} of the {len(handles)} variables are in the GPU's memory; make the model in "
            'with tf.device("/CPU:0"): …'
        )


def function(
    func: Callable[..., Any] | None = None,
    *,
    gpu_memory: Any = None,
    memory_ratio: float | None = None,
    batch_size: int | None = None,
    device_profile: str | None = None,
    exact: bool = True,
    strict: bool = False,
    swap_weights: bool = False,
    cache_dir: Any = None,
    iterations: Iterations = None,
    **tf_function_options: Any,
) -> Any:
    """Use this in place of `tf.function` for a training step: it is rewritten so that it fits into a GPU's memory.

        @tf_lms.function(gpu_memory="16GiB")
        def train_step(images, labels): ...

        train_step(images, labels)
        print(train_step.report)

    Args:
        func: the Python function, or what `tf.function` made of it.
        gpu_memory: the memory of each GPU, as bytes or `"16GiB"`; None: that of the visible GPUs, less what is in use there.
        memory_ratio: the part of it that a plan may count on; None: what the measured error of predictions leaves.
        batch_size: the largest batch, in examples, where neither the data nor `input_signature` says it.
        device_profile: what step times are predicted for: a built-in profile's name or a file; None: by the GPU's name.
        exact: whether TensorFlow's `arithmetic_optimization`, `constant_folding`, `layout_optimizer` and `memory_optimization` are off
            for the step: they decide about the last bit, and take memory that nobody planned.
        strict: whether a step that cannot be rewritten is an error. If not, it runs as it is, and a warning says why.
        swap_weights: whether weights come in from the host as they are needed, for inference; the model must have been made on the CPU.
        cache_dir: a folder where plans are kept.
        iterations: how often loops run at most where the step does not tell: a number for all, or for some by the names that errors and
            reports call them.
        tf_function_options: for `tf.function`: `input_signature`, `reduce_retracing`, `autograph`, …

    Returns:
        A `Step`; without `func` a decorator that makes one.

    Raises:
        UsageError: if an argument cannot be meant.
        AlreadyRewritten: if `func` is a `Step`.
        DoesNotFit: when the step is called, if no plan was found; a step that may fit without a margin runs as it is, with a warning,
            unless `strict` is set.
        CannotRewrite: then, if it cannot be rewritten and `strict` is set.
    """
    options = Options(gpu_memory, memory_ratio, batch_size, device_profile, exact, strict, swap_weights, cache_dir, iterations)
    if func is None:
        return functools.partial(_make, options=options, tf_function_options=tf_function_options)
    return _make(func, options=options, tf_function_options=tf_function_options)


def _make(func: Any, *, options: Options, tf_function_options: Mapping[str, Any]) -> Step:
    if isinstance(func, Step):
        raise AlreadyRewritten(f"{func.name} has been given to tf_lms.function before; give it the original function")
    if not callable(func):
        raise UsageError(f"tf_lms.function takes a function, not {type(func).__name__}")
    name = getattr(func, "__name__", None) or getattr(getattr(func, "python_function", None), "__name__", None) or "the step"
    if private_hooks.is_tf_function(func):
        if tf_function_options:
            raise UsageError(f"{name} is a tf.function already; give {', '.join(tf_function_options)} to that")
        made = func
    else:
        made = tf.function(func, **tf_function_options)
    step = Step(made, options, str(name))
    functools.update_wrapper(step, getattr(made, "python_function", func), updated=())
    return step
