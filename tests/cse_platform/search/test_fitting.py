"""Which trials a Gaussian process is fitted to, and with which values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.failures import FAILURE_CAUSE, show_failures
from cse_platform.search.samplers import fitting
from cse_platform.search.samplers.fitting import (
    MOST_FITTED,
    floor_outliers,
    raise_failures,
    select_trials,
    standardize_labels,
)
from cse_platform.search.samplers.gp import build_gp
from cse_platform.sweep.samplers import Gp

MAXIMIZE, MINIMIZE = StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE
REAL = np.zeros(2, dtype=bool)


def _trials(rows: Sequence[Sequence[float]]) -> list[FrozenTrial]:
    trials = [create_trial(values=list(row)) for row in rows]
    for number, trial in enumerate(trials):
        trial.number = number
    return trials


def _floored(values: Sequence[float], direction: StudyDirection = MAXIMIZE) -> list[Any]:
    return [trial.value for trial in floor_outliers(_trials([[v] for v in values]), [direction])]


def _selected(
    trials: Sequence[FrozenTrial], coordinates: np.ndarray, *directions: StudyDirection
) -> list[int]:
    chosen = select_trials(trials, directions or [MAXIMIZE], coordinates, REAL)
    return [trial.number for trial in chosen]


def test_an_outlier_is_raised_to_the_floor() -> None:
    """The best is 4, the median 2: the floor lies at 2 - 5 x 2."""
    assert _floored([1.0, 2.0, 3.0, 4.0, -100.0]) == [1.0, 2.0, 3.0, 4.0, -8.0]
    assert _floored([-1.0, -2.0, -3.0, -4.0, 100.0], MINIMIZE) == [-1.0, -2.0, -3.0, -4.0, 8.0]
    assert _floored([1.0, 2.0, 3.0, 4.0, -8.0]) == [1.0, 2.0, 3.0, 4.0, -8.0]


def test_failures_count_as_the_median_of_the_other_trials() -> None:
    """The worst is 1 and 5; the medians are 2 and 8."""
    trials = _trials([[1.0, 9.0], [2.0, 8.0], [4.0, 5.0]])
    failed = create_trial(state=TrialState.FAIL, user_attrs={FAILURE_CAUSE: "trial"})
    shown = show_failures([*trials, failed], [MAXIMIZE, MINIMIZE])
    assert shown[3].values == [1.0, 9.0]
    raised = raise_failures(shown, [MAXIMIZE, MINIMIZE])
    assert [trial.values for trial in raised[3:]] == [[2.0, 8.0]]
    assert raised[:3] == trials


def test_labels_of_failures_are_standardized() -> None:
    """Of labels 1, 1, 1 and -1 the mean is 0.5 and the deviation the root of 0.75."""
    labels, border = standardize_labels(np.array([False, False, True, False]))
    assert labels == pytest.approx(np.array([0.5, 0.5, -1.5, 0.5]) / 0.75**0.5)
    assert border == pytest.approx(-0.5 / 0.75**0.5)


def test_values_of_no_scale_stay() -> None:
    assert _floored([1.0, 1.0, 1.0, 0.5, -3.0]) == [1.0, 1.0, 1.0, 0.5, -3.0]
    assert _floored([0.0]) == [0.0]


def test_each_objective_has_its_own_floor_and_the_study_keeps_the_truth() -> None:
    trials = _trials([[1.0, 9.0], [2.0, 8.0], [4.0, 7.0], [-100.0, 8.0], [2.0, 99.0]])
    shown = floor_outliers(trials, [MAXIMIZE, MINIMIZE])
    assert [trial.values for trial in shown[3:]] == [[-8.0, 8.0], [2.0, 13.0]]
    assert trials[3].values == [-100.0, 8.0] and shown[0] is trials[0]


def _proposed(lowest: float, seed: int) -> tuple[float, float]:
    """What is proposed after 14 trials, one of which, at (0.9, 0.9), has that value."""
    study = optuna.create_study(direction="maximize", sampler=build_gp(Gp(), seed=3))
    rng, space = np.random.default_rng(seed), dict.fromkeys("xy", FloatDistribution(0.0, 1.0))
    for number in range(14):
        x, y = (0.9, 0.9) if number == 7 else rng.random(2)
        value = lowest if number == 7 else 0.6 - (x - 0.3) ** 2 - (y - 0.7) ** 2
        params = {"x": float(x), "y": float(y)}
        study.add_trial(create_trial(value=value, params=params, distributions=space))
    params = study.ask(space).params
    return params["x"], params["y"]


def test_how_far_down_an_outlier_lies_does_not_move_the_fit() -> None:
    assert _proposed(-50.0, 1) == _proposed(-5000.0, 1)


def test_an_outlier_does_not_hide_where_the_best_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_distance() -> float:
        """The mean distance of proposals from the best configuration, over four studies."""
        proposed = np.array([_proposed(-50.0, seed) for seed in range(4)])
        return float(np.linalg.norm(proposed - (0.3, 0.7), axis=1).mean())

    floored = measure_distance()
    monkeypatch.setattr(fitting, "FLOOR", np.inf)
    assert floored < 0.4 < measure_distance()


def test_of_many_trials_the_best_the_newest_and_a_spread_sample_are_fitted_to() -> None:
    rng = np.random.default_rng(1)
    values, coordinates = rng.random(1000), 0.5 * rng.random((1000, 2))
    values[123], values[456], coordinates[789] = 2.0, -2.0, (1.0, 1.0)
    trials = _trials([[value] for value in values])
    chosen = _selected(trials, coordinates)
    assert len(chosen) == MOST_FITTED and chosen == sorted(set(chosen))
    few = [trial.number for trial in trials[:MOST_FITTED]]
    assert _selected(trials[:MOST_FITTED], coordinates[:MOST_FITTED]) == few
    best = np.argsort(-values)[:100].tolist()
    assert {*best, *range(950, 1000), 789} <= set(chosen)
    assert chosen == _selected(trials, coordinates)
    lowest = np.argsort(values)[:100].tolist()
    assert {456, *lowest, *range(950, 1000)} <= set(_selected(trials, coordinates, MINIMIZE))


def test_the_spread_sample_leaves_no_hole() -> None:
    """The good and the new ones are in one corner; on a grid, none is far from a selected one."""
    side = np.linspace(0.0, 1.0, 30)
    coordinates = np.array([(x, y) for x in side for y in side])[::-1]
    trials = _trials([[-x - y] for x, y in coordinates])
    chosen = coordinates[_selected(trials, coordinates)]
    apart = np.linalg.norm(coordinates[:, None] - chosen[None], axis=2).min(axis=1)
    assert apart.max() < 0.15


def test_the_best_of_each_objective_is_fitted_to() -> None:
    rows = np.random.default_rng(2).random((600, 2))
    rows[410], rows[420] = (2.0, 0.9), (0.0, -2.0)
    chosen = _selected(_trials(rows.tolist()), np.zeros((600, 2)), MAXIMIZE, MINIMIZE)
    assert {410, 420} <= set(chosen)


def test_feasible_trials_come_before_infeasible_ones() -> None:
    trials = _trials([[value] for value in np.random.default_rng(2).random(600)])
    for trial in trials:
        excess = -1.0 if 400 <= trial.number < 500 else 1.0
        trial.system_attrs = {"constraints:size": excess}
    assert set(range(400, 500)) <= set(_selected(trials, np.zeros((600, 2))))


def test_two_choices_are_as_far_apart_as_the_ends_of_a_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A distance of indices would take the third choice alone for farther than two differences."""
    monkeypatch.setattr(fitting, "MOST_FITTED", 3)
    coordinates = np.zeros((6, 2))
    coordinates[2], coordinates[3] = (2, 0.0), (1, 1.0)
    trials = _trials([[-float(number)] for number in range(6)])
    chosen = select_trials(trials, [MAXIMIZE], coordinates, np.array([True, False]))
    assert [trial.number for trial in chosen] == [0, 3, 5]
