"""A search made again from the leaderboard is the one that Optuna ran."""

import optuna
from optuna.trial import TrialState
from searches import history_of, searched

from cse_platform.search.findings import replay_study
from cse_platform.stores.optuna.trials import build_distribution, suggest
from cse_platform.sweep.space.space import Space

SPACE = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "d0": {"low": 2, "high": 10, "step": 4},
    "margin": {"low": 0.1, "high": 0.4, "step": 0.1},
    "loss": ["listnet", "listmle"],
    "teachers": {"choices": [["a"], ["a", "b"]], "when": {"loss": "listnet"}},
}
VALUES = {"rate": 1e-4, "d0": 6, "margin": 0.3, "loss": "listnet", "teachers": ["a", "b"]}


def test_it_is_sampled_from_the_same() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space.model_validate(SPACE)
    for _ in range(20):
        trial = study.ask()
        values = {name: suggest(trial, name, one) for name, one in space.items()}
        assert trial.distributions == {name: build_distribution(one) for name, one in space.items()}
        assert all(space[name].find(value) == value for name, value in values.items())


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
    found = replay_study(history_of(told, SPACE))
    first, pruned, failed, last = found.get_trials()
    assert first.params == {**VALUES, "teachers": '["a", "b"]'}
    assert [one.state for one in (first, pruned, failed, last)] == [
        TrialState.COMPLETE,
        TrialState.PRUNED,
        TrialState.FAIL,
        TrialState.COMPLETE,
    ]
    assert (first.value, pruned.value, failed.value, last.value) == (0.625, None, None, 0.75)
    assert "teachers" not in last.params and last.params["d0"] == 10
    assert (found.best_value, found.best_trial.number) == (0.75, 3)


def test_trials_outside_of_the_space_are_left_out() -> None:
    wrong = ({"rate": 1.0}, {"d0": 3}, {"loss": "other"}, {"margin": "x"})
    told = [searched(number, VALUES | values) for number, values in enumerate(({}, *wrong))]
    found = replay_study(history_of(told, SPACE))
    assert [trial.params["d0"] for trial in found.get_trials()] == [VALUES["d0"]]
