"""Names shared by a submitted sweep and the machine that submitted it."""

import json
import os
from pathlib import Path

SUBMISSION = "CSE_SUBMISSION"
"""Environment variable of the driver: a JSON file with the key `submission`."""
ORDER_FILE = "order.json"
"""File in the job's folder: what to run, and what the cluster's head node needs for it."""
LACKS = "the head lacks: "
"""Prefix of the output line that lists missing packages, which the submitter then sends."""
EXIT_LACKS = 3
BEGUN, ENDED = "has begun", "has ended"
"""Suffixes of the job's output lines that tell whether a driver now holds the sweep."""


def read_submission(what: str) -> dict[str, str]:
    """Read the submitter's `provenance` or `diffs`; {} if the sweep was not submitted."""
    file = os.environ.get(SUBMISSION)
    if file is None:
        return {}
    facts: dict[str, str] = json.loads(Path(file).read_text())["submission"][what]
    return facts
