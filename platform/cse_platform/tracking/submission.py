"""What a sweep that was submitted to a cluster knows of the machine that has submitted it."""

import json
import os
from pathlib import Path

SUBMISSION = "CSE_SUBMISSION"
"""A variable of the driver's environment: the JSON file that says so, under `submission`."""


def submitted(what: str) -> dict[str, str]:
    """Its `provenance`, in place of what the driver finds out about itself, or its `diffs`."""
    file = os.environ.get(SUBMISSION)
    if file is None:
        return {}
    found: dict[str, str] = json.loads(Path(file).read_text())["submission"][what]
    return found
