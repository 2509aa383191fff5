"""Measures of ranking against the stored reference values, by hand, and by property."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from cse_methods.evaluation.measures.ranking import kendall, ndcg, queries, score_rankings


def test_metrics_kcc_ndcg_a(shared: Path) -> None:
    with np.load(shared / "reference" / "metrics_kcc_ndcg_a.npz", allow_pickle=False) as arrays:
        case = {key: arrays[key] for key in arrays.files}
    first, second = case["in_a"].tolist(), case["in_b"].tolist()
    for side in ("either", "first"):
        found = queries(first, second, side=side)
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
    scores = score_rankings(first, second, case["in_pred"], case["in_label"])
    stored = {"kcc": "kcc", "ndcg": "ndcg_linear", "ndcg_exponential": "ndcg_exp"}
    for metric, name in stored.items():
        assert scores[metric] == pytest.approx(float(case[f"out_{name}_either"]), rel=1e-9)


def test_who_is_a_query() -> None:
    first, second = ["a", "a", "a", "b", "b"], ["b", "c", "d", "a", "b"]
    assert {q: rows.tolist() for q, rows in queries(first, second).items()} == {"a": [0, 1, 2, 3]}
    assert queries(first, second, side="first") == {}
    with pytest.raises(ValueError, match="expected pairs, got 1 and 2 sentences"):
        queries(["a"], ["b", "c"])


@settings(max_examples=5)
@given(st.integers(0, 2**16), st.integers(4, 30))
def test_agrees_with_scipy_and_scikit_learn_with_ties(seed: int, pairs: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, pairs)
    for predicted in (rng.permutation(pairs), rng.integers(0, 3, pairs)):
        tau = kendalltau(predicted, labels).statistic
        assert kendall(predicted, labels) == pytest.approx(tau, nan_ok=True)
        if labels.any():
            expected = ndcg_score([labels], [predicted], ignore_ties=False)
            assert ndcg(predicted, labels) == pytest.approx(expected)


def test_a_query_without_an_order_is_left_out_of_the_mean() -> None:
    # Query a: a perfect order. Query b: all labels alike, so no tau; but its NDCG is 1.
    first, second = ["a"] * 4 + ["b"] * 4, list("cdefghij")
    gold = [1, 2, 3, 4, 2, 2, 2, 2]
    found = score_rankings(first, second, [0.1, 0.2, 0.3, 0.4, 0.9, 0.1, 0.5, 0.2], gold)
    assert found == {"kcc": 1.0, "ndcg": 1.0, "ndcg_exponential": 1.0}
    nothing = score_rankings(["a"], ["b"], [0.1], [1])
    assert all(math.isnan(value) for value in nothing.values())
