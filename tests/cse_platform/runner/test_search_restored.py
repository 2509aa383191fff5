from typing import Any

import optuna
import pytest
from in_process import new_spec
from optuna.trial import TrialState
from search_studies import asked, lived, opened
from searches import history_of, searched

from cse_platform.search.findings import replay_study
from cse_platform.stores.optuna.trials import build_distribution, suggest
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import SearchNotes

SPACE: dict[str, Any] = {
    "temperature": {"low": 0.01, "high": 1.0, "log": True},
    "kind": ["a", "b"],
    "depth": {"low": 1, "high": 9, "when": {"kind": "b"}},
}
TRIALS = 9


def _go_on(drive: Any, trials: int) -> None:
    """Run one trial after the other until there are so many; the third fails."""
    while len(drive.history.trials) < trials:
        (plan,) = drive.start()
        if plan.number == 2:
            drive.report(plan.key, 0)
            drive.fail(plan.key, "boom", crashed=False)
        drive.finish(plan.key)


def test_a_search_goes_on_as_if_it_had_not_been_cut_off(start) -> None:
    """It is cut off in the midst of a trial, or behind one that its pruner has stopped."""
    sampler = {"kind": "tpe", "startup_trials": 3}
    search = {"sampler": sampler, "trials": TRIALS, "start_from": [{"kind": "b"}]}
    pruner = {"kind": "successive_halving", "min_step": 1}
    spec = new_spec(space=SPACE, search=search, pruner=pruner)
    undisturbed = start(spec, folder="whole")
    _go_on(undisturbed, TRIALS)
    for until in (3, 6):
        drive = start(spec, folder="cut")
        _go_on(drive, until)
        (plan,) = drive.start()
        drive.advance(plan.key)
        drive.advance(plan.key)
        drive.close()
    drive = start(spec, folder="cut")
    _go_on(drive, TRIALS)
    drive.assert_sound()
    assert (told := drive.told()) == undisturbed.told()
    assert drive.study().user_attrs == undisturbed.study().user_attrs
    assert {trial["state"].name for trial in told} > {"COMPLETE", "FAIL"}


def test_what_was_tried_again_and_put_in_comes_back() -> None:
    """The journal's history has the second attempt alone under the trial's number."""
    values = {"temperature": 0.5, "kind": "a"}
    failed, again = lived(0, [0.1], state="FAIL", cause="trial"), lived(0, [0.1, 0.5])
    for history in (failed, again):
        (trial,) = history.trials.values()
        trial.values, trial.searched = values, tuple(values)
    failed.attempts[0].search_notes = SearchNotes(request="r")
    again.attempts[0].search_notes = SearchNotes(retry_of=0)
    again.attempts[0].search_number = 1
    failed.attempts[1] = again.attempts[0]
    study = opened(new_spec(), values, history=failed)
    first, second = study.study.trials
    assert first.user_attrs == {"request": "r", "failure_cause": "trial"}
    assert (second.state.name, second.user_attrs) == ("RUNNING", {"retry_of": 0})
    assert second.intermediate_values == {1: 0.5}
    assert asked(study, 1) != [values]  # which the search has tried


def _point(drive: Any, key: str, step: int, value: float) -> bool:
    """Whether the trial is to stop after it."""
    metrics = {"dev/stsb_spearman": value, "train/progress": 0.5}
    return bool(drive.report(key, step, **metrics))


@pytest.mark.parametrize("folder", ["whole", "cut"])
def test_no_rung_is_judged_by_trials_that_came_to_it_later(start, folder) -> None:
    """The first alone passes the rungs at 1, 4, 16 and 64; the other five are better."""
    spec = new_spec(search={"trials": 6}, pruner={"kind": "successive_halving", "min_step": 1})
    drive = start(spec, folder=folder, capacity=6)
    first, *others = [plan.key for plan in drive.start()]
    assert not _point(drive, first, 100, 0.6)
    for place, key in enumerate(others):
        assert not _point(drive, key, 100, 0.7 + place / 100)
        drive.complete(key)
    if folder == "cut":
        drive.close()
        drive = start(spec, folder=folder, capacity=6)
        assert [plan.key for plan in drive.start()] == [first]
    assert not _point(drive, first, 300, 0.62)  # it is the first at 256
    rungs = {f"completed_rung_{rung}": 0.6 for rung in range(4)} | {"completed_rung_4": 0.62}
    assert drive.study().trials[0].system_attrs == rungs


def test_hyperband_keeps_its_brackets(start) -> None:
    """Without `max_step` they follow from the first trial that was complete."""
    spec = new_spec(search={"trials": 9}, pruner={"kind": "hyperband", "reduction_factor": 2})
    told = {}
    for folder in ("whole", "cut"):
        drive = start(spec, folder=folder)
        for step, value in ((4, 0.5), (100, 0.9)):
            (plan,) = drive.start()
            _point(drive, plan.key, step, value)
            drive.complete(plan.key)
            drive.running.clear()
        if folder == "cut":
            drive.close()
            drive = start(spec, folder=folder)
        drive.capacity = 7
        for plan in drive.start():
            _point(drive, plan.key, 100, 0.7)
        told[folder] = drive.told()
    assert told["cut"] == told["whole"]


REPLAYED = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "d0": {"low": 2, "high": 10, "step": 4},
    "margin": {"low": 0.1, "high": 0.4, "step": 0.1},
    "loss": ["listnet", "listmle"],
    "teachers": {"choices": [["a"], ["a", "b"]], "when": {"loss": "listnet"}},
}
VALUES = {"rate": 1e-4, "d0": 6, "margin": 0.3, "loss": "listnet", "teachers": ["a", "b"]}


def test_it_is_sampled_from_the_same() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space.model_validate(REPLAYED)
    for _ in range(20):
        trial = study.ask()
        values = {name: suggest(trial, name, one) for name, one in space.items()}
        assert trial.distributions == {name: build_distribution(one) for name, one in space.items()}
        assert all(space[name].find(value) == value for name, value in values.items())
    wrong = ({"rate": 1.0}, {"d0": 3}, {"loss": "other"}, {"margin": "x"})
    told = [searched(number, VALUES | values) for number, values in enumerate(({}, *wrong))]
    found = replay_study(history_of(told, REPLAYED))
    assert [trial.params["d0"] for trial in found.get_trials()] == [VALUES["d0"]]


def test_trials_as_optuna_would_know_them() -> None:
    inactive = {"rate": 1e-3, "d0": 10, "margin": 0.1, "loss": "listmle"}
    told = [
        searched(0, VALUES, value=0.625),
        searched(1, inactive, state="PRUNED", value=0.9),
        searched(4, inactive, state="FAIL", value=None),
        searched(5, VALUES, role="confirm", seed=0, value=0.9),
        searched(6, inactive, state="RUNNING", value=None, finished=None),
        searched(7, inactive, value=0.75),
    ]
    found = replay_study(history_of(told, REPLAYED))
    first, pruned, failed, last = found.get_trials()
    assert first.params == {**VALUES, "teachers": '["a", "b"]'}
    expected = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.COMPLETE]
    assert [one.state for one in (first, pruned, failed, last)] == expected
    assert (first.value, pruned.value, failed.value, last.value) == (0.625, None, None, 0.75)
    assert "teachers" not in last.params and last.params["d0"] == 10
    assert (found.best_value, found.best_trial.number) == (0.75, 3)
