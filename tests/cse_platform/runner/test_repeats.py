"""Further seeds during the search: within its budget, in the study as they went, and resumed."""

from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec

TRIALS, CUT_AT = 15, 11
SEEDS = {"search": 42, "repeats": True, "confirm": {"top": 1, "seeds": [0]}}


def _run_until(drive: Any, trials: int) -> None:
    """Run one trial after the other until there are so many."""
    while len(drive.history.trials) < trials:
        (plan,) = drive.start()
        while plan.key in drive.running:
            drive.advance(plan.key)


def _read_study(drive: Any) -> list[tuple[Any, ...]]:
    return [
        (t.state.name, t.values, t.params, t.user_attrs, t.intermediate_values)
        for t in drive.study().trials
    ]


@pytest.mark.parametrize(
    ("sampler", "lost"),
    [
        ("random", "nothing"),
        pytest.param("auto", "nothing", marks=pytest.mark.slow),
        pytest.param("tpe", "the search store", marks=pytest.mark.slow),
    ],
)
def test_repeats_are_trials_of_the_search_and_of_its_study(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, sampler: str, lost: str
) -> None:
    """The scores are luck alone, so seeds differ as much as configurations do."""
    search = {"sampler": sampler, "trials": TRIALS}
    spec = new_spec(search=search, seeds=SEEDS)
    drive = new_drive(tmp_path / "whole", spec)
    _run_until(drive, TRIALS)
    drive.assert_sound()
    trials = drive.history.trials.values()
    repeats = [trial for trial in trials if trial.role == "repeat"]
    assert 3 <= len(repeats) <= 5 and len(trials) == TRIALS
    for trial in repeats:
        there = drive.study().trials[trial.search_number]
        assert (there.state.name, there.value) == ("COMPLETE", trial.best_value)
        assert there.user_attrs == {"seed": trial.seed} and trial.seed > 42
        assert there.intermediate_values == trial.kept

    cut = new_drive(tmp_path / "cut", spec)
    _run_until(cut, CUT_AT)
    (plan,) = cut.start()
    assert plan.role == "repeat"
    cut.advance(plan.key)
    cut.state.search.close_store()
    cut.close()
    if lost == "the search store":
        (tmp_path / "cut/search.db").unlink()
    resumed = new_drive(tmp_path / "cut", spec)
    _run_until(resumed, TRIALS)
    resumed.assert_sound()
    assert resumed.outcome() == drive.outcome()
    assert _read_study(resumed) == _read_study(drive)


def test_a_configuration_with_a_failed_seed_gets_no_more(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(search={"trials": TRIALS}, seeds=SEEDS)
    drive = new_drive(tmp_path, spec)
    _run_until(drive, 10)
    (first,) = drive.start()
    assert first.role == "repeat"
    drive.report(first.key, 0)
    drive.fail(first.key, "loss is NaN", crashed=False)
    _run_until(drive, 12)  # one more configuration is needed for the ten that begin it
    (second,) = drive.start()
    assert second.role == "repeat" and second.configuration != first.configuration
    assert drive.study().trials[first.search_number].state.name == "FAIL"
