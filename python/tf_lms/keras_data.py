"""What a Keras model's step takes: from data, or from what the model says of itself."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import keras_2, private_hooks
from .errors import UsageError


def specs(model: Any, data: Any) -> tuple[Any, int | None]:
    """Specs of a batch, `(x, y)` or `(x, y, sample_weight)`, with first dimensions open; and the batch size, if data says it.

    Raises:
        UsageError: if neither data nor the model says what it takes.
    """
    if data is None:
        return _own_specs(model), None
    if isinstance(data, tf.data.Dataset):
        batch = private_hooks.dataset_batch_size(data)
        return tf.nest.map_structure(_open, data.element_spec), batch
    found = tf.nest.map_structure(_spec, tuple(data) if isinstance(data, list) else data)
    first = tf.nest.flatten(found)[0]
    return tf.nest.map_structure(_open, found), first.shape[0]


def _spec(value: Any) -> Any:
    if isinstance(value, tf.TensorSpec):
        return value
    if isinstance(value, tf.Tensor):
        return tf.TensorSpec(value.shape, value.dtype)
    array = np.asarray(value)
    # As Keras has it: arrays of float64 become what it computes with.
    dtype = keras.config.floatx() if array.dtype == np.float64 else array.dtype
    return tf.TensorSpec(array.shape, dtype)


def _open(spec: Any) -> Any:
    if spec.shape.rank in (None, 0):
        raise UsageError(f"{spec} has no first dimension for the batch; give batches, or specs of them")
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def _own_specs(model: Any) -> Any:
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not inputs or not outputs:
        raise UsageError("the model does not say what it takes before it has run; give data=, as (x, y) or a dataset")
    if len(outputs) != 1:
        raise UsageError("the model has several outputs, so what is compared with them is not known; give data=(x, y)")
    x = [tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype) for tensor in inputs]
    output = outputs[0]
    loss = model.loss
    losses = (keras_2.module() if keras_2.is_model(model) else keras).losses
    if isinstance(loss, str | losses.Loss):
        name = loss if isinstance(loss, str) else type(loss).__name__
        if type(loss).__module__.startswith(("keras", "tf_keras")) or isinstance(loss, str):
            is_sparse = name.lower().startswith("sparse")
            y = (
                tf.TensorSpec([None, *output.shape[1:-1]], "int32")
                if is_sparse
                else tf.TensorSpec([None, *output.shape[1:]], keras.config.floatx())
            )
            return (x[0] if len(x) == 1 else x, y)
    raise UsageError("the model's loss is one of your own, so what it compares with is not known; give data=(x, y)")
