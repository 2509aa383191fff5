"""Figures of scores, by hand-made ones."""

from typing import Any

import numpy as np
import pytest

from cse_dashboards.figures.board.buckets import draw_buckets
from cse_dashboards.figures.board.differences import draw_differences
from cse_dashboards.figures.board.leaderboard import draw_leaderboard
from cse_dashboards.figures.board.pair_scatter import draw_pair_scatter
from cse_dashboards.figures.board.ranking_scores import draw_ranking_scores
from cse_dashboards.figures.labels import score_quantity
from cse_dashboards.figures.picture import Drawn
from cse_dashboards.figures.rows import styles_in_order
from cse_methods.evaluation.results import Similarities
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Estimate
from cse_platform.leaderboard.statistics.results import Comparison, Interval, TaskComparison

AVERAGE = score_quantity("avg_sts")


def estimate(mean: float, *, seeds: int = 3, interval: Interval | None = None) -> Estimate:
    std = 0.01 if seeds > 1 else None
    return Estimate(dict.fromkeys(range(seeds), mean), mean, std, mean, interval)


def drawn(scores: dict[str, Estimate], **given: Any) -> Drawn:
    """The board's figure, a method a row."""
    return draw_leaderboard(scores, AVERAGE, {label: label for label in scores}, **given)


def published(value: float) -> PublishedRow:
    return PublishedRow(
        paper="simcse",
        table="table5",
        backbone="bert-base",
        system="SimCSE",
        method="simcse",
        settings={"seeds": "5"},
        configuration={},
        split="test",
        scores={"avg_sts": value},
        std={},
        sources=("simcse table5",),
    )


def similarities(*cosines: float, gold: tuple[float, ...]) -> Similarities:
    return Similarities(
        "stsb", "test", "e1", np.array(cosines, np.float32), np.array(gold), {}, "sha"
    )


def test_the_leaderboard_has_the_best_on_top_and_its_interval() -> None:
    scores = {
        "best": estimate(0.8, interval=Interval(0.75, 0.9, "seeds")),
        "worst": estimate(0.6, interval=Interval(0.5, 0.7, "seeds")),
    }
    figure = drawn(scores).figure

    ours, _ = figure.data
    assert dict(zip(ours.y, ours.x, strict=True)) == pytest.approx({"best": 80, "worst": 60})
    assert list(ours.error_x.array) == pytest.approx([10, 10])
    assert list(ours.error_x.arrayminus) == pytest.approx([5, 10])
    assert figure.layout.yaxis.categoryarray == ("worst", "best")  # from the bottom
    assert figure.layout.xaxis.title.text == "STS average test, Spearman × 100"
    many = drawn({str(n): estimate(0.5) for n in range(50)}).figure
    assert many.layout.height > 2 * figure.layout.height  # it grows with its rows


def test_a_single_seed_looks_unlike_several_and_may_lack_an_interval() -> None:
    scores = {
        "many": estimate(0.8, interval=Interval(0.7, 0.9, "seeds")),
        "one": estimate(0.7, seeds=1, interval=Interval(0.6, 0.8, "pairs")),
        "bare": estimate(0.6, seeds=1),
    }
    traces = drawn(scores).figure.data[::2]  # a key beside each

    assert {trace.name: trace.y for trace in traces} == {
        "mean over seeds, 95 % interval": ("many",),
        "one seed, 95 % interval over pairs": ("one",),
        "one seed, no interval": ("bare",),
    }
    assert len({trace.marker.symbol for trace in traces}) == 3
    assert traces[-1].error_x.array == (None,)


def test_published_numbers_are_hollow_and_say_where_they_are_from() -> None:
    figure = drawn(
        {"SimCSE BERT-base": estimate(0.7)},
        column="avg_sts",
        published=[("SimCSE BERT-base", published(0.76)), ("other", published(0.75))],
    ).figure
    theirs = figure.data[-2]
    assert theirs.marker.symbol == "circle-open"
    assert list(theirs.x) == pytest.approx([76, 75])
    assert theirs.hovertext[0] == "SimCSE in simcse table5 (seeds=5)"
    assert figure.layout.yaxis.categoryarray == ("SimCSE BERT-base", "other")  # ours: 70


