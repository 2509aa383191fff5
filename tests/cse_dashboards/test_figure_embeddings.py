"""Figures of embeddings, by hand-made vectors."""

import numpy as np
import pytest

from cse_dashboards.figures.embeddings.case_study import draw_case_study
from cse_dashboards.figures.embeddings.diversity import WhiteningSide, draw_diversity
from cse_dashboards.figures.embeddings.heat_map import draw_heat_map
from cse_dashboards.figures.embeddings.projection import draw_projection

LONG = "The monarch pledges the gem to the author by the sea, and so on and on and on."
SENTENCES = ["A dog.", LONG]
FIRST, SECOND = np.array([[1, 0.25], [0.25, 1]]), np.array([[1, -0.5], [-0.5, 1]])


def test_a_panel_a_model_on_one_scale() -> None:
    figure = draw_heat_map(SENTENCES, {"simcse": FIRST, "rankcse": SECOND}).figure
    assert [trace.name for trace in figure.data] == ["simcse", "rankcse"]
    assert [note.text for note in figure.layout.annotations] == ["simcse", "rankcse"]
    assert np.array_equal(figure.data[1].z, SECOND)
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}
    shades = figure.layout.coloraxis
    assert (shades.cmin, shades.cmax, shades.colorbar.title.text) == (-0.5, 1, "cosine")


def test_long_sentences_are_short_on_the_axis_alone() -> None:
    figure, data = draw_heat_map(SENTENCES, {"simcse": FIRST})
    assert figure.layout.xaxis.ticktext == ("A", "B")
    short, cut = figure.layout.yaxis.ticktext
    assert short == "A · A dog." and cut.startswith("B · The monarch") and cut.endswith("…")
    assert figure.data[0].y[1] == LONG and LONG in figure.data[0].customdata[0][1]
    assert list(data.columns) == ["model", "sentence", "other", "cosine"]
    assert ["simcse", SENTENCES[0], LONG, 0.25] in data.to_numpy().tolist()


def test_numbers_stand_in_cells_that_have_room() -> None:
    for count, written in ((10, "%{z:.2f}"), (11, None)):
        figure = draw_heat_map([f"s{n}" for n in range(count)], {"simcse": np.eye(count)}).figure
        assert figure.data[0].texttemplate == written


def test_each_target_is_a_line_through_its_ranks() -> None:
    figure, data = draw_case_study(
        [("near",), ("middle",), ("far",)],
        [5, 2.5, 0],
        {"simcse": [0.25, 0.75, 0.5], "rankcse": [0.9, 0.8, 0.8]},
        title="Ranking for “q”",
    )
    assert [trace.name for trace in figure.data] == ["near", "middle", "far"]
    assert list(figure.data[0].x) == ["gold", "simcse", "rankcse"]
    # of equal scores the earlier target comes first
    assert [list(trace.y) for trace in figure.data] == [[1, 3, 1], [2, 1, 2], [3, 2, 3]]
    assert list(figure.data[1].text) == ["2.5", "0.75", "0.80"]
    layout = figure.layout
    assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("ranked by", "rank")
    assert layout.yaxis.ticktext == ("near", "middle", "far")
    assert layout.yaxis.range[0] > layout.yaxis.range[1]  # rank 1 is on top
    assert list(data.columns) == ["target", "ranked by", "rank", "score"]
    assert ["near", "simcse", 3, 0.25] in data.to_numpy().tolist()


def test_the_sentences_of_a_pair_stand_below_each_other() -> None:
    long = "word " * 20
    figure = draw_case_study(
        [(long, "b"), ("c", "d")], [5, 0], {"m": np.array([1, 0])}, title="pairs"
    ).figure
    first, second = figure.layout.yaxis.ticktext
    assert first.count("<br>") == 1 and "…<br>b" in first and second == "c<br>d"
    assert figure.data[0].name == f"{long} ↔ b"


POINTS = np.array([[0.0, 1.0], [2.0, 3.00004]])


