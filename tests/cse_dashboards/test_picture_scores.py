from dataclasses import replace

import numpy as np
import pytest
from searches import searched

from cse_dashboards.figures.board.buckets import buckets, draw_buckets
from cse_dashboards.figures.board.differences import differences
from cse_dashboards.figures.board.leaderboard import draw_leaderboard, leaderboard_pictures
from cse_dashboards.figures.board.pair_scatter import pair_scatter
from cse_dashboards.figures.board.ranking_scores import draw_ranking_scores, ranking_pictures
from cse_dashboards.figures.labels import (
    best_scored_trial,
    method_colours,
    score_quantity,
    styles_in_order,
)
from cse_dashboards.figures.picture import Drawn, Picture
from cse_dashboards.figures.search.effect import hyperparameter_effects
from cse_dashboards.figures.search.surface import surface
from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_methods.names import method_name
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.past_searches import SearchHistory
from cse_platform.leaderboard.records import Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.compare import Comparison, TaskComparison
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.sweep.space.space import Space

AVERAGE = score_quantity("avg_sts")


def estimate(mean: float, *, seeds: int = 3, interval: Interval | None = None) -> Estimate:
    std = 0.01 if seeds > 1 else None
    return Estimate(dict.fromkeys(range(seeds), mean), mean, std, mean, interval)


