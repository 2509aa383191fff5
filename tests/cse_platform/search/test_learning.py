"""Which trials of other sweeps a sampler is shown, and with which values."""

from typing import Any

import numpy as np
import pytest
from optuna.trial import FrozenTrial, create_trial

from cse_platform.search.coordinates import build_coordinates, measure_distances
from cse_platform.search.distributions import build_distribution, encode
from cse_platform.search.learning import MIN_OWN_TRIALS, SOURCE, learned_trials
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import LearnedTrial

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


def test_all_are_shown_before_the_sweep_has_its_own() -> None:
    shown = learned_trials(learned(30), SPACE, own(MIN_OWN_TRIALS - 1))
    assert len(shown) == 30
    assert [trial.user_attrs[SOURCE] for trial in shown][:2] == ["other#0", "other#1"]
    assert all(trial.number < -1 for trial in shown) and len({t.number for t in shown}) == 30
    first = learned_trials(learned(30), SPACE, [])
    assert first[0].value == pytest.approx(score(points(1, seed=1)[0]) / 10)


def test_values_of_other_conditions_are_moved_to_the_scale_of_the_sweep() -> None:
    trials = own(8)
    shown = learned_trials(learned(30), SPACE, trials)
    values = np.array([trial.value for trial in trials])
    moved = np.array([trial.value for trial in shown])
    assert abs(moved.mean() - values.mean()) < 0.5 * values.std()
    assert 0.5 < moved.std() / values.std() < 2
    best = max(learned(30), key=lambda one: one.score)
    assert max(shown, key=lambda trial: trial.value or 0).user_attrs[SOURCE] == best.source


def test_those_that_mislead_are_not_shown() -> None:
    guided, misled = (learned_trials(learned(40), SPACE, own(12, sign=s)) for s in (1.0, -1.0))
    assert len(guided) == 40 - 12
    assert misled == []


def test_each_own_trial_takes_the_place_of_one() -> None:
    counts = [len(learned_trials(learned(30), SPACE, own(count))) for count in (6, 20, 29, 40)]
    assert counts == [24, 10, 1, 0]


def test_trials_under_the_same_conditions_are_shown_as_they_are() -> None:
    """Whatever the sweep has found meanwhile: they are as good as its own."""
    shown = learned_trials(learned(10, alike=True), SPACE, own(40, sign=-1.0))
    values = [score(one) / 10 for one in points(10, seed=1)]
    assert [trial.value for trial in shown] == pytest.approx(values)


def test_distances_are_sums_of_squares_over_dimensions() -> None:
    """A quarter of a range apart counts 1/16, two choices 1, and a value 1 from none."""
    one, two = encode(["a"]), encode(["a", "b"])
    here = build_coordinates([{"rate": 1e-5, "layers": two, "depth": 1}], SPACE)
    there = [
        {"rate": 1e-5, "layers": two, "depth": 1},
        {"rate": 1e-4, "layers": two, "depth": 3},
        {"rate": 1e-3, "layers": one},
    ]
    [distances] = measure_distances(here, build_coordinates(there, SPACE))
    assert distances == pytest.approx([0, 1 / 4 + 1 / 16, 1 + 1 + 1])
