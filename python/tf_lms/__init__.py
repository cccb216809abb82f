"""Large Model Support for TensorFlow: train models that do not fit in GPU memory, with one line.

    model.fit(dataset, callbacks=[tf_lms.LMS(gpu_memory="16GiB")])

A step's activations are copied to host memory, or computed again, at the right moments; the numbers are the same. TensorFlow is opened when
something of it is needed, so that graphs can be rewritten without it.
"""

from __future__ import annotations

import importlib
import typing

from ._native import __version__
from .errors import (
    AlreadyRewritten,
    CannotRewrite,
    DoesNotFit,
    InvalidGraph,
    LMSError,
    LMSWarning,
    MissingTensorFlow,
    UnsupportedVersion,
    UsageError,
)
from .graph import rewrite_graph
from .report import Report

if typing.TYPE_CHECKING:
    from .keras_model import LMS, apply, remove
    from .prediction import LargestBatch, largest_batch, least_memory, predict
    from .session_hook import LMSHook, session_config
    from .step import Step, function

__all__ = [
    "LMS",
    "AlreadyRewritten",
    "CannotRewrite",
    "DoesNotFit",
    "InvalidGraph",
    "LMSError",
    "LMSHook",
    "LMSWarning",
    "LargestBatch",
    "MissingTensorFlow",
    "Report",
    "Step",
    "UnsupportedVersion",
    "UsageError",
    "__version__",
    "apply",
    "function",
    "largest_batch",
    "least_memory",
    "predict",
    "remove",
    "rewrite_graph",
    "session_config",
]

#: What needs TensorFlow, and the files that have it.
_WITH_TENSORFLOW = {
    "LMS": "keras_model",
    "apply": "keras_model",
    "remove": "keras_model",
    "LargestBatch": "prediction",
    "largest_batch": "prediction",
    "least_memory": "prediction",
    "predict": "prediction",
    "LMSHook": "session_hook",
    "session_config": "session_hook",
    "Step": "step",
    "function": "step",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _WITH_TENSORFLOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("tensorflow")
    except ImportError as error:
        raise MissingTensorFlow(
            f"tf_lms.{name} needs TensorFlow, which is not installed; install it with: pip install tensorflow"
        ) from error
    value = getattr(importlib.import_module(f".{_WITH_TENSORFLOW[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
