"""Profiles of devices that are like one of those built in, but for some fields."""

import json
from pathlib import Path

BUILT_IN = Path(__file__).resolve().parent.parent / "src/cost/profiles.json"


def write(path, name, like, **changes):
    """Writes a profile of this name into a file, for --device-profile."""
    profiles = json.loads(BUILT_IN.read_text())["profiles"]
    fields = next(fields for fields in profiles if fields["name"] == like)
    Path(path).write_text(json.dumps({"schema": 1, **fields, "name": name, **changes}, indent=2) + "\n")
