from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.failures import show_failures
from cse_platform.search.learning import MIN_OWN_TRIALS, learned_trials
from cse_platform.search.samplers.fitting import (
    MOST_FITTED,
    adjust_values,
    select_trials,
    show_to_gp,
)
from cse_platform.stores.optuna.trials import FAILURE_CAUSE, SOURCE, build_distribution
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import LearnedTrial
from cse_platform.values import encode


def _trials(values: Sequence[float]) -> list[FrozenTrial]:
    trials = [create_trial(value=value) for value in values]
    for number, trial in enumerate(trials):
        trial.number = number
    return trials


def _selected(trials: Sequence[FrozenTrial]) -> list[int]:
    return [trial.number for trial in select_trials(trials)]


def test_an_outlier_is_raised_to_the_floor() -> None:
    """The best is 4, the median 2: the floor lies at 2 - 5 x 2."""
    trials = _trials([1.0, 2.0, 3.0, 4.0, -100.0])
    shown = adjust_values(trials)
    assert [trial.value for trial in shown] == [1.0, 2.0, 3.0, 4.0, -8.0]
    assert trials[4].value == -100.0 and shown[0] is trials[0]
    assert adjust_values(shown) == shown
    same = _trials([4.0, 4.0, 4.0, -100.0])  # the best is the median: there is no floor
    assert adjust_values(same) == same


def test_failures_count_as_the_median_of_the_other_trials() -> None:
    trials = _trials([1.0, 2.0, 4.0])
    failed = create_trial(state=TrialState.FAIL, user_attrs={FAILURE_CAUSE: "trial"})
    shown = show_failures([*trials, failed])
    assert shown[3].value == 1.0
    raised = adjust_values(shown)
    assert raised[3].value == 2.0
    assert raised[:3] == trials


def test_a_gaussian_process_is_told_which_trials_failed() -> None:
    """Without failures there is no constraint: what has none is fitted once, not twice."""
    trials = _trials([1.0, 2.0, 4.0])
    assert show_to_gp([]) == []
    assert [trial.constraints for trial in show_to_gp(trials)] == [{}, {}, {}]
    failed = create_trial(state=TrialState.FAIL, user_attrs={FAILURE_CAUSE: "trial"})
    running = create_trial(state=TrialState.RUNNING)
    before = show_failures([*trials, failed, running])
    shown = show_to_gp(before)
    assert [t.constraints.get("fails") for t in shown] == [-1.0, -1.0, -1.0, 1.0, None]
    assert [trial.value for trial in shown] == [1.0, 2.0, 4.0, 2.0, None]
    assert not any(trial.constraints for trial in (*trials, *before))


def test_of_many_trials_the_newest_and_the_best_are_fitted_to() -> None:
    values = np.random.default_rng(1).random(1000)
    trials = _trials(values.tolist())
    chosen = _selected(trials)
    assert len(chosen) == MOST_FITTED and chosen == sorted(set(chosen))
    assert _selected(trials[:MOST_FITTED]) == [trial.number for trial in trials[:MOST_FITTED]]
    best = np.argsort(-values[:900])[:150].tolist()
    assert {*best, *range(900, 1000)} == set(chosen)


SPACE = Space.model_validate({
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "layers": [["a"], ["a", "b"]],
    "depth": {"low": 1, "high": 9, "when": {"layers": [["a", "b"]]}},
})  # fmt: skip


def score(values: dict[str, Any]) -> float:
    """Higher for a lower rate, and for two layers."""
    return -float(np.log10(values["rate"])) + len(values["layers"])


def points(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for _ in range(count):
        layers = ["a"] if rng.random() < 0.5 else ["a", "b"]
        depth = {"depth": int(rng.integers(1, 10))} if len(layers) == 2 else {}
        found.append({"rate": float(10 ** rng.uniform(-5, -3)), "layers": layers, **depth})
    return found


def learned(count: int, *, alike: bool = False) -> list[LearnedTrial]:
    tried = points(count, seed=1)
    values = np.array([score(one) for one in tried])
    return [
        LearnedTrial(
            source=f"other#{number}", values=one, value=score(one) / 10, alike=alike,
            score=float((score(one) - values.mean()) / values.std()),
        )
        for number, one in enumerate(tried)
    ]  # fmt: skip


def own(count: int, *, sign: float = 1.0) -> list[FrozenTrial]:
    return [
        create_trial(
            value=0.5 + sign * score(one) / 100,
            params={name: encode(value) for name, value in one.items()},
            distributions={name: build_distribution(SPACE[name]) for name in one},
        )
        for one in points(count, seed=2)
    ]


def test_all_learned_trials_are_shown_before_the_sweep_has_its_own() -> None:
    shown = learned_trials(learned(30), SPACE, own(MIN_OWN_TRIALS - 1))
    assert len(shown) == 30
    assert [trial.user_attrs[SOURCE] for trial in shown][:2] == ["other#0", "other#1"]
    assert all(trial.number < -1 for trial in shown) and len({t.number for t in shown}) == 30
    first = learned_trials(learned(30), SPACE, [])
    assert first[0].value == pytest.approx(score(points(1, seed=1)[0]) / 10)


def test_learned_values_of_other_conditions_are_rescaled_to_the_sweep() -> None:
    trials = own(8)
    shown = learned_trials(learned(30), SPACE, trials)
    values = np.array([trial.value for trial in trials])
    moved = np.array([trial.value for trial in shown])
    assert abs(moved.mean() - values.mean()) < 0.5 * values.std()
    assert 0.5 < moved.std() / values.std() < 2
    best = max(learned(30), key=lambda one: one.score)
    assert max(shown, key=lambda trial: trial.value or 0).user_attrs[SOURCE] == best.source


def test_misleading_learned_trials_are_hidden_unless_conditions_are_equal() -> None:
    guided, misled = (learned_trials(learned(40), SPACE, own(12, sign=s)) for s in (1.0, -1.0))
    assert len(guided) == 40 - 12
    assert misled == []
    # Whatever the sweep has found meanwhile: they are as good as its own.
    shown = learned_trials(learned(10, alike=True), SPACE, own(40, sign=-1.0))
    values = [score(one) / 10 for one in points(10, seed=1)]
    assert [trial.value for trial in shown] == pytest.approx(values)
