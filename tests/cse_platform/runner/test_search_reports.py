"""What the study is told, what its pruner decides, and what an outage leaves of both."""

import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from optuna.storages._rdb.models import TrialIntermediateValueModel
from search_studies import alone, asked, lived, opened, tell_live
from sqlalchemy import event

from cse_platform.errors import StoreError, StoreLostError
from cse_platform.search import proposals
from cse_platform.search.study import SearchStudy
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History

NewSpec = Callable[..., SweepSpec]


def test_optuna_alone_sees_the_truth(tmp_path: Path, new_spec: NewSpec) -> None:
    search = opened(tmp_path, new_spec())
    asked(search, 4)
    tell_live(search, lived(0, [0.1, 0.6, 0.4], state="COMPLETE"))
    tell_live(search, lived(1, [0.1, 0.3], state="PRUNED"))
    tell_live(search, lived(2, [math.nan, math.nan], state="FAIL"))
    search.close(3, why="the budget was spent")
    complete, pruned, failed, closed = alone(tmp_path).get_trials()
    assert [t.state.name for t in (complete, pruned, failed, closed)] == [
        "COMPLETE", "PRUNED", "FAIL", "FAIL",
    ]  # fmt: skip
    assert complete.value == 0.6  # the best, not the last
    assert complete.intermediate_values == {1: 0.6, 2: 0.6}  # what would have been kept
    assert pruned.intermediate_values == {1: 0.3}
    assert failed.value is None and math.isnan(failed.intermediate_values[1])
    assert closed.user_attrs == {"closed": "the budget was spent"}


@pytest.mark.parametrize(
    ("pruner", "stopped_at"),
    [
        ({"kind": "none"}, None),
        # Below the median of two at its first look, which is at step 2.
        ({"kind": "median", "startup_trials": 2, "min_step": 2}, 2),
        # Not in the best half.
        ({"kind": "percentile", "percentile": 50.0, "startup_trials": 2, "min_step": 2}, 2),
        ({"kind": "threshold", "lower": 0.3, "min_step": 2}, 2),
        # No higher at step 3 than at step 1.
        ({"kind": "patient", "patience": 2}, 3),
        ({"kind": "patient", "patience": 2, "min_step": 4}, 4),
        ({"kind": "patient", "patience": 2, "pruner": {"kind": "threshold", "lower": 0.1}}, None),
        # One of two passes a rung: rungs at 1, 2, 4, and it is the worst of three at the first.
        ({"kind": "successive_halving", "min_step": 1, "reduction_factor": 2}, 1),
        # One bracket, which is a successive halving from step 2.
        ({"kind": "hyperband", "min_step": 2, "max_step": 3, "reduction_factor": 2}, 2),
    ],
)
def test_pruners_stop_the_worst(
    tmp_path: Path, new_spec: NewSpec, pruner: dict[str, Any], stopped_at: int | None
) -> None:
    search = opened(tmp_path, new_spec(pruner=pruner))
    asked(search, 3)
    for number, level in enumerate((0.7, 0.8)):
        curve = [0.1, *(level + 0.01 * step for step in range(4))]
        verdicts = tell_live(search, lived(number, curve, state="COMPLETE"))
        assert number == 0 or not any(verdicts)
    verdicts = tell_live(search, lived(2, [0.9, *[0.2] * 4]))
    assert verdicts.index(True) == stopped_at if stopped_at else not any(verdicts)


@pytest.mark.parametrize(
    "pruner",
    [
        {"kind": "median", "startup_trials": 2},
        {"kind": "successive_halving", "reduction_factor": 2},
        {"kind": "hyperband", "max_step": 3, "reduction_factor": 2},
    ],
)
def test_where_training_lowers_the_score_the_worst_are_stopped(
    tmp_path: Path, new_spec: NewSpec, pruner: dict[str, Any]
) -> None:
    """Step 0 is the highest point of every curve, and says nothing about what was trained."""
    search = opened(tmp_path, new_spec(pruner=pruner))
    asked(search, 3)
    for number, level in enumerate((0.5, 0.4)):
        tell_live(search, lived(number, [0.6, level, level, level], state="COMPLETE"))
    assert any(tell_live(search, lived(2, [0.6, 0.1, 0.1, 0.1])))


