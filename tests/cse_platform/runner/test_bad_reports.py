"""What a worker sends that is no report: it fails its trial, and the sweep goes on."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bad
import pytest
from in_process import NewDrive

from cse_platform.runner.failures import failure_from_report, report_of
from cse_platform.runner.requests import Requests
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.runner.tune import Hooks

GOOD = {"step": 2, "dev/stsb_spearman": 0.5}
SENT = {
    **{way: {**GOOD, **metrics} for way, metrics in bad.METRICS.items() if way != "mapping"},
    **{way: {**GOOD, "step": step} for way, step in bad.STEPS.items()},
}
"""By way, what Ray hands on; it flattens mappings."""


@pytest.fixture
def heard(start: NewDrive, tmp_path: Path) -> tuple[Any, Hooks]:
    """A sweep with room for many trials at once, and what Ray calls with their results."""
    search = {"trials": None, "budget": {"time": "100d"}, "give_up_after": 99}
    drive = start(search=search)
    requests = Requests(drive.state.leaderboard, drive.spec.sweep)
    outputs = TrialOutputs(drive.folder, str(tmp_path / "ray"))
    return drive, Hooks(drive.planner, drive.results, requests, outputs)


def started(drive: Any, hooks: Hooks) -> tuple[str, Any]:
    (plan,) = drive.start()
    hooks.keys[plan.key] = plan.key
    return plan.key, SimpleNamespace(
        trial_id=plan.key, storage=None, error_file=None, run_metadata=SimpleNamespace()
    )


def test_a_malformed_report_ends_its_trial_and_a_raised_error_is_told_in_a_line(heard) -> None:
    drive, hooks = heard
    wrong = []
    for way, sent in SENT.items():
        key, ray_trial = started(drive, hooks)
        answer = hooks.scheduler.on_trial_result(None, ray_trial, sent)
        hooks.scheduler.on_trial_complete(None, ray_trial, {})
        del drive.running[key]
        trial = drive.history.trials[key]
        if (answer, hooks.broken, trial.state, trial.curve) != ("STOP", None, "FAIL", {}):
            wrong.append(way)
    for way, error in bad.RAISED.items():
        key, _ = started(drive, hooks)
        failure = failure_from_report(report_of(error), drive.state.method)
        drive.results.record_failure(key, failure)
        del drive.running[key]
        trial = drive.history.trials[key]
        told = (failure.end, bool(failure.said), trial.state, trial.error)
        if told != ("error", True, "FAIL", failure.said):
            wrong.append(way)
    assert not wrong
    drive.close()  # the stores take it


def test_what_only_looks_like_a_word_of_the_worker_ends_nothing(heard) -> None:
    drive, hooks = heard
    _, ray_trial = started(drive, hooks)
    for sent in ({"failure": {"said": 1}}, {"failure/x": 1}, {"waits": [1]}, {"output/text": 1}):
        assert hooks.scheduler.on_trial_result(None, ray_trial, sent) == "CONTINUE"
        hooks.scheduler.on_trial_error(None, ray_trial)
        assert hooks.broken is None, sent
