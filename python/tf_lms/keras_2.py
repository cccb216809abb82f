"""Models of Keras 2, which goes on as `tf_keras` beside Keras 3: all that is different with them.

Keras 3 makes a `tf.function` of one step on a batch, and one around it that takes batches from an iterator; the inner one is what is
rewritten. Keras 2 has but one function, so here two are made of what that consists of.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

#: What Keras 2 calls the function that takes a batch from an iterator and runs one step on it, on all replicas.
STEP_FUNCTION = "step_function"


def module() -> Any:
    """Keras 2, where the program has imported it; None if not."""
    return sys.modules.get("tf_keras")


def is_model(model: Any) -> bool:
    """Whether this is a model of Keras 2."""
    keras = module()
    return keras is not None and isinstance(model, keras.Model)


def is_compiled(model: Any) -> bool:
    """Whether `compile` was called for a model of Keras 2."""
    return bool(model._is_compiled)


def make_step(model: Any, make: Callable[[], None], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    """Has a model of Keras 2 make its training function, and parts it: a `tf.function` of one step on a batch, and one around it.

    Relies on Keras making it of a function of the name STEP_FUNCTION, of a model and an iterator, that it takes one batch from.

    Args:
        model: the model.
        make: what makes its training function.
        wrap: what is to be in place of the `tf.function` of one step.

    Returns:
        Whether there was such a function.
    """
    make()
    python_function = getattr(model.train_function, "python_function", None)
    parts = inspect.getclosurevars(inspect.unwrap(python_function)).nonlocals if python_function is not None else {}
    if STEP_FUNCTION not in parts:
        return False
    on_iterator, executed = parts[STEP_FUNCTION], model._steps_per_execution

    def one_step_on_data(data: Any) -> Any:
        with _without_xla(model):
            return on_iterator(model, _Batch(data))

    step = wrap(tf.function(one_step_on_data, jit_compile=model.jit_compile or None, reduce_retracing=True))
    # AutoGraph is for the loop, which is one of TensorFlow's here as it is in Keras: dropout draws on in it, where steps side by side
    # would all begin anew.
    step = tf.autograph.experimental.do_not_convert(step)

    def train_function(iterator: Any) -> Any:
        return step(iterator.get_next())

    def several_steps(iterator: Any) -> Any:
        outputs = None
        for _ in tf.range(executed):
            outputs = step(iterator.get_next())
        return outputs

    is_single = executed is None or (int(executed.numpy()) == 1 and not model.autotune_steps_per_execution)
    made = tf.function(train_function if is_single else several_steps, reduce_retracing=True)
    model.train_function = model.train_tf_function = made
    return True


class _Batch:
    """An iterator that brings one batch."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __next__(self) -> Any:
        return self._data


@contextlib.contextmanager
def _without_xla(model: Any) -> Iterator[None]:
    """While this is open, a model of Keras 2 makes no function within its step that XLA is to compile."""
    before = model._jit_compile
    model._jit_compile = None
    try:
        yield
    finally:
        model._jit_compile = before
