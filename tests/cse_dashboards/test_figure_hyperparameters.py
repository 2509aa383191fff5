import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from searches import searched

from cse_dashboards.figures.labels import dev_quantity, metric_quantity
from cse_dashboards.figures.search.effect import effect
from cse_dashboards.figures.search.study import by_value
from cse_dashboards.figures.search.surface import surface
from cse_platform.leaderboard.past_searches import SearchHistory
from cse_platform.leaderboard.records import Trial
from cse_platform.sweep.space.space import Space

SPACE = Space.model_validate({
    "groups": [8, 16],
    "loss": ["listnet", "listmle"],
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "alpha": {"low": 0.0, "high": 1.0},
})  # fmt: skip


def trial(
    configuration: str, values: Mapping[str, Any], value: float | None, **changes: Any
) -> Trial:
    return searched(0, values, configuration=configuration, value=value, **changes)


def search(trials: Sequence[Trial], space: Space = SPACE) -> SearchHistory:
    return SearchHistory("mine", "stsb", space, tuple(trials), len(trials))


GROUPS = [
    trial("a", {"groups": 8}, 0.5),
    trial("a", {"groups": 8}, 0.7, seed=1),  # mean 0.6, std sqrt(0.02)
    trial("b", {"groups": 8}, 0.4),
    trial("c", {"groups": 16}, 0.8),
    trial("d", {"groups": 16}, 0.9, state="PRUNED"),
    trial("e", {"rate": 1e-4}, 0.9),
]


def test_in_means_a_trial_of_a_sample_counts_for_those_left_out() -> None:
    tried = [
        trial("a", {"groups": 8}, 0.9),
        trial("b", {"groups": 8}, 0.5, weight=3),
        trial("c", {"groups": 16}, 0.9),
        trial("c", {"groups": 16}, 0.6, seed=1, weight=2),  # mean 0.7, for 1.5 configurations
        trial("d", {"groups": 16}, 0.4, weight=1.5),
    ]
    found = by_value(tried, "groups")
    further = [trial("c", {"groups": 32}, 0.6 + n / 10, seed=n, chose=n == 3) for n in (1, 2, 3)]

    assert by_value(further, "groups")[32,].mean == pytest.approx(0.75)  # as on the leaderboard
    assert found[8,].mean == pytest.approx((0.9 + 3 * 0.5) / 4)
    assert found[16,].mean == pytest.approx((0.7 + 0.4) / 2)
    assert found[8,].configurations == 2


def test_a_setting_has_a_marker_a_trial_and_a_line_of_means_with_bars() -> None:
    tried = [*GROUPS, trial("c", {"groups": 16}, 0.6, seed=1)]  # mean 0.7, std sqrt(0.02)
    figure = effect(search(tried), "groups").figure

    trials, means = figure.data
    assert list(trials.x) == [8, 8, 8, 16, 16]
    assert list(trials.y) == pytest.approx([50, 70, 40, 80, 60])
    assert (list(means.x), list(means.y)) == ([8, 16], pytest.approx([50, 70]))
    assert means.error_y.array == pytest.approx([100 * math.sqrt(0.02)] * 2)
    assert figure.layout.xaxis.title.text == "groups"
    assert figure.layout.yaxis.title.text == "STS-B dev, Spearman × 100"
    assert figure.layout.xaxis.tickvals == (8, 16)


def test_mixed_choices_are_no_scale_and_a_range_has_its_own() -> None:
    space = Space.model_validate({"d0": [None, 256, 192], "groups": [8, 16]})
    numbers = [trial("a", {"d0": 256, "groups": 8}, 0.5), trial("b", {"d0": 192, "groups": 8}, 0.6)]
    mixed = [*numbers, trial("c", {"d0": None, "groups": 8}, 0.7)]
    axis = effect(search(numbers, space), "d0").figure.layout.xaxis
    assert (axis.type, axis.tickvals) == (None, (192, 256))
    axis = effect(search(mixed, space), "d0").figure.layout.xaxis
    assert (axis.type, axis.categoryarray) == ("category", ("null", 256, 192))
    cells = surface(search(mixed, space), "d0", "groups").figure.data[0]
    assert set(cells.x) == {"null", "256", "192"}
    tried = [trial(str(n), {"rate": rate}, 0.5) for n, rate in enumerate((1e-5, 1e-4, 1e-3))]
    figure = effect(search(tried), "rate").figure

    assert [trace.name for trace in figure.data] == ["trial"]
    alpha = Space({"rate": SPACE["alpha"]})
    assert effect(search(tried, alpha), "rate").figure.layout.xaxis.type == "linear"