def test_a_fall_after_the_peak_stops_nothing(tmp_path: Path, new_spec: NewSpec) -> None:
    """The best checkpoint is kept: a trial is no worse for what comes after it."""
    search = opened(tmp_path, new_spec(pruner={"kind": "successive_halving", "min_step": 2}))
    asked(search, 5)
    for number in range(4):
        tell_live(search, lived(number, [0.1, 0.5, 0.5, 0.5], state="COMPLETE"))
    assert not any(tell_live(search, lived(4, [0.1, 0.6, 0.2, 0.2])))


def test_a_study_of_an_older_version_goes_on(tmp_path: Path, new_spec: NewSpec) -> None:
    """It has the raw curves, with step 0; those of running trials are not taken for trained."""
    search = opened(tmp_path, new_spec(pruner={"kind": "median", "startup_trials": 1}))
    asked(search, 2)
    tell_live(search, lived(0, [0.6, 0.5, 0.4], state="COMPLETE"))
    old = alone(tmp_path)
    for step, value in enumerate((0.6, 0.2)):
        old._storage.set_trial_intermediate_value(old.trials[1]._trial_id, step, value)
    again = opened(tmp_path, search.spec)
    again.reconcile(lived(1, [0.6, 0.2]))
    assert again.report(lived(1, [0.6, 0.2, 0.1]).trials["t1"], step=2) is True
    assert alone(tmp_path).trials[1].intermediate_values == {0: 0.6, 1: 0.2, 2: 0.2}


def test_further_seeds_are_none_of_the_study(tmp_path: Path, new_spec: NewSpec) -> None:
    """A repeat closes its own proposal, with the reason, and reports nothing."""
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    history = lived(0, [0.1, 0.5], state="COMPLETE", role="repeat")
    search.reconcile(history)
    search.reconcile(history)
    tell_live(search, history)
    (trial,) = alone(tmp_path).get_trials()
    assert (trial.state.name, trial.intermediate_values) == ("FAIL", {})
    assert trial.user_attrs == {"closed": "proposed before; run with seed 43 instead"}


@pytest.mark.parametrize("heard", [0, 2])
def test_what_the_study_missed_is_told_once(tmp_path: Path, new_spec: NewSpec, heard: int) -> None:
    """The journal knows more: after a kill, or after an outage in the middle of a curve."""
    history = lived(0, [0.1, 0.6, 0.4], state="COMPLETE")
    (trial,) = history.trials.values()
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    for step in range(heard):
        search.report(trial, step=step)
    again = opened(tmp_path, new_spec())
    again.reconcile(history)
    again.reconcile(history)
    (there,) = alone(tmp_path).get_trials()
    assert (there.state.name, there.value) == ("COMPLETE", 0.6)
    assert there.intermediate_values == {1: 0.6, 2: 0.6}


def test_a_point_is_told_once_and_never_to_a_trial_that_has_ended(
    tmp_path: Path, new_spec: NewSpec, recwarn: pytest.WarningsRecorder
) -> None:
    """A power cut can take the journal's last events, and leave the study's."""
    history = lived(0, [0.1, 0.6], state="COMPLETE")
    (trial,) = history.trials.values()
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    assert [search.report(trial, step=step) for step in (0, 1, 1)] == [False] * 3
    search.tell(trial)
    trial.kept[2] = 0.7
    assert search.report(trial, step=2) is False
    search.tell(trial)
    assert alone(tmp_path).get_trials()[0].intermediate_values == {1: 0.6}
    assert [str(w.message) for w in recwarn if "already" in str(w.message)] == []


