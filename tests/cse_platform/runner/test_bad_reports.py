"""What a worker sends that is no report: it fails its trial, and the sweep goes on."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bad
import pytest

from cse_platform.runner.failures import failure_from_report, report_of
from cse_platform.runner.requests import Requests
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.runner.tune import Hooks
from cse_platform.sweep.spec import SweepSpec

GOOD = {"step": 2, "dev/stsb_spearman": 0.5}
SENT = {
    **{way: {**GOOD, **metrics} for way, metrics in bad.METRICS.items() if way != "mapping"},
    **{way: {**GOOD, "step": step} for way, step in bad.STEPS.items()},
}
"""By way, what Ray hands on; it flattens mappings."""


@pytest.fixture
def heard(
    tmp_path: Path, new_drive: Callable[..., Any], new_spec: Callable[..., SweepSpec]
) -> tuple[Any, Hooks, Any]:
    """A sweep of one trial that runs, what Ray calls with its results, and Ray's trial."""
    drive = new_drive(tmp_path, new_spec(search={"trials": 1}))
    (plan,) = drive.start()
    requests = Requests(drive.state.leaderboard, drive.spec.sweep)
    outputs = TrialOutputs(drive.folder, str(tmp_path / "ray"))
    hooks = Hooks(drive.planner, drive.results, requests, outputs)
    hooks.keys["ray's"] = plan.key
    return drive, hooks, SimpleNamespace(trial_id="ray's", storage=None)


@pytest.mark.parametrize("way", SENT)
def test_a_malformed_report_ends_its_trial(heard: tuple[Any, Hooks, Any], way: str) -> None:
    drive, hooks, ray_trial = heard
    assert hooks.scheduler.on_trial_result(None, ray_trial, SENT[way]) == "STOP"
    hooks.scheduler.on_trial_complete(None, ray_trial, {})
    assert hooks.broken is None
    (trial,) = drive.history.trials.values()
    assert (trial.state, trial.curve) == ("FAIL", {})
    drive.close()  # the stores take it


@pytest.mark.parametrize(
    "sent", [{"failure": {"said": 1}}, {"failure/x": 1}, {"waits": [1]}, {"output/text": 1}]
)
def test_what_only_looks_like_a_word_of_the_worker_ends_nothing(
    heard: tuple[Any, Hooks, Any], sent: dict[str, Any]
) -> None:
    _, hooks, ray_trial = heard
    assert hooks.scheduler.on_trial_result(None, ray_trial, sent) == "CONTINUE"
    ray_trial.error_file, ray_trial.run_metadata = None, SimpleNamespace()
    hooks.scheduler.on_trial_error(None, ray_trial)
    assert hooks.broken is None


@pytest.mark.parametrize("error", bad.RAISED.values(), ids=bad.RAISED)
def test_whatever_a_method_raises_is_told_in_a_line(
    heard: tuple[Any, Hooks, Any], error: BaseException
) -> None:
    drive, _, _ = heard
    failure = failure_from_report(report_of(error), drive.state.method)
    assert failure.end == "error" and failure.said
    drive.results.record_failure(next(iter(drive.history.trials)), failure)
    (trial,) = drive.history.trials.values()
    assert (trial.state, trial.error) == ("FAIL", failure.said)
