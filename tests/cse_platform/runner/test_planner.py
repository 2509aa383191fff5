"""What runs next: the search within its budget, further seeds, and what other sweeps have."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec
from stored_trials import trials_of

from cse_methods.contract import Method
from cse_platform.leaderboard.store import open_store
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.tracking.events import TrialReused
from cse_platform.tracking.journal import read_journal

FOUR: dict[str, Any] = {"kind": ["a", "b"], "temperature": [0.1, 0.2]}


def by_temperature(values: Mapping[str, Any], seed: int, step: int) -> float:
    """Higher is better, a little later, and seeds differ by little."""
    return float(values["temperature"]) / 2 + step / 1000 + seed % 2 / 10_000


def roles(drive: Any) -> list[tuple[int, str, int]]:
    return [(t.number, t.role, t.seed) for t in drive.history.trials.values()]


def test_the_budget_is_spent_and_the_capacity_respected(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(), capacity=2)
    assert len(drive.start()) == 2
    assert drive.planner.next() is None
    drive.run()
    assert roles(drive) == [(0, "search", 42), (1, "search", 42), (2, "search", 42)]
    drive.assert_sound()


def test_a_larger_budget_extends_and_a_smaller_one_starts_nothing(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path, new_spec(search={"trials": 2}))
    first.run()
    first.close()
    second = new_drive(tmp_path, new_spec(search={"trials": 3}))
    second.run()
    second.close()
    undisturbed = new_drive(tmp_path / "other", new_spec(search={"trials": 3}))
    undisturbed.run()
    assert second.outcome() == undisturbed.outcome()
    third = new_drive(tmp_path, new_spec(search={"trials": 1}))
    assert third.start() == [] and third.state.finished


@pytest.mark.parametrize(
    "sampler",
    [
        "random",
        *(
            pytest.param(sampler, marks=pytest.mark.slow)
            for sampler in ("tpe", "gp", "cmaes", "qmc", "nsgaii", "nsgaiii")
        ),
    ],
)
def test_a_configuration_that_is_proposed_again_gets_another_seed(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, sampler: str
) -> None:
    """Also where the first driver ends after three of the trials."""
    search = {"sampler": sampler, "trials": 4}
    spec = new_spec(space={"kind": ["a", "b"]}, search=search)
    first = new_drive(tmp_path, spec)
    for _ in range(3):
        for plan in first.start():
            while plan.key in first.running:
                first.advance(plan.key)
    first.close()
    drive = new_drive(tmp_path, spec)
    drive.run()
    drive.assert_sound()
    repeats = [t for t in drive.history.trials.values() if t.role == "repeat"]
    assert len(drive.outcome()) == 4  # each (configuration, seed) once
    assert sorted(t.seed for t in repeats) == [43, 43] or [t.seed for t in repeats] == [43, 44]
    for trial in repeats:
        closed = drive.study().trials[trial.search_number]
        assert closed.state.name == "FAIL"
        assert closed.user_attrs["closed"] == f"proposed before; run with seed {trial.seed} instead"


def test_the_best_configurations_get_their_missing_seeds(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Seed 42 is there already; a configuration's value is the mean over its seeds."""
    spec = new_spec(
        space=FOUR,
        search={"sampler": "grid", "trials": None},
        seeds={"search": 42, "confirm": {"top": 2, "seeds": [42, 1, 2]}},
    )
    drive = new_drive(tmp_path, spec, score=by_temperature, capacity=2)
    drive.run()
    drive.assert_sound()
    further = [t for t in drive.history.trials.values() if t.role == "confirm"]
    tried = [(t.values["kind"], t.values["temperature"], t.seed) for t in further]
    assert sorted(tried) == [("a", 0.2, 1), ("a", 0.2, 2), ("b", 0.2, 1), ("b", 0.2, 2)]
    assert {t.search_number for t in further} == {None}
    assert {t.searched for t in further} == {("kind", "temperature")}


