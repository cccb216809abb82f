"""What is told while a program trains: through `logging`, under the name `tf_lms`."""

from __future__ import annotations

import logging
import warnings

from .errors import LMSWarning

logger = logging.getLogger("tf_lms")
if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)

_said: set[str] = set()


def say(message: str) -> None:
    """Tells something."""
    logger.info(message)


def say_once(message: str) -> None:
    """Tells something that holds for the whole program."""
    if message not in _said:
        _said.add(message)
        logger.info(message)


def warn(message: str) -> None:
    """Says that training goes on, but not as it was asked for."""
    warnings.warn(f"tf_lms: {message}", LMSWarning, stacklevel=2)
