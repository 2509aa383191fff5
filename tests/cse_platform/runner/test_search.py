"""The study: what is asked, what is told, and what an interruption or an outage leaves of both."""

import math
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest

from cse_platform.errors import StoreError
from cse_platform.search import study as study_module
from cse_platform.search.distributions import suggest
from cse_platform.search.study import SearchStudy, preview
from cse_platform.sweep.space.dimensions import Dimension
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted, TrialState
from cse_platform.tracking.history import History

NewSpec = Callable[..., SweepSpec]

MIXED: dict[str, Any] = {
    "depth": {"low": 1, "high": 64, "when": {"kind": "b"}},
    "kind": ["a", "b"],
    "temperature": {"low": 0.1, "high": 0.9, "step": 0.1},
    "parts": [["x"], ["x", "y"]],
    "extra": [{"p": 0.5, "q": 1.0}, {}],
}


def opened(folder: Path, spec: SweepSpec, *points: dict[str, Any]) -> SearchStudy:
    return SearchStudy(spec, url=f"sqlite:///{folder / 'search.db'}", start_points=points)


def asked(search: SearchStudy, count: int) -> list[dict[str, Any]]:
    return [search.ask().assignment for _ in range(count)]


def alone(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="small", storage=f"sqlite:///{folder / 'search.db'}")


def lived(
    number: int,
    curve: Sequence[float],
    *,
    state: TrialState | None = None,
    role: str = "search",
) -> History:
    """A history of one trial that reported at steps 0, 1, 2, …"""
    key = f"t{number}"
    events: list[Any] = [
        TrialStarted.model_validate({
            "sweep": "small", "trial": key, "number": number, "role": role,
            "search_number": number, "seed": 43, "method": "cheap", "revision": 1,
            "backbone": "mini", "configuration": f"c{number}", "values": {}, "searched": (),
            "dev": {},
        }),
        *(
            TrialPoint(
                sweep="small", trial=key, step=step, value=value,
                metrics={"dev/stsb_spearman": value},
            )
            for step, value in enumerate(curve)
        ),
    ]  # fmt: skip
    if state is not None:
        best = max((v for v in curve if not math.isnan(v)), default=None)
        events.append(
            TrialFinished(
                sweep="small", trial=key, state=state, best_value=best,
                best_step=None if best is None else list(curve).index(best),
            )
        )  # fmt: skip
    return History(events)


def told(search: SearchStudy, history: History) -> list[bool]:
    """Tell it live, as it happened; the pruner's verdicts."""
    (trial,) = history.trials.values()
    verdicts = [search.report(trial, step=step) for step in trial.curve]
    if trial.state != "RUNNING":
        search.tell(trial)
    return verdicts


def test_the_sequence_follows_from_seed_and_number(tmp_path: Path, new_spec: NewSpec) -> None:
    """Closed and opened between two asks, in another store, or only previewed: the same."""
    spec = new_spec(space=MIXED)
    (tmp_path / "other").mkdir()
    expected = asked(opened(tmp_path, spec), 4)
    again = opened(tmp_path / "other", spec)
    first = asked(again, 2)
    assert first + asked(opened(tmp_path / "other", spec), 2) == expected
    assert preview(spec, start_points=(), count=4) == expected
    assert len({str(one) for one in expected}) > 1
    elsewhere = new_spec(space=MIXED, search={"seed": 2})
    assert preview(elsewhere, start_points=(), count=4) != expected


def test_the_order_of_the_file_changes_nothing(new_spec: NewSpec) -> None:
    turned = dict(reversed(MIXED.items()))
    one, other = (preview(new_spec(space=s), start_points=(), count=5) for s in (MIXED, turned))
    assert one == other