@pytest.mark.parametrize("pruner", ["none", "patient"])
def test_a_point_costs_no_more_where_there_are_many(
    tmp_path: Path, new_spec: NewSpec, pruner: str
) -> None:
    """What was reported before is not read again: no more than the trial, once."""
    search = opened(tmp_path, new_spec(pruner=pruner))
    asked(search, 1)
    (trial,) = lived(0, [0.5] * 101).trials.values()
    read: list[object] = []

    def note(point: object, _context: object) -> None:
        read.append(point)

    event.listen(TrialIntermediateValueModel, "load", note)
    try:
        for step in trial.curve:
            search.report(trial, step=step)
    finally:
        event.remove(TrialIntermediateValueModel, "load", note)
    assert len(alone(tmp_path).trials[0].intermediate_values) == 100
    assert len(read) <= 100  # each point with all before it would be 5,000


@pytest.mark.parametrize("points", [(), ({"temperature": 0.5},)])
def test_a_trial_that_the_store_has_lost_comes_back(
    tmp_path: Path, new_spec: NewSpec, points: tuple[dict[str, Any], ...]
) -> None:
    """Also where a start point waits under the number of the lost trial."""
    search = opened(tmp_path, new_spec(), *points)
    search.reconcile(lived(0, [0.5, 0.6], state="COMPLETE"))
    (trial,) = alone(tmp_path).trials
    assert (trial.state.name, trial.value, trial.intermediate_values) == ("COMPLETE", 0.6, {1: 0.6})


def test_a_store_that_loses_a_trial_or_the_study_is_refused(
    tmp_path: Path, new_spec: NewSpec
) -> None:
    """Also a running trial that Optuna's cache still has."""
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    search.running()
    (trial,) = lived(0, [0.1, 0.5], state="COMPLETE").trials.values()
    with closing(sqlite3.connect(tmp_path / "search.db")) as store, store:
        store.execute("DELETE FROM trials")
    with pytest.raises(StoreLostError, match="has lost trial 0 of sweep 'small'"):
        search.report(trial, step=1)
    with pytest.raises(StoreLostError, match="has lost trial 0 of sweep 'small'"):
        search.tell(trial)
    with closing(sqlite3.connect(tmp_path / "search.db")) as store, store:
        store.execute("DELETE FROM studies")
    with pytest.raises(StoreLostError, match="has lost the study of sweep 'small'"):
        search.ask()


def test_a_key_error_of_our_own_is_no_lost_trial(
    tmp_path: Path, new_spec: NewSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise KeyError("a defect")

    search = opened(tmp_path, new_spec())
    monkeypatch.setattr(proposals, "build_sampler", broken)
    with pytest.raises(KeyError, match="a defect"):
        search.ask()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://lab:secret@127.0.0.1:1/none",
        "postgresql+psycopg://lab:secret@host:port/none",
        "oracle+nodriver://lab:secret@host/none",
        "lab:secret@host",
        "sqlite:////no/such/folder/search.db",
    ],
)
def test_a_wrong_url_is_a_store_error_without_password(new_spec: NewSpec, url: str) -> None:
    with pytest.raises(StoreError, match=r"^search store ") as caught:
        SearchStudy(new_spec(), url=url, start_points=(), journal="j", history=History())
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_store_that_goes_down_is_a_store_error_until_it_is_back(
    tmp_path: Path, new_spec: NewSpec
) -> None:
    url = f"sqlite:///{tmp_path / 'search.db'}?timeout=0.05"
    search = SearchStudy(new_spec(), url=url, start_points=(), journal="j", history=History())
    asked(search, 1)
    (trial,) = lived(0, [0.1, 0.5]).trials.values()
    with sqlite3.connect(tmp_path / "search.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"search store sqlite.*database is locked"):
            search.report(trial, step=1)
    other.close()
    assert search.report(trial, step=1) is False
    assert alone(tmp_path).get_trials()[0].intermediate_values == {1: 0.5}


def test_a_store_that_became_a_folder_is_a_store_error(tmp_path: Path, new_spec: NewSpec) -> None:
    (tmp_path / "search.db").mkdir()
    with pytest.raises(StoreError, match="unable to open database file"):
        opened(tmp_path, new_spec())
    shutil.rmtree(tmp_path / "search.db")
    assert opened(tmp_path, new_spec()).running() == []
