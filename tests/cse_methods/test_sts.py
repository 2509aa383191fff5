"""Correlations of STS sets: the stored reference, by hand, and against scipy."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from cse_methods.evaluation.measures.sts import correlations
from cse_methods.metrics import cosines


def test_metrics_sts_all_a(shared: Path) -> None:
    """All pairs of a task's subsets in one list; and the means over subsets, for comparison."""
    with np.load(shared / "reference" / "metrics_sts_all_a.npz", allow_pickle=False) as arrays:
        case = {key: arrays[key] for key in arrays.files}
    predicted = cosines(*(torch.from_numpy(case[name]) for name in ("in_emb1", "in_emb2"))).numpy()
    names, counts = np.unique(case["in_subset"], return_counts=True)
    assert (np.diff(case["in_subset"]) >= 0).all()
    subsets = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    found = correlations(predicted, case["in_gold"], subsets)
    names_of = {"spearman": "spearman_all", "pearson": "pearson_all"}
    for metric in ("spearman", "spearman_mean", "spearman_wmean", "pearson"):
        expected = float(case[f"out_{names_of.get(metric, metric)}"])
        assert found[metric] == pytest.approx(expected, rel=1e-9), metric


@settings(max_examples=15)
@given(st.integers(0, 2**16), st.integers(4, 40))
def test_agrees_with_scipy_with_ties(seed: int, pairs: int) -> None:
    rng = np.random.default_rng(seed)
    cosine, gold = rng.integers(0, 5, pairs) / 5, rng.integers(0, 6, pairs).astype(float)
    found = correlations(cosine, gold, {"only": pairs})
    if np.ptp(cosine) == 0 or np.ptp(gold) == 0:
        assert math.isnan(found["spearman"]) and math.isnan(found["pearson"])
        return
    assert found["spearman"] == pytest.approx(spearmanr(cosine, gold).statistic)
    assert found["pearson"] == pytest.approx(pearsonr(cosine, gold).statistic)
    for mean in (found["spearman_mean"], found["spearman_wmean"]):
        assert mean == pytest.approx(found["spearman"])
