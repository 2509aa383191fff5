"""A search store that is lost is filled again, one that is down made up for, another's refused."""

import shutil
import sqlite3
from collections.abc import Mapping
from typing import Any

import optuna
import pytest
from search_studies import alone, asked, lived, opened, tell_live

from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import SweepRequested
from cse_platform.tracking.history import History

SPACE: dict[str, Any] = {
    "temperature": {"low": 0.01, "high": 1.0, "log": True},
    "kind": ["a", "b"],
    "depth": {"low": 1, "high": 9, "when": {"kind": "b"}},
}
TRIALS, LOST_AT, COPIED_AT = 8, 6, 3
SAMPLERS: list[Any] = [{"kind": "tpe", "startup_trials": 3}, {"kind": "cmaes", "population": 4}]


def _go_on(drive: Any, trials: int) -> None:
    """Run one trial after the other until there are so many; the third fails."""
    while len(drive.history.trials) < trials:
        (plan,) = drive.start()
        if plan.number == 2:
            drive.report(plan.key, 0)
            drive.fail(plan.key, "boom", crashed=False)
        drive.finish(plan.key)


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
    start, tmp_path, new_spec, sampler, lost
) -> None:
    search = {"sampler": sampler, "trials": TRIALS, "start_from": [{"kind": "b"}]}
    if "cmaes" not in str(sampler):  # which knows none
        search["constraints"] = ["dev >= 0.3"]
    spec = new_spec(space=SPACE, search=search)
    undisturbed = start(spec, folder="whole")
    _go_on(undisturbed, TRIALS)

    folder = tmp_path / "lost"
    for until in (COPIED_AT, LOST_AT):
        drive = start(spec, folder=folder)
        _go_on(drive, until)
        drive.state.search.close_store()
        drive.close()
        if until == COPIED_AT:
            shutil.copy(folder / "search.db", tmp_path / "copy.db")
    before = drive.study().trials
    (folder / "search.db").unlink()
    if lost == "what is new":
        shutil.copy(tmp_path / "copy.db", folder / "search.db")
    drive = start(spec, folder=folder)
    for there, was in zip(drive.study().trials, before, strict=True):
        assert there.datetime_start is not None and was.datetime_start is not None
        assert abs(there.datetime_start - was.datetime_start).total_seconds() < 60
    _go_on(drive, TRIALS)
    drive.assert_sound()
    assert _told(drive.study()) == _told(undisturbed.study())


def test_what_was_tried_again_and_put_in_comes_back(tmp_path, new_spec) -> None:
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


def test_a_study_of_another_journal_is_refused(tmp_path, new_spec) -> None:
    """Two leaderboards on one search store, or a folder of runs that was cleaned but for it."""
    first = opened(tmp_path, new_spec(), journal="first")
    asked(first, 1)
    tell_live(first, lived(0, [0.1], state="FAIL", cause="machine"))
    with pytest.raises(SweepRefusedError, match=r"another journal.*--set sweep=NEWNAME"):
        opened(tmp_path, new_spec(), journal="second")
    assert asked(opened(tmp_path, new_spec(sweep="other"), journal="second"), 1)
    assert asked(opened(tmp_path, new_spec(), journal="first"), 1)


def test_a_study_whose_best_encoders_were_moved_is_made_anew(tmp_path, new_spec) -> None:
    """Optuna refuses other choices, and those of the copy lie in another folder."""

    def in_folder(runs: str) -> tuple[SweepSpec, History]:
        history = lived(0, [0.1, 0.5], state="COMPLETE")
        (trial,) = history.trials.values()
        trial.values, trial.searched = {"kind": f"{runs}/best"}, ("kind",)
        return new_spec(space={"kind": [f"{runs}/best", "mini"]}), history

    spec, history = in_folder("original")
    first = opened(tmp_path, spec, {"kind": "original/best"})
    asked(first, 2)
    tell_live(first, history)
    spec, history = in_folder("copy")
    with pytest.raises(SweepRefusedError, match=r"has other choices.*--set sweep=NEWNAME"):
        opened(tmp_path, spec, history=history, runs=tmp_path / "copy")  # a shared store
    assert len(alone(tmp_path).trials) == 2
    copy = opened(tmp_path, spec, {"kind": "copy/best"}, history=history)
    copy.reconcile(history)
    assert {point["kind"] for point in asked(copy, 4)} == {"copy/best", "mini"}
    done, *_ = alone(tmp_path).trials
    assert (done.params, done.value) == ({"kind": "copy/best"}, 0.5)


def test_a_store_that_is_down_stops_new_trials_and_is_made_up_for(start, tmp_path, caplog) -> None:
    """The running trial ends meanwhile, and the sweep does not before the store is back."""
    drive = start(search={"trials": 2}, capacity=2)
    drive.start()
    away = tmp_path / "away.db"
    drive.state.search.study._storage._backend.engine.dispose()
    with sqlite3.connect(tmp_path / "search.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.move(tmp_path / "search.db", away)
    (tmp_path / "search.db").mkdir()
    drive.run_until_idle()
    assert [t.state for t in drive.trials] == ["COMPLETE", "COMPLETE"]
    assert not drive.state.finished
    assert "unable to open database file" in drive.state.search_error
    assert sum("no new trials until it is back" in text for text in caplog.messages) == 1
    (tmp_path / "search.db").rmdir()
    shutil.move(away, tmp_path / "search.db")
    drive.run()
    assert drive.state.search_error is None
    assert "the search store is back" in caplog.messages
    drive.assert_sound()