@pytest.mark.parametrize("done", [0, 1, 3])
def test_an_ask_that_was_cut_off_is_completed_as_it_would_have_been(
    tmp_path: Path, new_spec: NewSpec, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Killed before the first value was drawn, or between two of them."""
    spec = new_spec(space=MIXED)
    drawn: list[str] = []

    def dying(trial: optuna.Trial, name: str, dimension: Dimension) -> Any:
        if len(drawn) == done:
            raise KeyboardInterrupt
        drawn.append(name)
        return suggest(trial, name, dimension)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(study_module, "suggest", dying)
        opened(tmp_path, spec).ask()
    again = opened(tmp_path, spec)
    assert again.running() == [0]
    assert len(alone(tmp_path).get_trials()[0].params) == done
    assert again.adopt(0).assignment == preview(spec, start_points=(), count=1)[0]


def test_values_come_back_as_the_file_has_them(new_spec: NewSpec) -> None:
    drawn = preview(new_spec(space=MIXED), start_points=(), count=30)
    for one in drawn:
        assert one["parts"] in (["x"], ["x", "y"])
        assert one["extra"] in ({"p": 0.5, "q": 1.0}, {})
        assert one["temperature"] in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
        assert ("depth" in one) == (one["kind"] == "b")
        assert isinstance(one.get("depth", 1), int)
    assert len({one["temperature"] for one in drawn}) > 4


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_start_points_come_first_and_once(tmp_path: Path, new_spec: NewSpec, sampler: str) -> None:
    spec = new_spec(space=MIXED, search={"sampler": sampler})
    full = {"kind": "b", "depth": 7, "temperature": 0.3, "parts": ["x", "y"], "extra": {}}
    points = (full, {"temperature": 0.7})
    first = opened(tmp_path, spec, *points).ask()
    assert (first.number, first.assignment) == (0, full)
    second, third = asked(opened(tmp_path, spec, *points), 2)
    assert second["temperature"] == 0.7
    assert third != full
    assert len(alone(tmp_path).get_trials()) == 3


def test_start_points_that_are_nearly_equal_are_all_tried(
    tmp_path: Path, new_spec: NewSpec
) -> None:
    points = ({"temperature": 0.5}, {"temperature": 0.500001})
    drawn = asked(opened(tmp_path, new_spec(), *points), 2)
    assert [one["temperature"] for one in drawn] == [0.5, 0.500001]


def test_a_grid_is_every_point_once(tmp_path: Path, new_spec: NewSpec) -> None:
    space = {
        "kind": ["a", "b"],
        "depth": {"low": 1, "high": 3, "when": {"kind": "b"}},
        "temperature": {"low": 0.1, "high": 0.3, "step": 0.1},
    }
    spec = new_spec(space=space, search={"sampler": "grid", "trials": None})
    start = {"kind": "b", "depth": 2}  # three points of the grid, and they come first
    drawn = asked(opened(tmp_path, spec, start), 5)
    drawn += asked(opened(tmp_path, spec, start), spec.budget - 5)
    assert spec.budget == 12
    assert sorted(map(str, drawn)) == sorted(map(str, spec.space.grid_points()))
    assert [one.get("depth") for one in drawn[:3]] == [2, 2, 2]


def test_optuna_alone_sees_the_truth(tmp_path: Path, new_spec: NewSpec) -> None:
    search = opened(tmp_path, new_spec())
    asked(search, 4)
    told(search, lived(0, [0.1, 0.6, 0.4], state="COMPLETE"))
    told(search, lived(1, [0.1, 0.3], state="PRUNED"))
    told(search, lived(2, [math.nan, math.nan], state="FAIL"))
    search.close(3, why="the budget was spent")
    complete, pruned, failed, closed = alone(tmp_path).get_trials()
    assert [t.state.name for t in (complete, pruned, failed, closed)] == [
        "COMPLETE", "PRUNED", "FAIL", "FAIL",
    ]  # fmt: skip
    assert complete.value == 0.6  # the best, not the last
    assert complete.intermediate_values == {0: 0.1, 1: 0.6, 2: 0.4}
    assert pruned.intermediate_values == {0: 0.1, 1: 0.3}
    assert failed.value is None and math.isnan(failed.intermediate_values[1])
    assert closed.user_attrs == {"closed": "the budget was spent"}


@pytest.mark.parametrize(
    ("pruner", "stopped_at"),
    [
        ({"kind": "none"}, None),
        # Below the median of two at its first look, which is at step 2.
        ({"kind": "median", "startup_trials": 2, "min_step": 2}, 2),
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
        verdicts = told(search, lived(number, [0.1, *[level] * 4], state="COMPLETE"))
        assert number == 0 or not any(verdicts)
    verdicts = told(search, lived(2, [0.1, *[0.2] * 4]))
    assert verdicts.index(True) == stopped_at if stopped_at else not any(verdicts)


def test_further_seeds_are_none_of_the_study(tmp_path: Path, new_spec: NewSpec) -> None:
    """A repeat closes its own proposal, with the reason, and reports nothing."""
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    history = lived(0, [0.1, 0.5], state="COMPLETE", role="repeat")
    search.reconcile(history)
    search.reconcile(history)
    told(search, history)
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
    assert there.intermediate_values == {0: 0.1, 1: 0.6, 2: 0.4}


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
    trial.curve[2] = 0.7
    assert search.report(trial, step=2) is False
    search.tell(trial)
    assert alone(tmp_path).get_trials()[0].intermediate_values == {0: 0.1, 1: 0.6}
    assert [str(w.message) for w in recwarn if "already" in str(w.message)] == []


@pytest.mark.parametrize("points", [(), ({"temperature": 0.5},)])
def test_a_store_that_lost_a_trial_is_refused(
    tmp_path: Path, new_spec: NewSpec, points: tuple[dict[str, Any], ...]
) -> None:
    """Also where a start point waits under the number of the lost trial."""
    search = opened(tmp_path, new_spec(), *points)
    with pytest.raises(StoreError, match=r"has lost trial 0 of sweep 'small'.*sweep=NEWNAME"):
        search.reconcile(lived(0, [0.5]))


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
        SearchStudy(new_spec(), url=url, start_points=())
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_store_that_goes_down_is_a_store_error_until_it_is_back(
    tmp_path: Path, new_spec: NewSpec
) -> None:
    url = f"sqlite:///{tmp_path / 'search.db'}?timeout=0.05"
    search = SearchStudy(new_spec(), url=url, start_points=())
    asked(search, 1)
    (trial,) = lived(0, [0.5]).trials.values()
    with sqlite3.connect(tmp_path / "search.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"search store sqlite.*database is locked"):
            search.report(trial, step=0)
    other.close()
    assert search.report(trial, step=0) is False
    assert alone(tmp_path).get_trials()[0].intermediate_values == {0: 0.5}


def test_a_store_that_became_a_folder_is_a_store_error(tmp_path: Path, new_spec: NewSpec) -> None:
    (tmp_path / "search.db").mkdir()
    with pytest.raises(StoreError, match="unable to open database file"):
        opened(tmp_path, new_spec())
    shutil.rmtree(tmp_path / "search.db")
    assert opened(tmp_path, new_spec()).running() == []
