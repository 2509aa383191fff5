"""MLflow's limits: names, texts and times in the form that it takes."""

import json
import posixpath
import re
from datetime import datetime
from typing import Any

from cse_platform.secrets import mask_text, mask_values

NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 8000
"""In characters; longer text is cut and ends in an ellipsis."""


def milliseconds(time: datetime) -> int:
    """Milliseconds since 1970, as MLflow keeps time."""
    return round(time.timestamp() * 1000)


def text(value: Any, *, limit: int) -> str:
    """A string as it is, anything else as canonical JSON; without secrets, cut to `limit`."""
    if isinstance(value, str):
        value = mask_text(value)
    else:
        kept, short = mask_values(value), (",", ":")
        value = json.dumps(kept, sort_keys=True, separators=short, ensure_ascii=False)
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def clean_name(name: str) -> str:
    """The name in the characters, the path form and the length that MLflow takes."""
    path = posixpath.normpath(re.sub(r"[^\w\-./ :]", "_", name, flags=re.ASCII)).lstrip("/.")
    return path[:NAME_LENGTH] or "_"
