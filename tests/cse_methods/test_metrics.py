"""Spearman, alignment and uniformity by hand-worked value and by property."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import ones

from cse_methods.metrics import alignment, cosines, spearman, uniformity


def test_spearman_by_hand() -> None:
    # Ranks 1 2 3 4 against 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15).
    assert spearman([0.1, 0.2, 0.3, 0.4], [2, 1, 5, 4]) == pytest.approx(1 - 24 / 60)
    assert spearman([math.nan, -0.5, 0.5], [3, 1, 5]) == pytest.approx(1)  # NaN counts as 0
    for lists in (([0.5, 0.5, 0.5], [1, 2, 3]), ([1, 2, 3], [0.5, 0.5, 0.5])):
        assert math.isnan(spearman(*lists))


def test_cosines_by_hand() -> None:
    first = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    second = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(cosines(first, second), torch.tensor([0.96, -1.0, 0.0]))


def test_uniformity_over_several_blocks() -> None:
    points = torch.randn(2500, 3, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(points.double(), dim=1)
    expected = torch.pdist(unit).square().mul(-2).exp().mean().log().item()
    assert uniformity(points) == pytest.approx(expected)


def test_length_does_not_matter_and_a_zero_vector_has_no_direction() -> None:
    points = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    expected = math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
    for scale in (1e-6, 1e-13, 1e-20, 1e18):
        assert uniformity(scale * points) == pytest.approx(expected)
        assert alignment(scale * points[:2], points[1:]) == pytest.approx(2)
    points = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert math.isnan(uniformity(points))
    assert math.isnan(alignment(points, points))


def test_what_is_refused() -> None:
    lists = r"N >= 2, got shapes \(.+\) \(predicted\) and \(.+\)"
    table: list[tuple[Callable[..., float], tuple[Any, ...], str]] = [
        *((spearman, ([0.1, 0.2], gold), lists) for gold in ([1.0, 2.0, 3.0], [[1.0, 2.0]])),
        (spearman, ([0.1], [1.0]), lists),
        (uniformity, (ones(1, 3),), r"N >= 2, got \(1, 3\)"),
        (alignment, (ones(0, 3), ones(0, 3)), r"N >= 1, got \(0, 3\) and \(0, 3\)"),
        (alignment, (ones(2, 3), ones(3, 3)), r"got \(2, 3\) and \(3, 3\)"),
    ]
    for measure, given, match in table:
        with pytest.raises(ValueError, match=match):
            measure(*given)
