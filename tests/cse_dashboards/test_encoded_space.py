import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_dashboards.encoded import by_pca, paired_cosines, shuffled_whitening
from cse_dashboards.figures.embeddings.case_study import case_of, draw_case_study
from cse_dashboards.figures.embeddings.diversity import diversity_of, draw_diversity
from cse_dashboards.figures.embeddings.heat_map import all_cosines
from cse_dashboards.figures.embeddings.sentences import LacksError, differing_pairs, spread_by_gold
from cse_dashboards.figures.embeddings.spread import by_direction
from cse_methods.data.pairs import GradedPair, PairSet

HUB = [("hub", f"t{n}", float(n)) for n in range(5)]
"""A sentence in five pairs."""


def dev_of(*pairs: tuple[str, str, float]) -> PairSet:
    first, second, gold = zip(*pairs, strict=True)
    return PairSet("stsb", "builtin", first, second, np.array(gold), "", {})


def test_a_case_study_ranks_the_targets_of_a_query_or_else_pairs() -> None:
    others = [("a", "b", 5.0), *(("less", f"u{n}", 1.0) for n in range(4))]
    pairs = [("hub", f"t{n}", n) for n in (4, 3, 2, 1, 0)]
    assert case_of(dev_of(*others, *HUB)) == ("hub", pairs)
    _, eight = case_of(dev_of(*(("hub", f"t{n}", n / 4) for n in range(20))))  # of many targets
    assert len(eight) == 8 and (eight[0].gold, eight[-1].gold) == (4.75, 0)
    dev = dev_of(("q", "a", 1.0), ("b", "q", 3.0), ("q", "c", 2.0), ("a", "q", 5.0), ("q", "q", 5))
    assert case_of(dev, "  q ") == ("q", [("q", "b", 3), ("q", "c", 2), ("q", "a", 1)])
    for query in ("t1", "nobody's"):
        with pytest.raises(LacksError, match="fewer than 3 targets"):
            case_of(dev_of(*HUB), query)
    query, pairs = case_of(dev_of(*((f"a{n}", f"b{n}", float(n)) for n in range(11))))
    assert query is None
    assert [pair.gold for pair in pairs] == [10, 8, 6, 4, 2, 0]
    assert pairs[0][:2] == ("a10", "b10")


def test_short_pairs_are_taken_and_none_that_differ_in_marks_alone() -> None:
    dev = dev_of(("a long one", "b", 5.0), ("short", "b", 5.0), ("c", "d", 0.0))
    assert spread_by_gold(dev, range(3), 2) == [1, 2]
    assert differing_pairs(dev_of(("A dog .", "a dog", 5.0), ("a dog", "dog a", 4.0))) == [1]


@settings(max_examples=50, deadline=None)
@given(gold=st.lists(st.floats(0, 5), min_size=1, max_size=30), count=st.integers(1, 10))
def test_a_spread_falls_from_the_highest_gold(gold: list[float], count: int) -> None:
    dev = dev_of(*((f"a{n}", f"b{n}", value) for n, value in enumerate(gold)))
    found = [gold[place] for place in spread_by_gold(dev, range(len(gold)), count)]
    assert len(found) == min(count, len(gold))
    assert found == sorted(found, reverse=True) and found[0] == max(gold)
    assert count == 1 or found[-1] == min(gold)