def test_points_are_coloured_by_words_on_one_scale() -> None:
    planes = {
        "simcse": (POINTS, ("PC 1, 40.0% of variance", "PC 2, 9.0% of variance")),
        "hicl": (-POINTS, ("PC 1, 30.0% of variance", "PC 2, 8.0% of variance")),
    }
    figure, data = draw_projection(["a dog", "a dog barks"], [2, 3], planes)
    assert [trace.name for trace in figure.data] == ["simcse", "hicl"]
    assert [list(trace.marker.color) for trace in figure.data] == [[2, 3], [2, 3]]
    assert {trace.marker.coloraxis for trace in figure.data} == {"coloraxis"}
    assert figure.layout.coloraxis.colorbar.title.text == "words"
    assert list(figure.data[1].x) == [0, -2] and list(figure.data[0].y) == [1, 3]
    assert figure.layout.xaxis.title.text == "PC 1, 40.0% of variance"
    assert figure.layout.yaxis2.title.text == "PC 2, 8.0% of variance"
    assert list(data.columns) == ["model", "sentence", "words", "x", "y"]
    assert ["simcse", "a dog barks", 3, 2.0, 3.0] in data.to_numpy().tolist()


def test_four_panels_make_a_square() -> None:
    planes = dict.fromkeys("abcd", (POINTS, ("UMAP 1", "UMAP 2")))
    figure = draw_projection(["a dog", "a dog barks"], [2, 3], planes).figure
    assert len({axis.domain for axis in figure.select_xaxes()}) == 2
    assert len({axis.domain for axis in figure.select_yaxes()}) == 2


def side(scale: float) -> WhiteningSide:
    return WhiteningSide(
        background=scale * np.array([[0.0, 1], [1, 0], [1, 1]]),
        positives={"A dog.": scale * np.array([[0.0, 1], [0.5, 1]])},
        axes=(f"PC 1 of {scale}", f"PC 2 of {scale}"),
        distances=scale * np.array([0.1, 0.2, 0.6]),
        others=scale,
    )


def test_two_planes_and_how_far_apart_positives_are() -> None:
    figure, data = draw_diversity({"raw": side(1), "whitened": side(2)})
    assert [note.text for note in figure.layout.annotations] == ["raw", "whitened", "Diversity"]
    before, own, after, own_after, positives, others = figure.data
    assert (before.name, own.name, own_after.name) == ("all sentences", "A dog.", "A dog.")
    assert list(own.x) == [0, 0.5] and list(own_after.x) == [0, 1] and list(after.y) == [2, 0, 2]
    assert figure.layout.xaxis2.title.text == "PC 1 of 2"
    assert (positives.name, list(positives.x)) == (
        "positives of one sentence",
        ["raw", "whitened"],
    )
    # of 0.1, 0.2 and 0.6: mean 0.3, sum of squared differences 0.14, over n - 1 = 2
    assert positives.y == pytest.approx((0.3, 0.6))
    assert positives.error_y.array == pytest.approx((0.07**0.5, 2 * 0.07**0.5))
    assert list(others.y) == [1, 2]
    assert figure.layout.yaxis3.title.text == "mean cosine distance"
    means = data.set_index(["vectors", "shown"])["mean cosine distance"].dropna().to_dict()
    assert means == pytest.approx(
        {
            ("raw", "positives of one sentence"): 0.3,
            ("raw", "different sentences"): 1,
            ("whitened", "positives of one sentence"): 0.6,
            ("whitened", "different sentences"): 2,
        }
    )
    positives = data[data["shown"] == "positive"]
    assert positives[["x", "y"]].to_numpy().tolist() == [[0, 1], [0.5, 1], [0, 2], [1, 2]]


def test_a_name_stands_once_in_the_legend() -> None:
    figure = draw_diversity({"raw": side(1), "whitened": side(2)}).figure
    shown = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert len(shown) == len(set(shown)) == 4