@pytest.mark.parametrize(
    ("rates", "ticks"),
    [
        ((1e-5, 1e-3), ("1e-5", "1e-4", "0.001")),
        ((1.5e-5, 1.2e-4), ("2e-5", "5e-5", "1e-4")),
        ((2.4e-4, 4.5e-4), ("3e-4", "4e-4")),
        ((2.72e-4, 3e-4), ("2.72e-4", "3e-4")),  # no two digits lie between
        ((2.72e-4,), ("2.72e-4",)),
    ],
)
def test_ticks_of_a_log_axis_lie_among_the_values(rates, ticks) -> None:
    tried = [trial(str(n), {"rate": rate}, 0.5) for n, rate in enumerate(rates)]
    axis = effect(search(tried), "rate").figure.layout.xaxis
    assert (axis.type, axis.ticktext) == ("log", ticks)
    assert all(min(rates) <= tick <= max(rates) for tick in axis.tickvals)


def test_what_is_no_number_stands_side_by_side_in_the_order_of_the_file() -> None:
    tried = [
        trial("a", {"loss": "listmle"}, 0.5),
        trial("a", {"loss": "listmle"}, 0.7, seed=1),
        trial("b", {"loss": "listnet"}, 0.6),
    ]
    figure = effect(search(tried), "loss").figure

    means = figure.data[-1]
    assert figure.layout.xaxis.type == "category"
    assert figure.layout.xaxis.categoryarray == ("listnet", "listmle")
    assert means.mode == "markers"
    assert means.error_y.array == (pytest.approx(100 * math.sqrt(0.02)), None)
    # Lists and truths go by what the file writes.
    tried = [trial("a", {"x": [1, 2]}, 0.5), trial("b", {"x": True}, 0.6)]
    space = Space.model_validate({"x": [[1, 2], True]})
    figure = effect(search(tried, space), "x").figure

    assert list(figure.data[0].x) == ["[1,2]", "true"]
    assert figure.layout.xaxis.categoryarray == ("[1,2]", "true")


def test_two_settings_of_few_values_are_cells_with_their_means() -> None:
    tried = [
        trial("a", {"groups": 16, "loss": "listnet"}, 0.5),
        trial("b", {"groups": 16, "loss": "listnet"}, 0.7),
        trial("c", {"groups": 8, "loss": "listmle"}, 0.8),
    ]
    figure = surface(search(tried), "groups", "loss").figure

    [cells] = figure.data
    assert cells.type == "heatmap"
    assert (list(cells.x), list(cells.y)) == (["8", "16"], ["listnet", "listmle"])
    assert [list(row) for row in cells.z] == [[None, pytest.approx(60)], [80, None]]
    assert cells.texttemplate == "%{z:.2f}"
    assert cells.colorbar.title.text == "STS-B dev, Spearman × 100"
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("groups", "loss")


def test_two_ranges_are_points_over_a_contour_that_is_linear_between_them() -> None:
    places = [(1e-5, 0.0), (1.1e-5, 1.0), (9e-4, 0.01), (1e-3, 0.99)]
    tried = [
        trial(str(n), {"rate": rate, "alpha": alpha}, 0.5 + 0.1 * alpha)
        for n, (rate, alpha) in enumerate(places)
    ]
    figure = surface(search(tried), "rate", "alpha").figure

    contour, points = figure.data
    assert (contour.type, points.type) == ("contour", "scatter")
    assert list(points.marker.color) == pytest.approx([50, 60, 50.1, 59.9])
    assert (contour.x[0], contour.x[-1]) == pytest.approx((1e-5, 1e-3))
    heights = np.array(contour.z, dtype=float)
    known = ~np.isnan(heights)
    assert 0.9 < known.mean() < 1  # nothing is drawn outside of the points
    expected = 50 + 10 * np.broadcast_to(contour.y[:, None], heights.shape)
    assert heights[known] == pytest.approx(expected[known])
    assert figure.layout.xaxis.type == "log"


def test_a_search_by_tasks_is_named_by_their_main_scores() -> None:
    title = "retrieval:faq dev, main score × 100"
    assert dev_quantity("retrieval:faq").title == title
    assert metric_quantity("dev/retrieval:faq_main_score").title == title
    assert dev_quantity("stsb+mteb:X").title == "STS-B + mteb:X dev, mean × 100"
