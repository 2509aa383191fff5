"""Asks a process of its own for a step of each configuration on the packaged encoder.

The process that asks need not import the library.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cse_methods.errors import TrainingError

WIDTH = 192
"""Of the vectors of `mini`, the packaged encoder."""
_STEP = f"{__package__}.trial_step"
"""The module that is run."""


def ask_for_steps(configs: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Find out for each configuration what the library says against a step; None if nothing.

    Args:
        configs: all settings, as JSON values; those that name an encoder and those that depend on
            its width are replaced to fit the packaged one.

    Raises:
        TrainingError: if the library cannot be tried.
    """
    tried = subprocess.run(
        [sys.executable, "-m", _STEP],
        input=json.dumps([_fit_to_packaged_encoder(config) for config in configs]),
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        reason = (tried.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise TrainingError(f"sentence-transformers cannot be tried: {reason}")
    answers: list[str | None] = json.loads(tried.stdout.splitlines()[-1])
    return answers


def _fit_to_packaged_encoder(config: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: "mini" for name in ("guide", "teacher") if config[name]}
    fitted = {**config, **others, "backbone": "mini", "max_length": 32}
    if widths := config["matryoshka"]:
        fitted["matryoshka"] = [WIDTH - number for number in range(len(widths))]
    return fitted
