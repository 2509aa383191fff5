"""Names that a submitted sweep and the machine that submitted it agree on."""

import json
import os
from pathlib import Path

SUBMISSION = "CSE_SUBMISSION"
"""A variable of the driver's environment with a JSON file, which has the key `submission`."""
ORDER_FILE = "order.json"
"""A file in the job's folder: what to run, and what the head needs for it."""
LACKS = "the head lacks: "
"""Prefix of the line that names missing packages, for the submitter to send them too."""
EXIT_LACKS = 3
BEGUN, ENDED = "has begun", "has ended"
"""Ends of the job's lines that tell whether a driver has the sweep now."""


def read_submission(what: str) -> dict[str, str]:
    """Read the submitter's `provenance` or `diffs`; {} for a sweep that was not submitted."""
    file = os.environ.get(SUBMISSION)
    if file is None:
        return {}
    facts: dict[str, str] = json.loads(Path(file).read_text())["submission"][what]
    return facts
