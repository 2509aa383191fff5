"""Ranks by gold and by models."""

import numpy as np

from cse_dashboards.figures.embeddings.case_study import draw_case_study


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
