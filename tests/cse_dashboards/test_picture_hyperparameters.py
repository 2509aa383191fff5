"""What captions claim of the figures of hyperparameters."""

from typing import Any

from searches import history_of, searched

from cse_dashboards.figures.search.effect import hyperparameter_effects
from cse_dashboards.figures.search.surface import surface
from cse_platform.leaderboard.records import TrialSummary

GROUPS = {"groups": [8, 16]}
RANGES = {"rate": {"low": 0.0, "high": 1.0}, "alpha": {"low": 0.0, "high": 1.0}}


def tried(number: int, seed: int, **values: Any) -> TrialSummary:
    """Trials of the same number are seeds of one configuration."""
    return searched(number, values, seed=seed, configuration=f"c{number}", value=0.5 + seed / 10)


ONE_SEED = [tried(0, 0, groups=8), tried(1, 0, groups=16)]
SOME_SEEDS = [*ONE_SEED, tried(0, 1, groups=8)]
ALL_SEEDS = [*SOME_SEEDS, tried(1, 1, groups=16)]


def test_the_spread_is_called_what_is_drawn() -> None:
    for trials, drawn in ((ONE_SEED, []), (SOME_SEEDS, ["bars"]), (ALL_SEEDS, ["band"])):
        [picture] = hyperparameter_effects(history_of(trials, GROUPS))
        said = [word for word in ("bars", "band") if f"; {word}: ± one standard" in picture.caption]
        assert said == drawn
        assert "The mean is over the configurations" in picture.caption
        assert "stands for" not in picture.caption


def test_where_there_is_no_mean_none_is_claimed() -> None:
    trials = [tried(n, 0, rate=n / 10) for n in range(4)]
    [picture] = hyperparameter_effects(history_of(trials, {"rate": RANGES["rate"]}))
    assert picture.figure is not None and "mean" not in picture.caption


def test_only_a_contour_is_interpolated() -> None:
    places = [(0.0, 0.0), (0.1, 1.0), (0.9, 0.1), (1.0, 0.9)]
    trials = [tried(n, 0, rate=x, alpha=y) for n, (x, y) in enumerate(places)]
    contour = surface(history_of(trials, RANGES))
    cells = surface(
        history_of(
            [tried(n, 0, groups=8 * (1 + n % 2), m=n) for n in (1, 2)], {**GROUPS, "m": [1, 2]}
        )
    )
    assert contour.figure.data[0].type == "contour"
    assert "interpolated linearly" in contour.caption
    assert cells.figure.data[0].type == "heatmap"
    assert "interpolated" not in cells.caption


def test_means_of_a_sample_are_said_to_be_weighted() -> None:
    [picture] = hyperparameter_effects(history_of(ONE_SEED, GROUPS, total=500))
    assert "each counts for as many trials as it stands for" in picture.caption
