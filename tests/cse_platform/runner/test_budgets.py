"""What ends a search beside the number of its trials: time, GPU-hours, improvement."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec

from cse_platform.forecast.time_left import Pace
from cse_platform.leaderboard.statistics.searches import LEAST_TRIALS
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.sweeps import sweep_overview
from cse_platform.runner.planner import gpu_seconds, spent_budget, trials_left
from cse_platform.runner.requests import act_on
from cse_platform.sweep.blocks import Budget
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import Event, SweepRequested, TrialFinished, TrialStarted
from cse_platform.tracking.history import SearchEffort
from cse_platform.tracking.journal import read_journal

Life = Callable[..., list[Event]]

AT_ONCE = {"time": 1e-9}
"""Spent as soon as a trial has run."""
NEVER = {"time": "100d"}
CONFIRM = {"confirm": {"top": 1, "seeds": [0, 1]}}


def roles(drive: Any) -> list[str]:
    return [trial.role for trial in drive.history.trials.values()]


def limited(new_spec: NewSpec, budget: Mapping[str, Any], **changes: Any) -> SweepSpec:
    return new_spec(search={"trials": None, "budget": budget}, **changes)


def test_time_ends_the_search_and_further_seeds_follow(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """What runs comes to its end: with two at once there are two."""
    drive = new_drive(tmp_path, limited(new_spec, AT_ONCE, seeds=CONFIRM), capacity=2)
    drive.run()
    drive.assert_sound()
    assert roles(drive) == ["search", "search", "confirm", "confirm"] or roles(drive) == [
        "search",
        "confirm",
        "confirm",
    ]
    assert drive.history.spent == "1e-09s of trials"
    drive.close()
    kinds = [event.kind for _, event in read_journal(tmp_path / "journal.jsonl")]
    assert kinds.count("search_ended") == 1
    with (
        open_store(f"sqlite:///{tmp_path / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        assert sweep_overview(session, "small").ended_by == drive.history.spent


def test_trials_end_it_where_they_come_first(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(search={"trials": 2, "budget": NEVER}))
    drive.run()
    assert (roles(drive), drive.history.spent) == (["search"] * 2, None)
    assert drive.state.planned == 2


def test_a_search_stays_ended_after_a_restart_and_a_larger_budget_goes_on(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path, limited(new_spec, AT_ONCE))
    first.run()
    first.close()
    again = new_drive(tmp_path, limited(new_spec, AT_ONCE))
    assert (again.start(), again.state.finished) == ([], True)
    again.close()
    more = new_spec(search={"trials": 4, "budget": NEVER})
    drive = new_drive(tmp_path, more)
    assert drive.history.spent is None
    drive.run()
    assert roles(drive) == ["search"] * 4
    drive.close()
    with (
        open_store(f"sqlite:///{tmp_path / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        assert sweep_overview(session, "small").ended_by is None


def test_what_a_person_puts_in_runs_although_the_budget_is_spent(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, limited(new_spec, AT_ONCE))
    drive.run()
    request = SweepRequested(
        sweep="small", request="r", action="enqueue", who="ann", values={"temperature": 0.5}
    )
    act_on(drive.state, request, stop_trial=lambda key: None)
    drive.run()
    assert [one.values["temperature"] for one in drive.history.trials.values()][1:] == [0.5]


def test_improvement_ends_the_search(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """All trials are alike, so that none adds anything."""
    drive = new_drive(
        tmp_path, limited(new_spec, {"improvement": 0.001}), score=lambda values, seed, step: 0.5
    )
    drive.run()
    assert roles(drive) == ["search"] * LEAST_TRIALS  # none is repeated unless `seeds` says so
    assert "adds 0 points, fewer than 0.1" in drive.history.spent


@pytest.mark.slow
def test_the_improvement_is_one_of_feasible_trials(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    budget = {"budget": {"improvement": 0.001}, "trials": LEAST_TRIALS + 1}
    spec = new_spec(search={**budget, "constraints": ["stsb <= 0.4"]})
    drive = new_drive(tmp_path, spec, score=lambda values, seed, step: 0.5)
    drive.run()
    assert (len(roles(drive)), drive.history.spent) == (LEAST_TRIALS + 1, None)


def test_gpu_hours_count_what_has_ended_and_what_runs(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = limited(new_spec, {"gpu_hours": 1.0}, resources={"gpu": 0.5})
    drive = new_drive(tmp_path, spec)
    (plan,) = drive.start()
    begun = drive.history.trials[plan.key].last_heard
    assert gpu_seconds(drive.state, begun + timedelta(hours=1)) == pytest.approx(1800)
    assert spent_budget(drive.state, now=begun + timedelta(hours=1)) is None
    assert spent_budget(drive.state, now=begun + timedelta(hours=2)) == "1 GPU-hours"
    # A trial takes half an hour of half a GPU; the running one has just begun.
    left = trials_left(drive.state, seconds=1800, at_once=1)
    assert left == pytest.approx(4, abs=0.1)


def test_time_is_that_in_which_the_search_runs(trial_life: Life, sweep_started: Any) -> None:
    """Neither further seeds nor what lies between two starts counts, nor an event told twice."""
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float, event: Event) -> Event:
        return event.model_copy(update={"time": start + timedelta(seconds=seconds)})

    def ends(number: int, **changes: Any) -> tuple[Event, Event]:
        life = trial_life(number, {0: 0.3}, **changes)
        first = next(event for event in life if isinstance(event, TrialStarted))
        last = next(event for event in life if isinstance(event, TrialFinished))
        return first, last.model_copy(update={"wall_seconds": 10.0, "gpus": 0.5})

    one, two, further = ends(0), ends(1), ends(2, role="confirm")
    effort = SearchEffort()
    for event in (
        at(0, sweep_started()),
        at(5, one[0]),
        at(10, two[0]),
        at(20, one[1]),
        at(20, one[1]),
        at(100, sweep_started()),  # killed at 20
        at(110, two[0]),
        at(115, further[0]),
        at(130, two[1]),
        at(500, further[1]),
    ):
        effort.apply(event)
    assert effort.seconds(start + timedelta(seconds=900)) == (20 - 5) + (130 - 110)
    assert effort.gpu_seconds == 10.0


def test_trials_within_a_budget() -> None:
    pace = Pace(10.0, at_once=2, gpu=0.5)
    for budget, count, trials in (
        (None, 7, 7),
        ({"time": 100}, None, 20),
        ({"time": 100}, 7, 7),
        ({"gpu_hours": 1}, None, 720),
        ({"time": 100, "gpu_hours": 0.01}, None, 7.2),
        ({"improvement": 0.1}, None, None),
    ):
        known = None if budget is None else Budget.model_validate(budget)
        found = pace.trials_within(known, count=count)
        assert found == (trials and pytest.approx(trials)), budget
