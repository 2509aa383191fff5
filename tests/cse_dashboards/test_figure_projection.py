"""Sentences in a plane, by length."""

import numpy as np

from cse_dashboards.figures.embeddings.projection import draw_projection

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
