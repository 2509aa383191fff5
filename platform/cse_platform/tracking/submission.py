"""What a submitted sweep and the machine that submitted it agree on."""

import json
import os
from pathlib import Path

SUBMISSION = "CSE_SUBMISSION"
"""A variable of the driver's environment: the JSON file that says so, under `submission`."""
ORDER_FILE = "order.json"
"""In the job's folder: what is to be run, and what the head needs for it."""
LACKS = "the head lacks: "
"""Begins the line that names missing packages; whoever submitted the job then sends them, too."""
EXIT_LACKS = 3
BEGUN, ENDED = "has begun", "has ended"
"""The ends of the job's lines that tell whether a driver has the sweep now."""


def submitted(what: str) -> dict[str, str]:
    """Its `provenance`, in place of what the driver finds out about itself, or its `diffs`."""
    file = os.environ.get(SUBMISSION)
    if file is None:
        return {}
    found: dict[str, str] = json.loads(Path(file).read_text())["submission"][what]
    return found