def test_ranking_has_a_panel_a_measure_and_a_bar_a_method() -> None:
    scores = {
        "a": {"avg_sts_kcc": estimate(0.4), "avg_sts_ndcg": estimate(0.9)},
        "b": {"avg_sts_kcc": estimate(0.5, seeds=1)},
    }
    figure = draw_ranking_scores(
        scores, ["avg_sts_kcc", "avg_sts_ndcg"], styles_in_order(scores)
    ).figure
    kcc, ndcg = figure.data
    assert (list(kcc.x), list(kcc.y)) == (["a", "b"], pytest.approx([40, 50]))
    assert kcc.error_y.array == (pytest.approx(1), None)
    assert (list(ndcg.x), list(ndcg.y)) == (["a"], [90])
    assert (kcc.yaxis, ndcg.yaxis) == ("y", "y2")
    assert figure.layout.yaxis.title.text == "STS average test, KCC × 100"
    assert figure.layout.yaxis2.title.text == "STS average test, NDCG × 100"


def task(name: str, effect: float, *, interval: Interval | None, p: float | None) -> TaskComparison:
    return TaskComparison(name, 0.6 + effect, 0.6, effect, interval, p, p, None, None, None, 80)


def test_differences_have_their_intervals_and_p_and_are_hollow_where_zero_is_inside() -> None:
    compared = Comparison(
        "a",
        "b",
        n_a=3,
        n_b=3,
        tasks=(
            task("sts12", 0.02, interval=Interval(0.01, 0.04, "seeds"), p=0.0002),
            task("stsb", -0.01, interval=Interval(-0.03, 0.01, "seeds"), p=0.4),
            task("sickr", 0.0, interval=None, p=None),
        ),
        average=None,
    )
    figure = draw_differences(compared).figure

    [effects] = figure.data
    assert (list(effects.y), list(effects.x)) == (
        ["STS12", "STS-B", "SICK-R"],
        pytest.approx([2, -1, 0]),
    )
    assert effects.error_x.array == (pytest.approx(2), pytest.approx(2), None)
    assert effects.error_x.arrayminus == (pytest.approx(1), pytest.approx(2), None)
    assert effects.marker.symbol == ("circle", "circle-open", "circle-open")
    assert [note.text for note in figure.layout.annotations] == ["p <0.001", "p 0.400", "p unknown"]
    assert figure.layout.xaxis.title.text == "a minus b, Spearman × 100"
    assert figure.layout.shapes[0].x0 == 0


def test_differences_in_several_measures_have_an_axis_of_none_of_them() -> None:
    tasks = tuple(task(name, 0.02, interval=None, p=None) for name in ("stsb_kcc", "stsb_ndcg"))
    figure = draw_differences(Comparison("a", "b", n_a=1, n_b=1, tasks=tasks, average=None)).figure
    assert figure.layout.xaxis.title.text == "a minus b, × 100"
    assert list(figure.data[0].y) == ["STS-B KCC", "STS-B NDCG"]


def test_pairs_are_coloured_by_gold_and_have_a_diagonal() -> None:
    gold = (0.0, 5.0)
    a, b = similarities(0.25, 0.5, gold=gold), similarities(0.125, 0.75, gold=gold)
    figure = draw_pair_scatter("a", a, "b", b).figure

    [points] = figure.data
    assert (list(points.x), list(points.y)) == ([0.25, 0.5], [0.125, 0.75])
    assert list(points.marker.color) == [0, 5]
    assert points.marker.colorbar.title.text == "gold score"
    [diagonal] = figure.layout.shapes
    assert (diagonal.x0, diagonal.y0, diagonal.x1, diagonal.y1) == (0.125, 0.125, 1, 1)
    assert figure.layout.xaxis.title.text == "cosine, a"
    assert figure.layout.yaxis.title.text == "cosine, b"


def test_buckets_hold_pairs_by_gold_up_to_and_with_the_last_grade() -> None:
    one = similarities(0.1, 0.2, 0.3, 0.9, gold=(0.0, 1.0, 4.999, 5.0))
    figure = draw_buckets({"a": one, "b": one}, styles_in_order("ab")).figure

    mine = [ridge for ridge in figure.data if ridge.name == "a"]
    assert [list(ridge.x) for ridge in mine] == [
        pytest.approx([0.1]),
        pytest.approx([0.2]),
        [],
        [],
        pytest.approx([0.3, 0.9]),
    ]
    assert set(mine[-1].y) == {"4-5"}
    assert figure.layout.xaxis.title.text == "cosine"
    assert figure.layout.yaxis.title.text == "gold score"
    assert {ridge.xaxis for ridge in figure.data if ridge.name == "b"} == {"x2"}
