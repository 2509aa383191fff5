"""Cosines, planes and positives of vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_dashboards.encoded import (
    all_cosines,
    by_direction,
    by_pca,
    diversity_of,
    paired_cosines,
    shuffled_whitening,
)


def test_cosines_by_hand() -> None:
    vectors = np.array([[3.0, 0], [1, 1], [0, 0]])
    half = 1 / np.sqrt(2)
    assert all_cosines(vectors) == pytest.approx(np.array([[1, half, 0], [half, 1, 0], [0, 0, 0]]))
    assert paired_cosines(vectors[:2], vectors[1:]) == pytest.approx([half, 0])


def test_the_first_axis_of_a_plane_is_that_of_most_variance() -> None:
    # On the unit circle around (1, 0): all variance is up and down but for the circle's bend.
    angles = np.array([-0.2, -0.1, 0.1, 0.2])
    plane = by_pca(7 * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1))
    assert np.abs(plane.points[:, 0]) == pytest.approx(np.abs(np.sin(angles)))
    assert plane.axes[0].startswith("PC 1, 99.") and plane.axes[1].endswith("% of variance")


def test_diversity_by_hand() -> None:
    # The first sentence's positives stand at right angles, the second's are one.
    views = np.array([[[2.0, 0], [0, 1]], [[0, 3], [0, 1]]])
    found = diversity_of(views)
    assert found.positives == pytest.approx([1, 0])
    # Different sentences: at right angles in the first view, the same direction in the second.
    assert found.others == pytest.approx(0.5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), groups=st.sampled_from([2, 4, 8]))
def test_each_view_is_whitened_in_groups_of_its_own(seed: int, groups: int) -> None:
    rows = np.random.default_rng(seed).normal(2, 3, (40, 8)) @ np.tri(8)
    white = shuffled_whitening(np.stack([rows, rows]), groups=groups)
    assert white.mean(axis=1) == pytest.approx(np.zeros((2, 8)), abs=1e-4)
    assert white.std(axis=1) == pytest.approx(np.ones((2, 8)), rel=1e-3)
    # Groups of one coordinate leave nothing to draw; others make two positives of one encoding.
    assert np.allclose(white[0], white[1], atol=1e-3) == (groups == 8)


def test_too_few_rows_cannot_be_whitened() -> None:
    with pytest.raises(ValueError, match="too small for groups of width 4"):
        shuffled_whitening(np.ones((2, 3, 8)), groups=2)


def test_directions_are_those_of_the_vectors_and_not_of_what_they_differ_in() -> None:
    """Both are 0.8 along the first axis, and opposite on the other."""
    plane = by_direction(np.array([[-8.0, 0.0, 6.0], [-4.0, 0.0, -3.0]]))
    assert plane.axes == ("direction 1, 64.0% of length²", "direction 2, 36.0% of length²")
    assert plane.points[:, 0] == pytest.approx([0.8, 0.8])
    assert sorted(plane.points[:, 1]) == pytest.approx([-0.6, 0.6])