def test_nothing_is_confirmed_while_the_search_still_runs(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(seeds={"confirm": {"top": 1, "seeds": [0]}}, search={"trials": 2})
    drive = new_drive(tmp_path, spec, capacity=3)
    first, second = drive.start()
    while second.key in drive.running:
        drive.advance(second.key)
    assert drive.start() == []
    while first.key in drive.running:
        drive.advance(first.key)
    (further,) = drive.start()
    assert (further.role, further.seed) == ("confirm", 0)
    assert drive.planner.next() is None
    assert not drive.state.finished  # it may crash, and would have to go on


def test_a_choice_that_the_method_rewrites_is_confirmed_as_it_was(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """`depth` depends on a list; and what is inactive is not among the searched settings."""
    space = {
        "parts": [["x"], ["x", "y"]],
        "depth": {"low": 3, "high": 9, "when": {"parts": [["x", "y"]]}},
    }
    spec = new_spec(space=space, search={"trials": 3}, seeds={"confirm": {"top": 3, "seeds": [0]}})
    drive = new_drive(tmp_path, spec)
    drive.run()
    trials = drive.history.configurations()
    assert all({t.seed for t in same} >= {42, 0} for same in trials.values())
    for same in trials.values():
        for trial in same:
            assert ("depth" in trial.searched) == (len(trial.values["parts"]) == 2)


def test_what_another_sweep_has_completed_is_taken_over(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    seeds = {"confirm": {"top": 1, "seeds": [0]}}
    first = new_drive(tmp_path / "first", new_spec(seeds=seeds))
    first.run()
    first.close()
    again = new_spec(sweep="again", seeds=seeds)
    second = new_drive(tmp_path / "second", again, leaderboard=tmp_path / "first")
    assert second.start() == []
    assert second.state.finished
    assert second.outcome() == first.outcome()
    second.assert_sound()
    second.close()
    events = [event for _, event in read_journal(tmp_path / "second" / "journal.jsonl")]
    assert sum(isinstance(event, TrialReused) for event in events) == 4
    url = f"sqlite:///{tmp_path / 'first' / 'leaderboard.db'}"
    with open_store(url) as board, board.session() as session:
        mine, others = trials_of(session, "small"), trials_of(session, "again")
    assert [row.key for row in mine] == [row.key for row in others]
    assert [row.role for row in others] == ["search", "search", "search", "confirm"]


def test_a_trial_that_was_taken_over_stands_when_the_sweep_goes_on(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path / "first", new_spec(search={"trials": 2}))
    first.run()
    first.close()
    for trials in (1, 3):
        spec = new_spec(sweep="again", search={"trials": trials})
        second = new_drive(tmp_path / "second", spec, leaderboard=tmp_path / "first")
        second.run()
        second.assert_sound()
        second.close()
    assert len(second.outcome()) == 3
    assert sum(t.reused_from is None for t in second.history.trials.values()) == 1


def test_what_was_asked_for_and_is_not_needed_any_more_is_closed(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Killed between two asks' commits, then started with a smaller budget."""
    first = new_drive(tmp_path, new_spec())
    first.start()
    first.state.search.ask()
    first.close()
    second = new_drive(tmp_path, new_spec(search={"trials": 1}))
    second.run()
    second.assert_sound()
    assert second.study().trials[1].user_attrs == {"closed": "the budget was spent"}


def test_a_trial_that_means_something_else_now_is_closed(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, cheap: Method
) -> None:
    """Weights or data changed while the sweep ran, and a trial whose process died would go on."""
    spec = new_spec(search={"trials": 2})
    drive = new_drive(tmp_path, spec)
    (plan,) = drive.start()
    drive.report(plan.key, 0)
    drive.state.identity = Identity(spec, cheap, DevData(spec))
    drive.state.identity.corpus_sha256 = "another corpus"
    drive.fail(plan.key, "its process died", crashed=True)
    (fresh,) = drive.start()
    assert fresh.number == 1
    given_up = drive.history.trials[plan.key]
    assert given_up.state == "FAIL"
    assert "cse-sweep retry small 0 " in given_up.error


def test_a_checkpoint_that_is_gone_starts_the_trial_over(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, caplog: pytest.LogCaptureFixture
) -> None:
    first = new_drive(tmp_path, new_spec(search={"trials": 1}))
    (plan,) = first.start()
    for _ in range(2):
        first.advance(plan.key)
    first.close()
    shutil.rmtree(tmp_path / "checkpoints")
    second = new_drive(tmp_path, new_spec(search={"trials": 1}))
    (again,) = second.start()
    assert (again.key, again.resumed_from, again.checkpoint) == (plan.key, 0, None)
    assert "trial 0 starts over" in caplog.text
    second.run()
    second.assert_sound()
    assert sorted(second.history.trials[plan.key].curve) == [0, 2, 4]


def fail_all(drive: Any, *causes: str) -> None:
    """Each trial that the planner wants fails of the next cause, as long as there is one."""
    for cause in causes:
        for plan in drive.start()[:1]:
            drive.fail(plan.key, cause, crashed=False)
    drive.start()


def test_a_search_of_which_all_trials_fail_alike_is_given_up(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(search={"trials": 4})
    drive = new_drive(tmp_path, spec)
    fail_all(drive, *["no GPU"] * 4)
    assert [trial.state for trial in drive.history.trials.values()] == ["FAIL"] * 3
    assert drive.state.gave_up == "no GPU"
    drive.close()
    again = new_drive(tmp_path, spec)
    assert (again.start(), again.state.gave_up) == ([], "no GPU")
    again.close()
    mended = new_drive(tmp_path, spec, packages={"driver": "2"})
    mended.run()
    assert {trial.state for trial in mended.history.trials.values()} == {"COMPLETE"}


def test_other_failures_are_no_reason_to_give_up(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(search={"trials": 8}))
    fail_all(drive, "a", "a", "b")
    for plan in drive.start():
        while plan.key in drive.running:
            drive.advance(plan.key)
    fail_all(drive, *["a"] * 4)
    assert drive.state.gave_up is None


def test_what_runs_still_may_save_a_search(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(search={"trials": 4, "give_up_after": 2}), capacity=3)
    good, *bad = drive.start()
    for plan in bad:
        drive.fail(plan.key, "no GPU", crashed=False)
    assert (drive.start(), drive.state.gave_up) == ([], None)
    while good.key in drive.running:
        drive.advance(good.key)
    assert len(drive.start()) == 1
