"""Similarities of sentences, a panel a model."""

import numpy as np

from cse_dashboards.figures.embeddings.heat_map import draw_heat_map

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
