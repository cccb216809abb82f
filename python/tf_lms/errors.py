"""What goes wrong, as exceptions. Each message is a sentence that says what to do."""


class LMSError(Exception):
    """What this package raises of its own."""


class UsageError(LMSError, ValueError):
    """An argument that cannot be meant, or a call at the wrong time."""


class AlreadyRewritten(UsageError):
    """A step, model or graph that was rewritten before."""


class InvalidGraph(LMSError, ValueError):
    """Bytes or a file that hold no graph."""


class CannotRewrite(LMSError):
    """A step that cannot be planned for or rewritten. Unless `strict=True`, the original runs and a warning says this."""


class DoesNotFit(LMSError):
    """No plan was found with which the step fits. `report` has the peaks and what no plan gets below.

    `may_fit` says whether its peak as it is, as predicted, is within the memory, only without a margin.
    """

    report: object = None
    may_fit: bool = False


class UnsupportedVersion(LMSError):
    """A version of TensorFlow or Keras with which this package was never tried."""


class MissingTensorFlow(LMSError, ImportError):
    """TensorFlow, or Keras on TensorFlow, is not there."""


class LMSWarning(RuntimeWarning):
    """Training goes on, but not as it was asked for."""
