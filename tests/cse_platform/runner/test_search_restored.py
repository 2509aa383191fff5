"""A search store that is lost, or an older copy, is filled again; another journal's is refused."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
from in_process import NewDrive, NewSpec
from search_studies import alone, asked, lived, opened, tell_live

from cse_platform.errors import SweepRefusedError
from cse_platform.tracking.events import FailureCause, SweepRequested

SPACE: dict[str, Any] = {
    "temperature": {"low": 0.01, "high": 1.0, "log": True},
    "kind": ["a", "b"],
    "depth": {"low": 1, "high": 9, "when": {"kind": "b"}},
}
TRIALS, LOST_AT, COPIED_AT = 8, 6, 3
SAMPLERS: list[Any] = [
    "random",
    "qmc",
    {"kind": "tpe", "startup_trials": 3},
    {"kind": "gp", "startup_trials": 3},
    {"kind": "cmaes", "population": 4},
]


def _go_on(drive: Any, trials: int) -> None:
    """Run one trial after the other until there are so many; the third fails."""
    while len(drive.history.trials) < trials:
        (plan,) = drive.start()
        if plan.number == 2:
            drive.report(plan.key, 0)
            drive.fail(plan.key, "boom", crashed=False)
        while plan.key in drive.running:
            drive.advance(plan.key)


def _told(study: optuna.Study) -> list[Mapping[str, Any]]:
    return [
        {
            "state": t.state, "values": t.values, "params": t.params, "user": t.user_attrs,
            "distributions": t.distributions, "steps": t.intermediate_values,
            "constraints": t.constraints, "queued": t.system_attrs.get("fixed_params"),
        }
        for t in study.trials
    ]  # fmt: skip


@pytest.mark.parametrize("lost", ["all of it", pytest.param("what is new", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sampler",
    [
        {"kind": "nsgaii", "population": 3},
        *(pytest.param(sampler, marks=pytest.mark.slow) for sampler in SAMPLERS),
    ],
    ids=str,
)
def test_a_search_goes_on_as_if_its_store_had_not_been_lost(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, sampler: Any, lost: str
) -> None:
    search = {"sampler": sampler, "trials": TRIALS, "start_from": [{"kind": "b"}]}
    if "cmaes" not in str(sampler):  # which knows none
        search["constraints"] = ["dev >= 0.3"]
    spec = new_spec(space=SPACE, search=search)
    undisturbed = new_drive(tmp_path / "whole", spec)
    _go_on(undisturbed, TRIALS)

    folder = tmp_path / "lost"
    for until in (COPIED_AT, LOST_AT):
        drive = new_drive(folder, spec)
        _go_on(drive, until)
        drive.state.search.close_store()
        drive.close()
        if until == COPIED_AT:
            shutil.copy(folder / "search.db", tmp_path / "copy.db")
    before = drive.study().trials
    (folder / "search.db").unlink()
    if lost == "what is new":
        shutil.copy(tmp_path / "copy.db", folder / "search.db")
    drive = new_drive(folder, spec)
    for there, was in zip(drive.study().trials, before, strict=True):
        assert there.datetime_start is not None and was.datetime_start is not None
        assert abs(there.datetime_start - was.datetime_start).total_seconds() < 60
    _go_on(drive, TRIALS)
    drive.assert_sound()
    assert _told(drive.study()) == _told(undisturbed.study())


def test_what_was_tried_again_and_put_in_comes_back(tmp_path: Path, new_spec: NewSpec) -> None:
    """The journal's history has the second attempt alone under the trial's number."""
    spec, values = new_spec(), {"temperature": 0.5, "kind": "a"}
    request = SweepRequested(sweep="small", request="r", action="enqueue", who="me", values=values)
    failed, again = lived(0, [0.1], state="FAIL", cause="trial"), lived(0, [0.1, 0.5])
    for history in (failed, again):
        (trial,) = history.trials.values()
        trial.values, trial.searched = values, tuple(values)
    failed.apply(request)
    failed.attempts[2] = again.attempts[0]  # number 1 was proposed and never started
    study = opened(tmp_path, spec, history=failed)
    first, closed, second = alone(tmp_path).trials
    assert first.user_attrs == {"request": "r", "failure_cause": "trial"}
    assert (closed.state.name, closed.user_attrs) == ("FAIL", {"closed": "it was not started"})
    assert (second.state.name, second.user_attrs) == ("RUNNING", {"retry_of": 0})
    assert study.begin("r", values) == 0 and study.retry(0) == 2


@pytest.mark.slow
@pytest.mark.parametrize("cause", ["trial", "machine"])
def test_a_study_of_another_journal_is_refused(
    tmp_path: Path, new_spec: NewSpec, cause: FailureCause
) -> None:
    """Two leaderboards on one search store, or a folder of runs that was cleaned but for it."""
    first = opened(tmp_path, new_spec(), journal="first")
    asked(first, 1)
    tell_live(first, lived(0, [0.1], state="FAIL", cause=cause))
    with pytest.raises(SweepRefusedError, match=r"another journal.*--set sweep=NEWNAME"):
        opened(tmp_path, new_spec(), journal="second")
    assert asked(opened(tmp_path, new_spec(sweep="other"), journal="second"), 1)
    assert asked(opened(tmp_path, new_spec(), journal="first"), 1)
