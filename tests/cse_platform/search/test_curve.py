import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from cse_platform.search.pruners.curve import PastCurves, Verdict, explain_collapse, judge
from cse_platform.sweep.pruners import CurvePruner

STEPS, EVERY = 1000, 100
RULE = CurvePruner(kind="curve")
SHARES = np.arange(EVERY, STEPS + 1, EVERY) / STEPS
Floats = NDArray[np.float64]
Family = Callable[[np.random.Generator], Floats]


def rising(rng: np.random.Generator) -> Floats:
    top = 0.55 + 0.15 * rng.beta(2, 2)
    return top - (top - 0.35) * np.exp(-3 * math.exp(rng.normal(1.5, 0.5)) * SHARES)


def peaked(rng: np.random.Generator) -> Floats:
    top, peak, fall = 0.5 + 0.15 * rng.beta(2, 2), rng.uniform(0.1, 0.6), rng.uniform(0, 0.15)
    before = 0.3 + (top - 0.3) * (SHARES / peak) ** 0.5
    return np.where(peak > SHARES, before, top - fall * (SHARES - peak) / (1 - peak))


def crossing(rng: np.random.Generator) -> Floats:
    """The better a trial ends, the slower it rises."""
    quality = rng.beta(2, 2)
    rate = 8 * (1 - 0.8 * quality) * math.exp(rng.normal(0, 0.3))
    return 0.5 + 0.15 * quality - (0.2 + 0.15 * quality) * np.exp(-rate * SHARES)


def falling(rng: np.random.Generator) -> Floats:
    """All training lowers the score."""
    return 0.62 - 0.2 * (1 - rng.beta(2, 2)) * np.sqrt(SHARES)


def measured(
    mean: Floats, rng: np.random.Generator, *, seed_noise: float = 0.006
) -> dict[int, float]:
    """A curve at steps 0, 100, …, 1000; points have noise, and a seed's is that of all of them."""
    noise = rng.normal(0, seed_noise) + rng.normal(0, 0.005, len(mean))
    return {0: 0.3} | {
        round(s * STEPS): float(v) for s, v in zip(SHARES, mean + noise, strict=True)
    }


def until(curve: Mapping[int, float], step: int) -> dict[int, float]:
    return {at: value for at, value in curve.items() if at <= step}


def past_of(family: Family, count: int, *, seed: int = 0) -> PastCurves:
    rng, past = np.random.default_rng(seed), PastCurves()
    for number in range(count):
        past.add(measured(family(rng), rng), configuration=str(number))
    return past


def verdict(
    curve: Mapping[int, float],
    past: PastCurves,
    *,
    best: tuple[float, ...] = (0.64,),
    steps: int = STEPS,
    rule: CurvePruner = RULE,
    top: int = 1,
) -> Verdict:
    return judge(curve, steps=steps, past=past, best=best, rule=rule, top=top)


def stopped_at(curve: Mapping[int, float], past: PastCurves, best: list[float]) -> int | None:
    looks = sorted(step for step in curve if 0 < step < STEPS)
    return next((s for s in looks if verdict(until(curve, s), past, best=tuple(best)).stop), None)


def search(family: Family, seed: int, *, trials: int = 40, earlier: int = 0) -> Floats:
    """Of one search: share of steps used, trials that would be the best so far, those stopped."""
    rng, past, best = np.random.default_rng(seed), past_of(family, earlier, seed=seed + 1000), []
    used = hits = lost = 0
    for number in range(trials):
        curve = measured(family(rng), rng)
        stop = stopped_at(curve, past, best)
        final = max(value for step, value in curve.items() if step)
        if best and final > max(best):
            hits, lost = hits + 1, lost + (stop is not None)
        used += stop or STEPS
        best.append(max(v for step, v in until(curve, stop or STEPS).items() if step))
        if stop is None:
            past.add(curve, configuration=f"new {number}")
    return np.array([used / (trials * STEPS), hits, lost])


