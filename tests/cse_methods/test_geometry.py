"""Measures of an embedding space, by hand and by property."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_methods.data.dev_sets import load_dev_set
from cse_methods.evaluation.measures.geometry import effective_rank, geometry, mean_cosine
from cse_methods.metrics import alignment


def test_effective_rank_of_a_line_is_1_and_of_a_ball_the_dimension() -> None:
    line = torch.arange(10.0)[:, None] * torch.tensor([[1.0, 2, 3]]) + 5
    assert effective_rank(line) == pytest.approx(1, abs=1e-6)
    ball = torch.cat([torch.eye(6), -torch.eye(6)])
    assert effective_rank(ball) == pytest.approx(6)
    assert math.isnan(effective_rank(torch.ones(4, 3) / 3))


@settings(max_examples=10)
@given(st.integers(0, 2**16), st.integers(2, 12))
def test_mean_cosine_is_the_mean_over_all_pairs(seed: int, count: int) -> None:
    points = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    pairs = [
        float(torch.cosine_similarity(points[i], points[j], dim=0))
        for i in range(count)
        for j in range(i)
    ]
    assert mean_cosine(points) == pytest.approx(np.mean(pairs), abs=1e-5)


def test_the_measures_of_a_dev_set() -> None:
    dev = load_dev_set("stsb", "builtin")
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(len(dev.gold), 8, generator=generator)
    second = torch.randn(len(dev.gold), 8, generator=generator)
    found = geometry(dev, first, second)
    positive = torch.from_numpy(dev.gold > 4)
    assert found["alignment"] == alignment(first[positive], second[positive])
    assert found["effective_rank"] == effective_rank(torch.cat([first, second]))
    assert set(found) == {"alignment", "uniformity", "effective_rank", "mean_cosine"}
    low = replace(dev, gold=np.minimum(dev.gold, 4))
    assert math.isnan(geometry(low, first, second)["alignment"])
