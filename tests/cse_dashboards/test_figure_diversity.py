"""Positives before and after whitening."""

import numpy as np
import pytest

from cse_dashboards.figures.embeddings.diversity import WhiteningSide, draw_diversity


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