@pytest.mark.parametrize("searches", [4, pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("family", "most_used", "with_evidence"),
    [(rising, 0.7, 0.45), (peaked, 0.7, 0.55), (crossing, 0.85, 0.65), (falling, 0.65, 0.3)],
)
def test_few_of_the_best_are_stopped_and_many_steps_are_saved(
    family: Family, most_used: float, with_evidence: float, searches: int
) -> None:
    """At most the stated share of the trials that would have been the best is stopped.

    Of four searches, four times as many.
    """
    room, slack = (1, 0.0) if searches == 32 else (4, 0.05)
    for earlier, most in ((0, most_used), (60, with_evidence)):
        found = np.array([search(family, seed, earlier=earlier) for seed in range(searches)])
        used, hits, lost = found.mean(axis=0)
        assert used < most + slack and lost <= room * RULE.chance * hits


@pytest.mark.parametrize("power", [0.6, 0.8])
def test_the_first_trials_of_a_better_region_go_on(power: float) -> None:
    """They stand lower than all earlier ones ever did, and rise as none of these did."""
    rng = np.random.default_rng(1)
    past, best = PastCurves(), []
    for number in range(20):
        top = 0.5 + 0.07 * rng.beta(2, 2)
        curve = measured(top - (top - 0.35) * np.exp(-12 * SHARES), rng)
        past.add(curve, configuration=str(number))
        best.append(max(curve.values()))
    stops = []
    for _ in range(8):
        curve = measured(0.3 + 0.32 * SHARES**power, rng)
        stops.append(stopped_at(curve, past, best))
    assert stops == [None] * 8


def test_a_bad_trial_is_stopped_unless_it_may_still_rise() -> None:
    for changes, past in (
        ({"rule": CurvePruner(kind="curve", min_step=301)}, 20),
        ({"rule": CurvePruner(kind="curve", startup_trials=21)}, 20),
        ({"top": 2}, 20),
        ({"best": (0.37,)}, 20),
        ({}, 0),
    ):
        curve = {0: 0.3, 100: 0.36, 200: 0.37, 300: 0.37}
        assert verdict(curve, past_of(rising, 20)).stop
        assert not verdict(curve, past_of(rising, past), **changes).stop  # type: ignore[arg-type]
    found = verdict({0: 0.3, 100: 0.36, 200: 0.37, 300: 0.37}, past_of(rising, 20))
    assert found.stop and found.chance < 0.001 and "20 complete curves" in found.why


def test_the_bar_is_the_last_of_the_top() -> None:
    curve, past = {0: 0.3, 600: 0.55, 700: 0.56, 800: 0.56, 900: 0.56}, past_of(rising, 40)
    best = (0.69, 0.58, 0.565, 0.4, 0.4, 0.4)
    assert verdict(curve, past, best=best).stop
    assert not verdict(curve, past, best=best, top=3).stop


def test_a_fall_after_the_peak_and_nan_do_not_lower_a_curve() -> None:
    fallen = {0: 0.3, 100: 0.5, 200: 0.66, 300: 0.5, 400: 0.4}
    assert not verdict(fallen, past_of(peaked, 20)).stop
    past = past_of(rising, 20)
    good = {0: 0.3, 100: 0.6, 200: 0.62}
    assert verdict({**good, 150: math.nan}, past) == verdict(good, past)
    past.add({0: 0.3, 100: math.nan}, configuration="none")
    assert len(past) == 20


def test_curves_of_other_lengths_and_steps_are_read_at_the_same_share() -> None:
    rng = np.random.default_rng(0)
    same, other = PastCurves(), PastCurves()
    for number in range(20):
        curve = measured(rising(rng), rng)
        same.add(curve, configuration=str(number))
        other.add({2 * step: value for step, value in curve.items()}, configuration=str(number))
    curve = {0: 0.3, 100: 0.5, 200: 0.56}
    expected = verdict(curve, same)
    assert verdict(curve, other).chance == pytest.approx(expected.chance)
    coarse = PastCurves()
    coarse.add({500: 0.5, 1000: 0.6}, configuration="a")
    assert len(coarse.states_at(0.4, steps=1000)[1]) == 0
    assert coarse.states_at(0.7, steps=1000)[1] == pytest.approx([0.1])
    assert (
        len(coarse.states_at(0.7, steps=2001)[1]) == len(coarse.states_at(0.7, steps=499)[1]) == 0
    )


def test_noise_between_seeds_keeps_trials_alive() -> None:
    """Few trials that agree by luck say less where seeds of one configuration do not agree."""
    chances = []
    for apart in (0.0, 0.03):
        past = PastCurves()
        for number in range(6):
            past.add({500: 0.5, 1000: 0.52}, configuration=str(number))
        for seed in range(8):
            end = 0.52 + (apart if seed % 2 else -apart / 2)
            past.add({500: 0.5, 1000: max(0.5, end)}, configuration="repeated")
        chances.append(verdict({500: 0.5}, past, best=(0.56,)).chance)
    assert 10 * chances[0] < chances[1]


@pytest.mark.parametrize("known", [True, False])
def test_a_trial_that_an_unlucky_seed_may_hide_goes_on(known: bool) -> None:
    """It stands 3 points below the bar, its end is certain, and seeds differ by 2 points."""
    past = PastCurves()
    for number in range(20):
        level = 0.02 if number % 2 else -0.02
        curve = {500: 0.50 + level, 1000: 0.52 + level}
        past.add(curve, configuration=str(number // 2 if known else number))
    assert verdict({500: 0.51}, past, best=(0.56,)).stop is not known


def test_a_collapsed_curve_is_explained() -> None:
    fine = {"train/loss": 0.1, "dev/uniformity": -2.0}
    assert explain_collapse(0.5, fine) is None and explain_collapse(0.5, {}) is None
    assert "not a number" in str(explain_collapse(math.nan, fine))
    assert "not a number" in str(explain_collapse(0.5, fine | {"train/loss": math.nan}))
    assert "collapsed" in str(explain_collapse(0.5, fine | {"dev/uniformity": -0.04}))
    assert explain_collapse(0.5, fine | {"dev/uniformity": -0.06}) is None
