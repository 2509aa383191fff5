import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score
from torch import ones

from cse_methods.data.dev_sets import load_dev_set
from cse_methods.evaluation.measures.geometry import effective_rank, geometry, mean_cosine
from cse_methods.evaluation.measures.ranking import kendall, ndcg, queries, score_rankings
from cse_methods.evaluation.measures.sts import correlations
from cse_methods.metrics import alignment, cosines, spearman, uniformity


def test_spearman_counts_nan_as_0_and_is_nan_for_constants() -> None:
    # Ranks 1 2 3 4 against 2 1 4 3: 1 - 6 * (1 + 1 + 1 + 1) / (4 * 15).
    assert spearman([0.1, 0.2, 0.3, 0.4], [2, 1, 5, 4]) == pytest.approx(1 - 24 / 60)
    assert spearman([math.nan, -0.5, 0.5], [3, 1, 5]) == pytest.approx(1)  # NaN counts as 0
    for lists in (([0.5, 0.5, 0.5], [1, 2, 3]), ([1, 2, 3], [0.5, 0.5, 0.5])):
        assert math.isnan(spearman(*lists))


def test_cosines_pair_rows_and_are_0_for_a_zero_vector() -> None:
    first = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    second = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(cosines(first, second), torch.tensor([0.96, -1.0, 0.0]))


def test_geometry_ignores_length_and_is_nan_for_a_zero_vector() -> None:
    points = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]])
    expected = math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
    for scale in (1e-6, 1e-13, 1e-20, 1e18):
        assert uniformity(scale * points) == pytest.approx(expected)
        assert alignment(scale * points[:2], points[1:]) == pytest.approx(2)
    points = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert math.isnan(uniformity(points))
    assert math.isnan(alignment(points, points))
    points = torch.randn(2500, 3, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(points.double(), dim=1)
    expected = torch.pdist(unit).square().mul(-2).exp().mean().log().item()
    assert uniformity(points) == pytest.approx(expected)


def test_arrays_of_other_shapes_are_refused() -> None:
    lists = r"N >= 2, got shapes \(.+\) \(predicted\) and \(.+\)"
    table: list[tuple[Callable[..., float], tuple[Any, ...], str]] = [
        *((spearman, ([0.1, 0.2], gold), lists) for gold in ([1.0, 2.0, 3.0], [[1.0, 2.0]])),
        (spearman, ([0.1], [1.0]), lists),
        (uniformity, (ones(1, 3),), r"N >= 2, got \(1, 3\)"),
        (alignment, (ones(0, 3), ones(0, 3)), r"N >= 1, got \(0, 3\) and \(0, 3\)"),
        (alignment, (ones(2, 3), ones(3, 3)), r"got \(2, 3\) and \(3, 3\)"),
    ]
    for measure, asked, match in table:
        with pytest.raises(ValueError, match=match):
            measure(*asked)


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


def test_geometry_measures_positives_and_all_sentences() -> None:
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


def test_only_sentences_of_several_pairs_are_queries() -> None:
    first, second = ["a", "a", "a", "b", "b"], ["b", "c", "d", "a", "b"]
    assert {q: rows.tolist() for q, rows in queries(first, second).items()} == {"a": [0, 1, 2, 3]}
    assert queries(first, second, side="first") == {}
    with pytest.raises(ValueError, match="expected pairs, got 1 and 2 sentences"):
        queries(["a"], ["b", "c"])
    # Query a: a perfect order. Query b: all labels alike, so no tau; but its NDCG is 1.
    first, second = ["a"] * 4 + ["b"] * 4, list("cdefghij")
    gold = [1, 2, 3, 4, 2, 2, 2, 2]
    found = score_rankings(first, second, [0.1, 0.2, 0.3, 0.4, 0.9, 0.1, 0.5, 0.2], gold)
    assert found == {"kcc": 1.0, "ndcg": 1.0, "ndcg_exponential": 1.0}
    nothing = score_rankings(["a"], ["b"], [0.1], [1])
    assert all(math.isnan(value) for value in nothing.values())


@settings(max_examples=5)
@given(st.integers(0, 2**16), st.integers(4, 30))
def test_rankings_agree_with_scipy_and_scikit_learn_on_ties(seed: int, pairs: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, pairs)
    for predicted in (rng.permutation(pairs), rng.integers(0, 3, pairs)):
        tau = kendalltau(predicted, labels).statistic
        assert kendall(predicted, labels) == pytest.approx(tau, nan_ok=True)
        if labels.any():
            expected = ndcg_score([labels], [predicted], ignore_ties=False)
            assert ndcg(predicted, labels) == pytest.approx(expected)