def test_cosines_planes_directions_and_diversity_by_hand() -> None:
    vectors = np.array([[3.0, 0], [1, 1], [0, 0]])
    half = 1 / np.sqrt(2)
    assert all_cosines(vectors) == pytest.approx(
        np.array([[1, half, 0], [half, 1, 0], [0, 0, 0]]), abs=1e-4
    )
    assert paired_cosines(vectors[:2], vectors[1:]) == pytest.approx([half, 0])
    # On the unit circle around (1, 0): all variance is up and down but for the circle's bend.
    angles = np.array([-0.2, -0.1, 0.1, 0.2])
    plane = by_pca(7 * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1))
    assert np.abs(plane.points[:, 0]) == pytest.approx(np.abs(np.sin(angles)))
    assert plane.axes[0].startswith("PC 1, 99.") and plane.axes[1].endswith("% of variance")
    # The first sentence's positives stand at right angles, the second's are one.
    views = np.array([[[2.0, 0], [0, 1]], [[0, 3], [0, 1]]])
    positives, others = diversity_of(views)
    assert positives == pytest.approx([1, 0])
    # Different sentences: at right angles in the first view, the same direction in the second.
    assert others == pytest.approx(0.5)
    # Both are 0.8 along the first axis, and opposite on the other.
    plane = by_direction(np.array([[-8.0, 0.0, 6.0], [-4.0, 0.0, -3.0]]))
    assert plane.axes == ("direction 1, 64.0% of length²", "direction 2, 36.0% of length²")
    assert plane.points[:, 0] == pytest.approx([0.8, 0.8])
    assert sorted(plane.points[:, 1]) == pytest.approx([-0.6, 0.6])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), groups=st.sampled_from([2, 4, 8]))
def test_each_view_is_whitened_in_groups_of_its_own(seed: int, groups: int) -> None:
    rows = np.random.default_rng(seed).normal(2, 3, (40, 8)) @ np.tri(8)
    white = shuffled_whitening(np.stack([rows, rows]), groups=groups)
    assert white.mean(axis=1) == pytest.approx(np.zeros((2, 8)), abs=1e-4)
    assert white.std(axis=1) == pytest.approx(np.ones((2, 8)), rel=1e-3)
    # Groups of one coordinate leave nothing to draw; others make two positives of one encoding.
    assert np.allclose(white[0], white[1], atol=1e-3) == (groups == 8)


def test_each_target_is_a_line_through_its_ranks() -> None:
    scores = {"simcse": [0.25, 0.75, 0.5], "rankcse": [0.9, 0.8, 0.8]}
    graded = {"near": 5, "middle": 2.5, "far": 0}
    pairs = [GradedPair("q", target, gold) for target, gold in graded.items()]
    figure, data = draw_case_study("q", pairs, scores)
    assert [trace.name for trace in figure.data] == ["near", "middle", "far"]
    assert list(figure.data[0].x) == ["gold", "simcse", "rankcse"]
    # of equal scores the earlier target comes first
    assert [list(trace.y) for trace in figure.data] == [[1, 3, 1], [2, 1, 2], [3, 2, 3]]
    assert list(figure.data[1].text) == ["2.5", "0.75", "0.80"]
    layout = figure.layout
    assert layout.yaxis.ticktext == ("near", "middle", "far")
    assert layout.yaxis.range[0] > layout.yaxis.range[1]  # rank 1 is on top
    assert ["near", "simcse", 3, 0.25] in data.to_numpy().tolist()


def test_two_planes_and_how_far_apart_positives_are() -> None:
    raw = np.random.default_rng(0).normal(size=(2, 3, 4))
    sides, sentences = {"raw": raw, "whitened": -raw[::-1]}, ["A dog.", "A cat.", "A king."]
    figure, data = draw_diversity(sides, sentences)
    assert [note.text for note in figure.layout.annotations] == ["raw", "whitened", "Diversity"]
    every, *own, positives, others = (
        trace for trace in figure.data if trace.showlegend is not False
    )
    assert [trace.name for trace in (every, *own)] == ["all sentences", *sentences]
    assert (len(every.x), len(own[0].x)) == (3, 2)
    distances, distance = diversity_of(raw)
    assert positives.y[0] == pytest.approx(distances.mean())
    assert positives.error_y.array[0] == pytest.approx(distances.std(ddof=1))
    assert list(others.y) == pytest.approx([distance] * 2)
    assert figure.layout.xaxis.title.text.startswith("PC 1, ")
    assert figure.layout.yaxis3.title.text == "mean cosine distance"
    means = data.set_index(["vectors", "shown"])["mean cosine distance"].dropna().to_dict()
    assert means["raw", "different sentences"] == pytest.approx(distance)
    marked = data[(data["shown"] == "positive") & (data["vectors"] == "raw")]
    assert marked["x"].tolist()[:2] == list(own[0].x)
