"""What was found out of a step and a memory."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import Any

from ._native import format_size

#: What other tensors of the program add to.
WITH_OTHERS = ("memory_bytes", "peak_before", "peak_after", "least_memory_before", "floor_bytes")


@dataclasses.dataclass(frozen=True)
class Report:
    """What a step needs, as it is and with the plan. Predicted for the device profile that is named.

    Attributes:
        data: all that was found out, as a dictionary: what `tf_lms::pipeline::Summary` says, in bytes and seconds.
        chart: memory over the step as SVG, if it was drawn.
        changed: whether the step was changed.
        original: why the original step runs though it does not fit; None if it does not.
        planning_seconds: what planning took; 0 from a cache.
        other_bytes: what is in use on each GPU beside the step: other tensors of the program.
        without_xla: functions in the step that XLA compiled before, and no longer does.
    """

    data: dict[str, Any]
    chart: str | None = None
    changed: bool = False
    original: str | None = None
    planning_seconds: float = 0.0
    other_bytes: tuple[int, ...] = ()
    without_xla: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """`fits`, `fits_with_swapping` or `does_not_fit`; `unknown` where the step could not be looked into."""
        return str(self.data.get("verdict", "unknown"))

    @property
    def fits(self) -> bool:
        """Whether the step fits, as it is or with the plan."""
        return self.verdict in ("fits", "fits_with_swapping")

    @property
    def is_tight(self) -> bool:
        """Whether the plan fits only in the order, and with copies as fast, as predicted. Where something else computes too, it may not."""
        return bool(self.data.get("is_tight", False))

    @property
    def devices(self) -> list[dict[str, Any]]:
        """What holds for each GPU, in bytes. Peaks and memories are those of the whole GPU, `other_bytes` included."""
        devices = []
        for number, device in enumerate(self.data.get("devices", [])):
            other = self.other_bytes[number] if number < len(self.other_bytes) else 0
            whole = {name: device[name] + other for name in WITH_OTHERS if device[name] is not None}
            devices.append(device | whole | {"other_bytes": other})
        return devices

    @property
    def peak_before(self) -> int:
        """The most memory in use on any GPU as the step is, in bytes."""
        return self._most("peak_before")

    @property
    def peak_after(self) -> int:
        """The same with the plan; of a step that fits with none, as it is."""
        return self._most("peak_after") or self.peak_before

    @property
    def floor(self) -> int:
        """What no plan gets below on any GPU, in bytes."""
        return self._most("floor_bytes")

    @property
    def bytes_out(self) -> int:
        """What the plan copies to the host in a step, of all GPUs."""
        return sum(device["swapout_bytes"] for device in self.devices)

    @property
    def bytes_in(self) -> int:
        """What the plan copies back in a step, of all GPUs."""
        return sum(device["swapin_bytes"] for device in self.devices)

    @property
    def slowdown(self) -> float | None:
        """By what part a step takes longer: 0.05 is 5%. None if it fits with no plan."""
        before, after = self.data.get("step_seconds_before"), self.data.get("step_seconds_after")
        return after / before - 1.0 if before and after is not None else None

    @property
    def notes(self) -> list[str]:
        """What one should know besides, a sentence each."""
        notes = list(self.data.get("notes", []))
        if self.without_xla:
            first, more = self.without_xla[0], len(self.without_xla) - 1
            notes.append(f"what XLA compiled is run op by op: {first}" + (f" and {more} more" if more else ""))
        return [self.original, *notes] if self.original else notes

    def _most(self, name: str) -> int:
        return max((device[name] or 0 for device in self.devices), default=0)

    def rows(self) -> list[tuple[str, str]]:
        """What is printed: labels and texts."""
        if not self.devices:
            return [("note", note) for note in self.notes]
        memory = max(device["memory_bytes"] for device in self.devices)
        verdict = {"fits": "fits as it is", "fits_with_swapping": "fits with swapping", "does_not_fit": "does not fit"}[self.verdict]
        if self.verdict == "fits" and self.changed and not self.without_xla:
            verdict = "fits once it is rewritten"
        rows = [("verdict", f"{verdict} in {format_size(memory)}")]
        if self.verdict == "fits_with_swapping":
            rows += [
                ("peak", f"{format_size(self.peak_before)} before, {format_size(self.peak_after)} after"),
                ("copies", f"{format_size(self.bytes_out)} out, {format_size(self.bytes_in)} in each step"),
                ("step", f"{(self.slowdown or 0) * 100:.1f}% longer (on {self.data['device_profile']})"),
                ("plan", f"{self.data['swapped_tensors']} tensors leave, {self.data['recomputed_ops']} ops run again"),
            ]
        else:
            rows.append(("peak", format_size(self.peak_before)))
        rows.append(("no plan below", format_size(self.floor)))
        others = max(self.other_bytes, default=0)
        if others > 0:
            rows.append(("of that", f"{format_size(others)} by other tensors of the program"))
        return rows + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(f"{label:<14}{text}" for label, text in self.rows())

    def _repr_html_(self) -> str:
        """A table and the chart, for notebooks."""
        rows = "".join(f"<tr><th>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>" for label, text in self.rows())
        return f"<table>{rows}</table>{self.chart or ''}"

    def to_json(self) -> str:
        """All of it but the chart, as one JSON document."""
        known = {"changed": self.changed, "original": self.original, "planning_seconds": self.planning_seconds}
        return json.dumps(self.data | {"devices": self.devices} | known, indent=2)
