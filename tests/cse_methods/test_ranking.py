"""Measures of ranking against the stored reference values, by hand, and by property."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cse_methods.metrics import cosines, spearman
from cse_methods.ranking import kendall, ndcg, queries


def stored(shared: Path, name: str) -> dict[str, Any]:
    with np.load(shared / "reference" / f"{name}.npz", allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


@pytest.mark.parametrize("side", ["either", "first"])
def test_metrics_kcc_ndcg_a(side: Any, shared: Path) -> None:
    case = stored(shared, "metrics_kcc_ndcg_a")
    found = queries(case["in_a"].tolist(), case["in_b"].tolist(), side=side)
    order = case[f"out_queries_{side}"].tolist()
    assert sorted(found) == sorted(order)
    lists = [(case["in_pred"][found[query]], case["in_label"][found[query]]) for query in order]
    taus = [kendall(*pair) for pair in lists]
    linear = [ndcg(*pair) for pair in lists]
    np.testing.assert_allclose(taus, case[f"out_kcc_per_query_{side}"], rtol=1e-9)
    np.testing.assert_allclose(linear, case[f"out_ndcg_linear_per_query_{side}"], rtol=1e-9)
    assert np.mean(taus) == pytest.approx(float(case[f"out_kcc_{side}"]), rel=1e-9)
    exponential = np.mean([ndcg(*pair, gain="exponential") for pair in lists])
    assert exponential == pytest.approx(float(case[f"out_ndcg_exp_{side}"]), rel=1e-9)


def test_metrics_sts_all_a(shared: Path) -> None:
    """All pairs of a task's subsets in one list; and the means over subsets, for comparison."""
    case = stored(shared, "metrics_sts_all_a")
    predicted = cosines(*(torch.from_numpy(case[name]) for name in ("in_emb1", "in_emb2")))
    assert spearman(predicted, case["in_gold"]) == pytest.approx(
        float(case["out_spearman_all"]), rel=1e-9
    )
    subsets = [case["in_subset"] == subset for subset in np.unique(case["in_subset"])]
    each = [spearman(predicted[torch.from_numpy(s)], case["in_gold"][s]) for s in subsets]
    np.testing.assert_allclose(each, case["out_spearman_per_subset"], rtol=1e-9)
    weighted = np.average(each, weights=[s.sum() for s in subsets])
    assert np.mean(each) == pytest.approx(float(case["out_spearman_mean"]), rel=1e-9)
    assert weighted == pytest.approx(float(case["out_spearman_wmean"]), rel=1e-9)


def test_by_hand() -> None:
    # Labels in predicted order: 1, 3, 0. Ideal: 3, 1, 0.
    discounted = 1 / 1 + 3 / math.log2(3)
    ideal = 3 / 1 + 1 / math.log2(3)
    assert ndcg([0.9, 0.5, 0.1], [1, 3, 0]) == pytest.approx(discounted / ideal)
    assert kendall([0.9, 0.5, 0.1], [1, 3, 0]) == pytest.approx(1 / 3)
    assert math.isnan(ndcg([0.1, 0.2], [0, 0]))


def test_who_is_a_query() -> None:
    first, second = ["a", "a", "a", "b", "b"], ["b", "c", "d", "a", "b"]
    assert {q: rows.tolist() for q, rows in queries(first, second).items()} == {"a": [0, 1, 2, 3]}
    assert queries(first, second, side="first") == {}
    with pytest.raises(ValueError, match="expected pairs, got 1 and 2 sentences"):
        queries(["a"], ["b", "c"])


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.integers(0, 2**16))
def test_ndcg_is_highest_in_the_labels_own_order(labels: list[int], seed: int) -> None:
    predicted = np.random.default_rng(seed).permutation(len(labels))
    if any(labels):
        assert 0 <= ndcg(predicted, labels) <= 1 + 1e-12
        assert ndcg(labels, labels) == pytest.approx(1)