def drawn(scores: dict[str, Estimate]) -> Drawn:
    """The board's figure, a method a row."""
    return draw_leaderboard(
        scores, AVERAGE, {label: label for label in scores}, method_colours(scores)
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


def test_ranking_has_a_panel_a_measure_and_a_bar_a_method() -> None:
    scores = {
        "a": {"avg_sts_kcc": estimate(0.4), "avg_sts_ndcg": estimate(0.9)},
        "b": {"avg_sts_kcc": estimate(0.5, seeds=1)},
    }
    columns = ["avg_sts_kcc", "avg_sts_ndcg"]
    figure = draw_ranking_scores(scores, columns, styles_in_order(scores)).figure
    kcc, ndcg = figure.data
    assert (list(kcc.x), list(kcc.y)) == (["a", "b"], pytest.approx([40, 50]))
    assert kcc.error_y.array == (pytest.approx(1), None)
    assert (list(ndcg.x), list(ndcg.y)) == (["a"], [90])
    assert (kcc.yaxis, ndcg.yaxis) == ("y", "y2")
    assert figure.layout.yaxis.title.text == "STS average test, KCC × 100"
    assert figure.layout.yaxis2.title.text == "STS average test, NDCG × 100"


def task(name: str, effect: float, *, interval: Interval | None, p: float | None) -> TaskComparison:
    """One of three tasks, whose p is corrected for that."""
    alone = None if p is None else p / 3
    return TaskComparison(
        name, 0.6 + effect, 0.6, 3, 3, effect, interval, alone, p, None, None, None, 80
    )


def test_differences_have_their_intervals_and_p_and_are_hollow_where_zero_is_inside() -> None:
    tasks = (
        task("sts12", 0.02, interval=Interval(0.01, 0.04, "seeds"), p=0.0002),
        task("stsb", -0.01, interval=Interval(-0.03, 0.01, "seeds"), p=0.4),
        task("sickr", 0.0, interval=None, p=None),
    )
    figure = differences(Comparison("a", "b", tasks=tasks, average=None)).figure

    [effects] = figure.data
    assert list(effects.y) == ["STS12", "STS-B", "SICK-R"]
    assert list(effects.x) == pytest.approx([2, -1, 0])
    assert effects.error_x.array == (pytest.approx(2), pytest.approx(2), None)
    assert effects.error_x.arrayminus == (pytest.approx(1), pytest.approx(2), None)
    assert effects.marker.symbol == ("circle", "circle-open", "circle-open")
    assert [note.text for note in figure.layout.annotations] == ["p <0.001", "p 0.400", "p unknown"]
    assert figure.layout.xaxis.title.text == "a minus b, Spearman × 100"
    assert figure.layout.shapes[0].x0 == 0


def test_buckets_hold_pairs_by_gold_up_to_and_with_the_last_grade() -> None:
    one = np.array([0.1, 0.2, 0.3, 0.9]), np.array([0.0, 1.0, 4.999, 5.0])
    figure = draw_buckets({"a": one, "b": one}, styles_in_order("ab"), title="").figure

    mine = [ridge for ridge in figure.data if ridge.name == "a"]
    buckets = [[0.1], [0.2], [], [], [0.3, 0.9]]
    assert [list(ridge.x) for ridge in mine] == [pytest.approx(one) for one in buckets]
    assert set(mine[-1].y) == {"4-5"}
    assert figure.layout.xaxis.title.text == "cosine"
    assert figure.layout.yaxis.title.text == "gold score"
    assert {ridge.xaxis for ridge in figure.data if ridge.name == "b"} == {"x2"}


def on_dev(row: LeaderboardRow) -> LeaderboardRow:
    return replace(row, scores={}, headline=None)


def marked(picture: Picture) -> list[str]:
    shown = (trace for trace in picture.figure.data if trace.showlegend is False)
    return [label for trace in shown for label in trace.y]


def test_papers_stand_on_the_line_of_their_method_and_backbone(lab: Leaderboard) -> None:
    [row] = lab.rows(Filters(method="simcse"), ranked=False)
    ours = replace(on_data(row, "senteval"), backbone="bert-base")
    papers = lab.published(backbone="bert-base", method="simcse")
    renamed = [replace(paper, system="their name") for paper in papers]
    [picture] = leaderboard_pictures([ours], renamed)
    [of_all] = leaderboard_pictures(lab.rows())
    assert [len(trace.x) for trace in of_all.figure.data[::2]] == [2, 1]
    assert "the examples of a single seed" in of_all.caption
    theirs = picture.figure.data[-2]
    assert set(theirs.y) == {"SimCSE BERT-base"} and theirs.marker.symbol == "circle-open"
    assert theirs.hovertext[0].startswith("their name in compcse table1, ")
    [picture] = leaderboard_pictures([ours], [replace(papers[0], apart=("llm",))])
    assert list(picture.figure.data[-2].y) == ["SimCSE (llm) BERT-base"]  # on a line of its own


def test_without_test_scores_the_leaderboard_is_of_dev(rows: list[LeaderboardRow]) -> None:
    [picture] = leaderboard_pictures([on_dev(row) for row in rows])
    assert picture.figure.layout.xaxis.title.text == "STS-B dev, Spearman × 100"
    assert "cse-evaluate" in picture.caption
    assert picture.figure.data[0].x[0] == pytest.approx(100 * rows[0].dev_score.mean)
    [some] = leaderboard_pictures([rows[0], on_dev(rows[1])])
    assert len(some.figure.data[0].x) == 1
    assert "not shown: 1." in some.caption


def on_data(row: LeaderboardRow, source: str) -> LeaderboardRow:
    scores = {column: replace(one, source=source) for column, one in row.scores.items()}
    return replace(row, scores=scores, dev=replace(row.dev, source=source))


def test_unlike_test_data_never_shares_a_figure(lab, rows) -> None:
    mixed = [on_data(rows[0], "builtin"), on_data(rows[1], "senteval"), on_data(rows[2], "hub")]
    builtin, senteval = leaderboard_pictures(mixed, lab.published(backbone="bert-base"))

    assert marked(builtin) == [f"{method_name(rows[0].method)} mini"]
    ours = [one for one in marked(senteval) if one.endswith(" mini")]
    assert sorted(ours) == sorted(f"{method_name(row.method)} mini" for row in rows[1:])
    assert senteval.figure.data[-1].name == "published"
    assert builtin.name == "leaderboard_built_in_data"
    assert senteval.name == "leaderboard_senteval_data"
    assert "built-in data" in builtin.title and "built-in data" in builtin.caption
    assert "SentEval data" in senteval.title


def test_unlike_dev_data_and_dev_sets_never_share_a_figure(lab, rows: list[LeaderboardRow]) -> None:
    mixed = [on_data(rows[0], "builtin"), on_data(rows[1], "senteval"), on_data(rows[2], "hub")]
    builtin, senteval = leaderboard_pictures([on_dev(row) for row in mixed])
    assert marked(builtin) == [f"{method_name(rows[0].method)} mini"]
    assert "SentEval data" in senteval.caption
    builtin, senteval = dev_curve_pictures(lab, mixed, "dev/stsb_spearman")
    lines = {trace.name for trace in builtin.figure.data if trace.showlegend is not False}
    assert lines == {method_name(rows[0].method)}
    lines = {trace.name for trace in senteval.figure.data if trace.showlegend is not False}
    assert lines == {method_name(row.method) for row in rows[1:]}
    assert len(alignment_uniformity(lab, mixed)) == 2
    assert len(dev_curve_pictures(lab, mixed, "train/loss")) == 1
    recorded = [replace(on_data(row, "recorded"), sweep=f"of-{row.method}") for row in rows[:2]]
    titles = [picture.title for picture in leaderboard_pictures([*map(on_dev, recorded)])]
    assert titles == [f"Leaderboard, stsb dev, data of of-{row.method}" for row in recorded]
    sickr = replace(rows[1], dev=replace(rows[1].dev, search="sickr"))
    pictures = leaderboard_pictures([on_dev(rows[0]), on_dev(sickr)])
    titles = [picture.figure.layout.xaxis.title.text for picture in pictures]
    assert titles == ["STS-B dev, Spearman × 100", "SICK-R dev, Spearman × 100"]


def test_what_lacks_comes_with_the_way_to_it(lab: Leaderboard, rows: list[LeaderboardRow]) -> None:
    for [picture], way_out in (
        (alignment_uniformity(lab, rows), "cse-sweep"),
        (ranking_pictures(lab, rows), "cse-evaluate TRIAL --tasks ranking"),
        ([buckets(lab, rows, "mr")], "tasks sts"),
        (leaderboard_pictures([]), "cse-sweep"),
        (dev_curve_pictures(lab, rows, "dev/sickr_spearman"), "dev/sickr_spearman"),
    ):
        assert picture.figure is None
        assert way_out in (picture.missing or "")


def test_buckets_and_pairs_are_of_the_best_scored_seeds(lab, rows) -> None:
    picture = buckets(lab, [rows[0], on_dev(rows[1])], "sts12")
    best = best_scored_trial(rows[0], "sts12")
    shown = sum(len(ridge.x) for ridge in picture.figure.data)
    assert best == rows[0].keys[2]  # dev rises with the seed
    assert shown == len(lab.examples(best, "sts12").values)
    assert f"left out: {method_name(rows[1].method)}" in picture.caption
    picture = pair_scatter(lab, rows[0], rows[1], "stsb")
    assert picture.figure.layout.xaxis.title.text == f"cosine, {method_name(rows[0].method)}"
    assert len(picture.figure.data[0].x) == 80
    picture = pair_scatter(lab, rows[0], on_dev(rows[1]), "stsb")
    assert picture.figure is None
    assert f"{rows[1].method} has no score on stsb" in (picture.missing or "")


def history(space: dict[str, object], *values: dict[str, object], total: int = 0) -> SearchHistory:
    trials = tuple(searched(n, one) for n, one in enumerate(values))
    known = Space.model_validate(space)
    return SearchHistory("mine", "stsb", known, trials, total or len(trials))


TAUS = {"groups": [1, 2, 3], "tau3": [0.1, 0.2], "tau2": [0.3, 0.4]}


def test_every_searched_setting_has_a_picture() -> None:
    pictures = hyperparameter_effects(history(TAUS, {"groups": 1, "tau2": 0.3}))
    assert [one.name for one in pictures] == ["setting_groups", "setting_tau3", "setting_tau2"]
    assert pictures[1].figure is None
    assert (pictures[1].missing or "").endswith(" tau3")
    assert pictures[2].figure is not None
    [unknown] = hyperparameter_effects(history({}, {"groups": 1}))
    assert "what sweep mine searched is unknown" in (unknown.missing or "")
    [sample] = hyperparameter_effects(history({"a": [1]}, {"a": 1}, total=50_000))
    assert "Of 50000 trials 1 are shown" in sample.caption


def test_a_surface_is_of_the_settings_asked_for_or_the_papers() -> None:
    found = history(TAUS, {"groups": 1, "tau2": 0.3, "tau3": 0.1})
    for x, y, title in (
        (None, None, "tau2 and tau3"),
        ("groups", None, "groups and tau2"),
        (None, "tau2", "tau3 and tau2"),
        ("tau3", "groups", "tau3 and groups"),
    ):
        picture = surface(found, x, y)
        assert picture.title == title
        assert picture.figure.layout.xaxis.title.text == title.split()[0]
    for x, y in (("tau2", "tau2"), ("nope", None)):
        picture = surface(found, x, y)
        assert picture.figure is None
        assert "(groups, tau3, tau2), got " in (picture.missing or "")
    # Else it is of the settings with most values.
    several = [{"a": 1, "b": n % 2 + 1, "c": n} for n in (1, 2, 3)]
    assert surface(history({"a": [1], "b": [1, 2], "c": [1, 2, 3]}, *several)).title == "c and b"
