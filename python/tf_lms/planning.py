"""Plans: made, kept, and carried out. Bytes in, bytes out."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from . import _native
from .errors import DoesNotFit
from .log import say, warn
from .report import Report

T = TypeVar("T")

#: Planning is silent for so many seconds.
SILENT_SECONDS = 1.0

#: The version of what is kept in a cache.
CACHE_SCHEMA = 5

_kept: dict[str, tuple[str | None, str, str | None]] = {}


def _allocator() -> str:
    """Who hands out a GPU's memory in this process: TensorFlow goes by a variable of the environment."""
    return "async" if os.environ.get("TF_GPU_ALLOCATOR") == "cuda_malloc_async" else "bfc"


@dataclasses.dataclass(frozen=True)
class Task:
    """A graph, and what to plan for.

    Attributes:
        graph: a GraphDef, MetaGraphDef or SavedModel, binary.
        name: what messages call it.
        train_ops: the ops that a step is run for; none: those that the file names.
        memory_bytes: the memory of each GPU; the last counts for all further ones.
        profile: a device profile's name or file.
        of_function: whether the graph is a function that was made flat.
        iterations: how often loops run where the graph does not tell, by the names of their frames; None names all others.
        allocator: who hands out a GPU's memory: `bfc`, TensorFlow's own, or `async`, CUDA's.
    """

    graph: bytes
    name: str
    train_ops: tuple[str, ...]
    memory_bytes: tuple[int, ...]
    profile: str
    memory_ratio: float | None = None
    swap_weights: bool = False
    cache_dir: str | os.PathLike[str] | None = None
    of_function: bool = False
    iterations: tuple[tuple[str | None, int], ...] = ()
    allocator: str = dataclasses.field(default_factory=_allocator)

    def key(self) -> str:
        """What decides about the plan, as a name."""
        profile = pathlib.Path(self.profile)
        content = profile.read_text() if profile.is_file() else self.profile
        told = [
            _native.__version__,
            CACHE_SCHEMA,
            self.train_ops,
            self.memory_bytes,
            content,
            self.memory_ratio,
            self.swap_weights,
            self.of_function,
            self.iterations,
            self.allocator,
        ]
        return hashlib.sha256(json.dumps(told).encode() + b"\0" + self.graph).hexdigest()


def plan(task: Task) -> tuple[bytes | None, Report]:
    """Plans for a graph, and rewrites it.

    Returns:
        The rewritten graph, or None where it fits as it is; and the report.

    Raises:
        DoesNotFit: if no plan was found.
        CannotRewrite, InvalidGraph, AlreadyRewritten, UsageError: as they say.
    """
    found, report = look(task)
    if report.verdict == "does_not_fit":
        memory = " and ".join(_native.format_size(size) for size in task.memory_bytes)
        peak = f"its peak is {_native.format_size(report.peak_before)}"
        least = max(device["least_memory_before"] for device in report.devices)
        if report.peak_before <= max(task.memory_bytes) < least:
            peak += f", for which TensorFlow's allocator takes {_native.format_size(least)}"
        error = DoesNotFit(
            f"{task.name} fits into {memory} with no plan that was found: {peak}, and no plan gets below "
            f"{_native.format_size(report.floor)}; give more memory (tf_lms.least_memory says how much would do), "
            "or make the batch or the model smaller"
        )
        error.report = report
        devices = zip(task.memory_bytes, report.devices, strict=False)
        error.may_fit = all(device["peak_before"] <= memory for memory, device in devices)
        raise error
    if found is None:
        return None, report
    rewritten = _busy(task, lambda: _native.rewrite(task, found))
    return rewritten, dataclasses.replace(report, changed=True)


def look(task: Task) -> tuple[str | None, Report]:
    """The plan as JSON, if the graph needs one and there is one; and the report. From a cache, if it was made before."""
    start = time.monotonic()
    key = task.key()
    kept = _kept.get(key) or _read(task, key)
    if kept is None:
        kept = _busy(task, lambda: _native.plan(task, True))
        _write(task, key, kept)
        seconds = time.monotonic() - start
    else:
        seconds = 0.0
    _kept[key] = kept
    found, report, chart = kept
    return found, Report(data=json.loads(report), chart=chart, planning_seconds=seconds)


def _busy(task: Task, work: Callable[[], T]) -> T:
    """Does work in a thread of its own, so that the program can be interrupted; tells how long it has been at it."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="tf_lms planning", daemon=True).start()
    start, wait = time.monotonic(), SILENT_SECONDS
    while True:
        try:
            return future.result(timeout=wait)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            say(f"planning {task.name}: {time.monotonic() - start:.0f} s so far")
            wait = min(2 * wait, 30.0)


def _path(task: Task, key: str) -> pathlib.Path | None:
    return None if task.cache_dir is None else pathlib.Path(task.cache_dir) / f"{key}.json"


def _read(task: Task, key: str) -> tuple[str | None, str, str | None] | None:
    path = _path(task, key)
    if path is None or not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text())
        found, report, chart = kept["plan"], kept["report"], kept["chart"]
        json.loads(report)
    except (OSError, ValueError, KeyError, TypeError) as error:
        warn(f"{path} cannot be used and is written anew: {error}")
        return None
    return found, report, chart


def _write(task: Task, key: str, kept: tuple[str | None, str, str | None]) -> None:
    """Keeps a plan in the folder: all of it or nothing."""
    path = _path(task, key)
    if path is None:
        return
    document = json.dumps(dict(zip(("plan", "report", "chart"), kept, strict=True)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, suffix=".tmp") as file:
            file.write(document)
        pathlib.Path(file.name).replace(path)
    except OSError as error:
        warn(f"the plan cannot be kept in {path.parent}: {error}")
