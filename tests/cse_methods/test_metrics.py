"""Spearman, alignment and uniformity by hand-worked value and by property."""

import math

import pytest
import torch

from cse_methods.metrics import alignment, cosines, spearman, uniformity


def test_spearman_by_hand() -> None:
    # Ranks 1 2 3 4 against 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15).
    assert spearman([0.1, 0.2, 0.3, 0.4], [2, 1, 5, 4]) == pytest.approx(1 - 24 / 60)


def test_spearman_counts_nan_as_zero() -> None:
    assert spearman([math.nan, -0.5, 0.5], [3, 1, 5]) == pytest.approx(1)


def test_spearman_of_a_constant_is_nan() -> None:
    assert math.isnan(spearman([0.5, 0.5, 0.5], [1, 2, 3]))
    assert math.isnan(spearman([1, 2, 3], [0.5, 0.5, 0.5]))


def test_spearman_of_lists_that_do_not_match() -> None:
    table: list[list[float]] = [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]]
    for gold in table:
        with pytest.raises(ValueError, match=r"N >= 2, got shapes \(.+\) \(predicted\) and \(.+\)"):
            spearman([0.1, 0.2] if len(gold) != 1 else [0.1], gold)


def test_cosines_by_hand() -> None:
    first = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    second = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(cosines(first, second), torch.tensor([0.96, -1.0, 0.0]))


def test_uniformity_over_several_blocks() -> None:
    points = torch.randn(2500, 3, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(points.double(), dim=1)
    expected = torch.pdist(unit).square().mul(-2).exp().mean().log().item()
    assert uniformity(points) == pytest.approx(expected)


def test_length_does_not_matter() -> None:
    for scale in (1e-6, 1e-13, 1e-20, 1e18):
        points = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
        expected = math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
        assert uniformity(scale * points) == pytest.approx(expected)
        assert alignment(scale * points[:2], points[1:]) == pytest.approx(2)


def test_a_zero_vector_has_no_direction() -> None:
    points = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert math.isnan(uniformity(points))
    assert math.isnan(alignment(points, points))


def test_too_few_embeddings() -> None:
    with pytest.raises(ValueError, match=r"N >= 2, got \(1, 3\)"):
        uniformity(torch.ones(1, 3))
    with pytest.raises(ValueError, match=r"N >= 1, got \(0, 3\) and \(0, 3\)"):
        alignment(torch.ones(0, 3), torch.ones(0, 3))
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(3, 3\)"):
        alignment(torch.ones(2, 3), torch.ones(3, 3))
