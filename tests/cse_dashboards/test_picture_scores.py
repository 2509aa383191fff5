"""Pictures of scores: from a leaderboard to figures, or to a sentence that says what lacks."""

from dataclasses import replace

import pytest
from searches import searched

from cse_dashboards.figures.board.buckets import buckets
from cse_dashboards.figures.board.differences import differences
from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.board.pair_scatter import pair_scatter
from cse_dashboards.figures.board.ranking_scores import ranking_pictures
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.rows import MOST_COLOURS, best_scored_trial
from cse_dashboards.figures.search.effect import hyperparameter_effects
from cse_dashboards.figures.search.surface import surface
from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_methods.names import method_name
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.sweep.space.space import Space


@pytest.fixture(scope="module")
def rows(lab: Leaderboard) -> list[LeaderboardRow]:
    return lab.rows(ranked=False)


def on_dev(row: LeaderboardRow) -> LeaderboardRow:
    return replace(row, scores={}, headline=None)


def marked(picture: Picture) -> list[str]:
    """The labels of all markers."""
    shown = (trace for trace in picture.figure.data if trace.showlegend is False)
    return [label for trace in shown for label in trace.y]


def test_the_leaderboard_shows_the_headline_best_on_top(lab: Leaderboard) -> None:
    [picture] = leaderboard_pictures(lab.rows())
    assert picture.figure.layout.yaxis.categoryarray[0] == "SimCSE mini"
    assert picture.figure.layout.xaxis.title.text == "STS average test, Spearman × 100"
    assert [len(trace.x) for trace in picture.figure.data[::2]] == [2, 1]
    assert "the pairs of a single seed" in picture.caption


def test_papers_stand_on_the_line_of_their_method_and_backbone(lab: Leaderboard) -> None:
    [row] = lab.rows(Filters(method="simcse"), ranked=False)
    ours = replace(on_data(row, "senteval"), backbone="bert-base")
    papers = lab.published(backbone="bert-base", method="simcse")
    [picture] = leaderboard_pictures(
        [ours], [replace(paper, system="their name") for paper in papers]
    )
    theirs = picture.figure.data[-2]
    assert set(theirs.y) == {"SimCSE BERT-base"}
    assert theirs.hovertext[0].startswith("their name in compcse table1, ")


def test_rows_without_the_score_are_counted(rows: list[LeaderboardRow]) -> None:
    [picture] = leaderboard_pictures([rows[0], on_dev(rows[1])])
    assert len(picture.figure.data[0].x) == 1
    assert "not shown: 1." in picture.caption


def test_without_test_scores_the_leaderboard_is_of_dev(rows: list[LeaderboardRow]) -> None:
    [picture] = leaderboard_pictures([on_dev(row) for row in rows])
    assert picture.figure.layout.xaxis.title.text == "STS-B dev, Spearman × 100"
    assert "cse-evaluate" in picture.caption
    assert picture.figure.data[0].x[0] == pytest.approx(100 * rows[0].dev_score.mean)


def on_data(row: LeaderboardRow, source: str) -> LeaderboardRow:
    scores = {column: replace(one, source=source) for column, one in row.scores.items()}
    return replace(row, scores=scores, dev=replace(row.dev, source=source))


def test_unlike_test_data_never_shares_a_figure(
    lab: Leaderboard, rows: list[LeaderboardRow]
) -> None:
    mixed = [on_data(rows[0], "builtin"), on_data(rows[1], "senteval"), on_data(rows[2], "hub")]
    builtin, senteval = leaderboard_pictures(mixed, lab.published(backbone="bert-base"))

    assert marked(builtin) == [f"{method_name(rows[0].method)} mini"]
    ours = [one for one in marked(senteval) if one.endswith(" mini")]
    assert sorted(ours) == sorted(f"{method_name(row.method)} mini" for row in rows[1:])
    assert senteval.figure.data[-1].name == "published"
    assert (builtin.name, senteval.name) == (
        "leaderboard_builtin_data",
        "leaderboard_senteval_data",
    )
    assert "builtin data" in builtin.title and "builtin data" in builtin.caption
    assert "SentEval data" in senteval.title


def test_unlike_dev_data_never_shares_a_figure(
    lab: Leaderboard, rows: list[LeaderboardRow]
) -> None:
    mixed = [on_data(rows[0], "builtin"), on_data(rows[1], "senteval"), on_data(rows[2], "hub")]
    builtin, senteval = leaderboard_pictures([on_dev(row) for row in mixed])
    assert marked(builtin) == [f"{method_name(rows[0].method)} mini"]
    assert "SentEval data" in senteval.caption
    builtin, senteval = dev_curve_pictures(lab, mixed, "dev/stsb_spearman")
    lines = {trace.name.partition(",")[0] for trace in builtin.figure.data}
    assert lines == {method_name(rows[0].method)}
    assert {trace.name.partition(",")[0] for trace in senteval.figure.data} == {
        method_name(row.method) for row in rows[1:]
    }
    assert len(alignment_uniformity(lab, mixed)) == 2
    assert len(dev_curve_pictures(lab, mixed, "train/loss")) == 1


def test_rows_of_several_dev_sets_have_a_figure_for_each(rows: list[LeaderboardRow]) -> None:
    sickr = replace(rows[1], dev=replace(rows[1].dev, search="sickr"))
    pictures = leaderboard_pictures([on_dev(rows[0]), on_dev(sickr)])

    assert [picture.figure.layout.xaxis.title.text for picture in pictures] == [
        "STS-B dev, Spearman × 100",
        "SICK-R dev, Spearman × 100",
    ]


def test_dev_curves_are_of_each_row(lab: Leaderboard, rows: list[LeaderboardRow]) -> None:
    [picture] = dev_curve_pictures(lab, rows, "dev/stsb_spearman")
    names = [trace.name for trace in picture.figure.data]
    assert {"HiCL", "SimCSE", "SNCSE", "HiCL, lowest seed"} <= {*names}
    assert "sncse, lowest seed" not in names  # a single seed
    assert picture.name == "dev_curves_dev_stsb_spearman"


def test_more_rows_than_colours_are_cut_and_counted(
    lab: Leaderboard, rows: list[LeaderboardRow]
) -> None:
    [picture] = dev_curve_pictures(lab, rows * MOST_COLOURS, "train/loss")
    assert f"The first {MOST_COLOURS} of {3 * MOST_COLOURS} rows are shown." in picture.caption


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


def test_buckets_are_of_the_best_scored_seed(lab: Leaderboard, rows: list[LeaderboardRow]) -> None:
    picture = buckets(lab, [rows[0], on_dev(rows[1])], "sts12")
    best = best_scored_trial(rows[0], "sts12")
    shown = sum(len(ridge.x) for ridge in picture.figure.data)
    assert best == rows[0].keys[2]  # dev rises with the seed
    assert shown == len(lab.similarities(best, "sts12").cosines)
    assert f"left out: {method_name(rows[1].method)}" in picture.caption


def test_a_comparison_is_drawn_with_its_notes(lab: Leaderboard) -> None:
    compared = lab.compare("hicl", "sncse")
    picture = differences(compared)

    assert len(picture.figure.data[0].x) == 8  # seven tasks and their average
    assert compared.notes
    assert all(note[1:].rstrip(".") in picture.caption for note in compared.notes)


def test_pairs_are_of_both(lab: Leaderboard, rows: list[LeaderboardRow]) -> None:
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
    assert "it is not known what sweep mine searched" in (unknown.missing or "")
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
