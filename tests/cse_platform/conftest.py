import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from board_contents import *  # noqa: F403
from clean_runs import *  # noqa: F403
from hook_server import *  # noqa: F403
from paper_trials import *  # noqa: F403
from sweep_events import *  # noqa: F403

from cse_platform.tracking.events import Event, TrialReused


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code in a Python of its own, which ends well unless `check` is false."""

    def run(code: str, *words: str, check: bool = True, **how: Any) -> Any:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def trial_reused() -> Callable[..., TrialReused]:
    """Makes the event by which a sweep takes over a complete trial, from the trial's own events."""

    def make(life: list[Event], sweep: str, **changes: Any) -> TrialReused:
        start, *points, end = life
        asked = start.model_dump(include={*TrialReused.model_fields} - {"kind", "time"})
        found = end.model_dump(include={"best_step", "best_value", "best_metrics", "model"})
        curve = {point.step: point.value for point in points}
        other = {"reused_from": start.sweep, "started": start.time, "finished": end.time}
        fields = {**asked, **found, **other, "curve": curve, "sweep": sweep, **changes}
        return TrialReused.model_validate(fields)

    return make
