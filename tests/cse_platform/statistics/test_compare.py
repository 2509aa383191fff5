import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr, t, ttest_ind
from sklearn.metrics import average_precision_score

from cse_platform.leaderboard.statistics.compare import (
    Comparison,
    Limits,
    compare,
    compare_all,
    holm,
    join_comparisons,
    williams,
)
from cse_platform.leaderboard.statistics.intervals import (
    Contender,
    Interval,
    Sampled,
    difference,
    freedom_of_difference,
    percentile_interval,
    sample,
)
from cse_platform.leaderboard.statistics.resampling import BLOCK, draw_scores
from cse_platform.presentation.comparison import describe_limits

TASKS = ("stsb", "sickr")
Make = Callable[..., Contender]


def without_pairs(contender: Contender) -> Contender:
    return replace(contender, values={}, gold={})


def test_equal_seeds_without_pairs_give_no_interval(contender: Make) -> None:
    a, b = Contender("a", {"stsb": [0.7] * 3}), Contender("b", {"stsb": [0.69] * 3})
    [task] = compare(a, b, tasks=["stsb"], average=None, resamples=100).tasks
    assert task.effect == pytest.approx(0.01)
    assert task.interval is task.p is None
    varied = replace(b, scores={"stsb": [0.68, 0.69, 0.70]})
    [task] = compare(a, varied, tasks=["stsb"], average=None, resamples=100).tasks
    assert task.interval is not None and task.interval.over == "seeds"
    paired = contender("a", [0.8])
    [task] = compare(paired, paired, tasks=["stsb"], average=None, resamples=100).tasks
    assert (task.interval, task.p) == (Interval(0, 0, "examples"), 1)


def test_single_seeds_differ_as_their_paired_draws_do_and_several_as_means(contender: Make) -> None:
    a, b = contender("a", [0.8]), contender("b", [1.0])
    found = compare(a, b, tasks=TASKS, average="avg_sts", resamples=1000, seed=7)
    differences = []
    for row in found.tasks:
        cosines = np.concatenate([a.values[row.task], b.values[row.task]])
        ours, theirs = draw_scores(
            row.task, "spearman", cosines, a.gold[row.task], resamples=1000, seed=7
        )
        differences.append(ours - theirs)
    expected = [*differences, np.mean(differences, axis=0)]
    for row, drawn in zip([*found.tasks, found.average], expected, strict=True):
        low, high = np.quantile(drawn, (0.025, 0.975))
        assert row.interval == Interval(pytest.approx(low), pytest.approx(high), "examples")
        lesser = min((drawn <= 0).sum(), (drawn >= 0).sum())
        assert row.p == pytest.approx(min(1, 2 * (lesser + 1) / 1001))
    a, b = contender("a", [0.5, 1.5]), contender("b", [1.0])
    _, sampled = sample((b, a), ["stsb"], resamples=20, seed=7)
    draws = draw_scores("stsb", "spearman", a.values["stsb"], a.gold["stsb"], resamples=20, seed=7)
    assert sampled.over_examples["stsb"] == pytest.approx(draws.mean(axis=0))
    centred = draws - draws.mean(axis=1, keepdims=True)
    assert sampled.deviations["stsb"] == pytest.approx(centred)
    assert sampled.errors["stsb"].std() > 0  # two seeds have an error


def test_seeds_alone_have_welchs_interval_and_add_to_pairs_what_these_leave(contender) -> None:
    # Both tasks swing by seed, but against each other: every seed's average is nearly the same.
    a = Contender("a", {"mr": [0.70, 0.80, 0.75], "cr": [0.80, 0.70, 0.7501]})
    b = Contender("b", {"mr": [0.71, 0.75, 0.73], "cr": [0.75, 0.71, 0.73]})
    found = compare(a, b, tasks=["mr", "cr"], average="avg", resamples=500)
    near = pytest.approx(0.02, abs=0.0002)
    assert found.average.interval == Interval(near, near, "seeds")
    assert all(row.interval and row.interval.low < 0 < row.interval.high for row in found.tasks)
    ours, theirs = [0.761, 0.755, 0.772], [0.748, 0.751, 0.757, 0.744]
    a, b = Contender("a", {"mr": ours}), Contender("b", {"mr": theirs})
    row = compare(a, b, tasks=["mr"], average=None, resamples=40_000).tasks[0]
    expected = ttest_ind(ours, theirs, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert row.interval == Interval(
        pytest.approx(low, abs=0.0005), pytest.approx(high, abs=0.0005), "seeds"
    )
    assert row.p == pytest.approx(expected.pvalue, rel=0.1)
    a, b = contender("a", [0.5, 0.6, 0.7]), contender("b", [1.0])
    a = replace(a, scores={"stsb": [0.8, 0.8, 0.8]})
    [left, right] = sample((a, b), ["stsb"], resamples=300, seed=0)
    low, high = np.quantile(
        left.over_examples["stsb"] - right.over_examples["stsb"], (0.025, 0.975)
    )
    row = compare(a, b, tasks=["stsb"], average=None, resamples=300).tasks[0]
    assert row.interval == Interval(pytest.approx(low), pytest.approx(high), "examples")


DESIGN = ("simcse", "mini", (0, 1, 2))


def test_joined_tasks_are_corrected_together_and_keep_what_limits_each() -> None:
    def compare_on(task: str, seeds: int, better: float) -> Comparison:
        scores = [0.70, 0.75, 0.80][:seeds], [0.69, 0.72, 0.76][:seeds]
        design = ("simcse", "mini", tuple(range(seeds)))
        a = Contender("a", {task: [score + better for score in scores[0]]}, design=design)
        b = Contender("b", {task: scores[1]}, design=design)
        return compare(a, b, tasks=[task], average=None, resamples=1000)

    mr, cr = compare_on("mr", 3, 0.05), compare_on("cr", 2, 0.3)
    joined = join_comparisons([mr, cr], ["cr", "mr"])
    assert [task.task for task in joined.tasks] == ["cr", "mr"]
    assert [(task.n_a, task.n_b) for task in joined.tasks] == [(2, 2), (3, 3)]
    ps = [cr.tasks[0].p, mr.tasks[0].p]
    assert [task.p for task in joined.tasks] == ps
    assert [task.p_holm for task in joined.tasks] == holm(ps) != ps
    assert joined.limits == Limits(unpaired=("mr", "cr"), pairs_seeds=("mr",))
    told = [sentence for sentence in describe_limits(joined) if "seed by seed" in sentence]
    assert [sentence.partition(":")[0] for sentence in told] == ["Seeds paired on mr"]


def test_rows_with_the_same_seeds_have_students_interval_of_their_differences(contender) -> None:
    # The differences are 0.02, 0.03 and 0.04: their standard error is 0.01 / sqrt(3), and Student's
    # t of 2 degrees of freedom is 4.3027 at 97.5 %, so the reach is 0.02484; t = 5.196 gives the p.
    expected = Interval(pytest.approx(0.00516, abs=6e-4), pytest.approx(0.05484, abs=6e-4), "seeds")
    ours, theirs = [0.70, 0.75, 0.80], [0.68, 0.72, 0.76]
    a = Contender("a", {"mr": ours}, design=DESIGN)
    b = Contender("b", {"mr": theirs}, design=DESIGN)
    found = compare(a, b, tasks=["mr"], average=None, resamples=40_000)
    assert found.tasks[0].interval == expected
    assert found.tasks[0].p == pytest.approx(0.0351, rel=0.1)
    assert found.limits.pairs_seeds
    matrix = compare_all([a, b], tasks=["mr"], resamples=40_000)
    assert (matrix.p[0][1], matrix.limits) == (found.tasks[0].p, found.limits)
    # Pairs that say the same of both sides explain no difference between seeds.
    a = replace(contender("a", [0.8, 0.9, 1.0], ["stsb"]), design=DESIGN)
    b = replace(a, name="b", scores={"stsb": theirs})
    a = replace(a, scores={"stsb": ours})
    row = compare(a, b, tasks=["stsb"], average=None, resamples=40_000).tasks[0]
    centred = Interval(pytest.approx(-0.02484, abs=6e-4), pytest.approx(0.02484, abs=6e-4), "seeds")
    assert row.interval == centred


def test_other_designs_and_two_seeds_are_not_paired() -> None:
    ours, theirs = [0.70, 0.75, 0.80], [0.68, 0.72, 0.76]
    two = ("simcse", "mini", (0, 1))
    for mine, other in (
        (DESIGN, ("simcse", "mini", (0, 1, 3))),
        (DESIGN, ("rankcse", "mini", (0, 1, 2))),
        (DESIGN, ("simcse", "bert-base", (0, 1, 2))),
        (DESIGN, None),
        (two, two),
    ):
        n = len(mine[2])
        a = Contender("a", {"mr": ours[:n]}, design=mine)
        b = Contender("b", {"mr": theirs[:n]}, design=other)
        found = compare(a, b, tasks=["mr"], average=None, resamples=1000)
        bare = [replace(side, design=None) for side in (a, b)]
        assert found == compare(*bare, tasks=["mr"], average=None, resamples=1000)


@pytest.mark.parametrize("noise", [[0.8], [0.7, 0.8, 0.9]])
@pytest.mark.parametrize("pairs", [True, False])
def test_a_thing_does_not_differ_from_itself(contender, noise, pairs) -> None:
    a = contender("a", noise) if pairs else without_pairs(contender("a", noise))
    again = replace(a, name="again")
    found = compare(a, again, tasks=TASKS, average="avg_sts", resamples=200)
    for row in [*found.tasks, found.average]:
        assert row.effect == 0
        assert row.p == (1 if pairs or len(noise) > 1 else None)
    for row in found.tasks:
        assert row.williams_t == (0 if pairs else None)
        assert row.williams_p == (1 if pairs else None)


def test_tests_of_a_comparison_are_those_by_hand(contender: Make) -> None:
    a, b = contender("a", [0.8, 0.9]), contender("b", [1.0, 1.2])
    row = compare(a, b, tasks=["stsb"], average=None, resamples=10).tasks[0]
    across = [
        spearmanr(ours, theirs).statistic
        for ours in a.values["stsb"]
        for theirs in b.values["stsb"]
    ]
    ours, theirs = np.mean(a.scores["stsb"]), np.mean(b.scores["stsb"])
    expected = williams(ours, theirs, float(np.mean(across)), 150)
    assert (row.williams_t, row.williams_p) == pytest.approx(expected)
    assert row.examples == 150
    a, b = contender("a", [0.8, 0.9]), contender("b", [0.9, 1.1])
    found = compare(a, b, tasks=TASKS, average="avg_sts", resamples=300)
    assert [row.p_holm for row in found.tasks] == holm([row.p for row in found.tasks])
    by_williams = [row.williams_p for row in found.tasks]
    assert [row.williams_p_holm for row in found.tasks] == holm(by_williams)
    assert found.average is not None and found.average.p is not None
    assert found.average.p_holm is found.average.williams_p is None


def test_what_is_not_paired_and_what_one_seed_does_not_say(contender: Make) -> None:
    one, many = Contender("one", {"mr": [0.8]}), Contender("many", {"mr": [0.7, 0.71]})
    for other in (many, Contender("other", {"mr": [0.7]})):
        found = compare(one, other, tasks=["mr"], average="avg", resamples=10)
        for row in (found.tasks[0], found.average):
            assert row.effect > 0.09
            assert (row.interval, row.p, row.p_holm, row.examples) == (None, None, None, None)
        assert "one" in found.limits.single
    a, b = contender("a", [0.8, 0.9]), contender("b", [1.0, 1.1])
    b.gold["stsb"][0] += 1  # type: ignore[index]
    stsb, sickr = compare(a, b, tasks=TASKS, average=None, resamples=200).tasks
    assert (stsb.examples, stsb.williams_p) == (None, None)
    assert sickr.examples == 100
    bare = compare(without_pairs(a), without_pairs(b), tasks=TASKS, average=None, resamples=200)
    assert stsb.interval == bare.tasks[0].interval
    assert bare.limits == Limits(unpaired=("stsb", "sickr"))


def test_what_resampling_the_pairs_explains_of_the_spread_over_seeds_counts_once() -> None:
    """V = V_P + S - p / n with S = 0.000167 and p / n = 0.000125, of which no more than V_P counts:
    where it is 0.0001, V is S, with Student's 3 degrees of freedom.
    """
    scores, spread, draws = [0.70, 0.72, 0.74, 0.76], 0.002 / 3 / 4, 20_000
    values, gold = {"stsb": np.zeros((4, 4))}, {"stsb": np.arange(4.0)}
    a, b = (Contender(name, {"stsb": scores}, values, gold) for name in "ab")
    rng, zeros = np.random.default_rng(1), np.zeros(draws)
    by_seed = np.array([[1.0], [-1.0], [1.0], [-1.0]]) * math.sqrt(0.0005 * 3 / 4) + zeros
    ours = Sampled(
        a,
        scores={"stsb": np.array(scores)},
        errors={"stsb": rng.normal(scale=math.sqrt(spread), size=draws)},
        over_examples={"stsb": rng.normal(0.73, 0.01, draws)},
        deviations={"stsb": by_seed},
        seed=0,
    )
    same = {"stsb": zeros}
    theirs = Sampled(b, {"stsb": np.full(4, 0.6)}, same, same, {"stsb": 0 * by_seed}, seed=0)
    interval = percentile_interval(*difference(ours, theirs, ["stsb"]))
    reach = t.ppf(0.975, 3) * math.sqrt(spread)
    assert (interval.high - interval.low) / 2 == pytest.approx(reach, rel=0.05)
    # V_P counts as known: of 0.0009 beside it, S is a share of 0.177, so 3 / 0.177^2 degrees.
    ours = replace(ours, over_examples={"stsb": rng.normal(0.73, 0.03, draws)})
    interval = percentile_interval(*difference(ours, theirs, ["stsb"]))
    reach = t.ppf(0.975, 96) * math.sqrt(0.0009 + spread - 0.000125)
    assert (interval.high - interval.low) / 2 == pytest.approx(reach, rel=0.05)
    # A half of V over seeds: Welch's 8, at most twice 4, times (1 / 0.5)^2.
    assert freedom_of_difference((1.0, 1.0), (4, 4), 0.5) == 32
    # Of 2 seeds against 10, at most twice 1: Welch's would be 1.2^2 / (0.2^2 + 1 / 9) = 9.5.
    assert freedom_of_difference((0.2, 1.0), (1, 9), 1.0) == 2


def test_a_test_of_two_correlations_needs_four_pairs() -> None:
    rows = {"a": [0.1, 0.3, 0.2, 0.4], "b": [0.2, 0.1, 0.0, 1.0]}
    for pairs in (3, 4):
        gold = {"stsb": np.arange(float(pairs))}
        sides = (
            Contender(name, {"stsb": [0.5]}, {"stsb": np.array([row[:pairs]])}, gold)
            for name, row in rows.items()
        )
        [row] = compare(*sides, tasks=["stsb"], average=None, resamples=10).tasks
        assert (row.williams_t is not None) == (pairs == 4)


def test_sums_of_ranks_of_40_000_pairs_are_exact() -> None:
    rising = np.arange(40_000.0)
    both = np.array([rising, -rising])
    drawn = draw_scores("stsb", "spearman", both, rising, resamples=2, seed=0)
    assert drawn.tolist() == [[1, 1], [-1, -1]]


def test_williams_and_holm_by_hand() -> None:
    # |R| = 1 - .25 - .16 - .01 + 2 * .5 * .4 * .1 = .62 and the mean is .45, so
    # T = .1 * sqrt(102 * 1.1 / (2 * 102 / 100 * .62 + .45**2 * .9**3))
    #   = .1 * sqrt(112.2 / (1.2648 + .1476225)) = .1 * sqrt(79.4380) = .891280.
    statistic, p = williams(0.5, 0.4, 0.1, 103)
    assert statistic == pytest.approx(0.891280, abs=1e-6)
    assert p == pytest.approx(2 * t.sf(0.891280, 100), abs=1e-6)
    assert williams(0.4, 0.5, 0.1, 103) == (-statistic, p)
    # With r_ab = -1, r_b = -r_a, it is the test of no correlation: the limit is
    # r_a sqrt((n - 3) / (1 - r_a^2)).
    assert williams(0.6, -0.6, -1.0, 28)[0] == pytest.approx(0.6 * 5 / 0.8, rel=1e-3)
    assert williams(1.0, -1.0, -1.0, 28) == (math.inf, 0.0)
    # Nearly equal predictions, computed in exact fractions: |R| = 2.81199e-7.
    assert williams(0.6, 0.599, 0.999999, 103)[0] == pytest.approx(18.857886)
    # Rising: .01 * 4, .02 * 3, .03 * 2 raised to the .06 before it, .6 * 1.
    assert holm([0.03, 0.6, 0.01, 0.02]) == pytest.approx([0.06, 0.6, 0.04, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]  # None was not tested
    assert holm([None]) == [None] and holm([]) == []


def test_matrix_holds_what_single_comparisons_give(contender: Make) -> None:
    three = [contender("a", [0.5, 0.6]), contender("b", [1.0]), contender("c", [0.7, 0.8, 0.9])]
    told: list[tuple[int, int]] = []
    matrix = compare_all(
        three, tasks=TASKS, resamples=300, progress=lambda *done: told.append(done)
    )
    assert matrix.names == ("a", "b", "c")
    assert sum(done for done, _ in told) == 2 * 6 * 300
    assert {total for _, total in told} == {2 * 6 * 300}
    for i, a in enumerate(three):
        assert (matrix.effects[i][i], matrix.p[i][i], matrix.p_holm[i][i]) == (0, None, None)
        for j, b in enumerate(three):
            if i != j:
                average = compare(a, b, tasks=TASKS, average="avg_sts", resamples=300).average
                assert matrix.effects[i][j] == pytest.approx(average.effect)
                assert matrix.p[i][j] == average.p
    above = [(0, 1), (0, 2), (1, 2)]
    corrected = holm([matrix.p[i][j] for i, j in above])
    assert [matrix.p_holm[i][j] for i, j in above] == corrected
    assert [matrix.p_holm[j][i] for i, j in above] == corrected
    assert matrix.limits.single == ("b",)
    scores = {"a": [0.8, 0.81], "b": [0.7], "c": [0.6, 0.61]}
    three = [Contender(name, {"mr": values}) for name, values in scores.items()]
    matrix = compare_all(three, tasks=["mr"], resamples=300)
    assert matrix.p[0][1] is matrix.p[1][2] is None
    assert matrix.p[0][2] == matrix.p_holm[0][2] is not None
    assert matrix.effects[0] == pytest.approx((0, 0.105, 0.2))


class Pairs(NamedTuple):
    """The arguments of `draw_scores`."""

    task: str
    statistic: Literal["spearman", "average_precision"]
    cosines: NDArray[np.float32]
    gold: NDArray[np.float64]
    groups: NDArray[np.intp] | None = None


def made_pairs(pairs: int, encoders: int, *, levels: int, seed: int = 0) -> Pairs:
    """Gold of a few levels, and cosines that follow it; the last encoder's are coarse, so tied."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, levels, pairs) / 2
    cosines = (gold / levels + rng.normal(scale=0.3, size=(encoders, pairs))).astype(np.float32)
    cosines[-1] = np.round(cosines[-1], 1)
    return Pairs("stsb", "spearman", cosines, gold)


def plain_draws(task_pairs: Pairs, resamples: int, seed: int) -> NDArray[np.float64]:
    """The same resamples, each pair by pair through scipy; 0 where that gives nan."""
    by_gold = np.argsort(task_pairs.gold, kind="stable")
    rng = np.random.default_rng([seed, *task_pairs.task.encode()])
    group_of = task_pairs.groups
    labels = np.arange(len(by_gold)) if group_of is None else group_of[by_gold]
    groups = [by_gold[labels == label] for label in dict.fromkeys(labels.tolist())]
    draws: list[NDArray[np.intp]] = []
    while len(draws) < resamples:
        block = rng.integers(0, len(groups), size=(BLOCK, len(groups)))
        draws += [np.concatenate([groups[group] for group in drawn]) for drawn in block]
    with warnings.catch_warnings(action="ignore"):
        gold, some = task_pairs.gold, draws[:resamples]
        return np.nan_to_num(
            [[spearmanr(gold[at], row[at]).statistic for at in some] for row in task_pairs.cosines]
        )


@given(
    pairs=st.integers(1, 60),
    encoders=st.integers(1, 3),
    levels=st.integers(1, 30),
    groups=st.none() | st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_draws_are_scipys(pairs, encoders, levels, groups, seed) -> None:
    task_pairs = made_pairs(pairs, encoders, levels=levels, seed=seed)
    if groups is not None:
        labels = np.random.default_rng(seed).integers(0, groups, pairs)
        task_pairs = task_pairs._replace(groups=labels)
    draws = draw_scores(*task_pairs, resamples=5, seed=seed)
    assert draws == pytest.approx(plain_draws(task_pairs, 5, seed), abs=1e-9)


# Beyond narrow integers, too; of ten groups, the last has nearly all pairs: a resample can have
# several times as many. 70 resamples are more than a block.
MANY = 2**15 + 5


@pytest.mark.parametrize(
    ("pairs", "levels", "groups", "resamples"),
    [
        (4927, 20, None, 70),
        pytest.param(MANY, 3, None, 4, marks=pytest.mark.slow),
        (MANY, 3, np.minimum(np.arange(MANY), 9), 4),
    ],
)
def test_draws_of_many_pairs_are_scipys(pairs, levels, groups, resamples) -> None:
    task_pairs = made_pairs(pairs, 2, levels=levels)._replace(groups=groups)
    draws = draw_scores(*task_pairs, resamples=resamples, seed=3)
    assert draws == pytest.approx(plain_draws(task_pairs, resamples, 3), abs=1e-9)


@pytest.mark.parametrize("examples", [1, 7, 200])
def test_draws_of_other_kinds_are_those_of_numpy_and_scikit_learn(examples) -> None:
    rng = np.random.default_rng(examples)
    labels = rng.integers(0, 2, examples).astype(float)
    values = rng.normal(size=(2, examples)).astype(np.float32)
    values[1] = np.round(values[1])  # ties
    draws, rng = [], np.random.default_rng([5, *b"a"])
    for drawn in rng.integers(0, examples, size=(BLOCK, examples))[:9]:
        draws.append(drawn)
    means = draw_scores("a", "mean", values, resamples=9, seed=5)
    assert means == pytest.approx(np.array([[row[at].mean() for at in draws] for row in values]))
    precisions = draw_scores("a", "average_precision", values, labels, resamples=9, seed=5)
    at_labels = np.argsort(labels, kind="stable")  # labels are drawn in this order
    drawn = [at_labels[at] for at in draws]
    with warnings.catch_warnings(action="ignore"):  # a resample without label 1
        expected = [[average_precision_score(labels[a], row[a]) for a in drawn] for row in values]
    assert precisions == pytest.approx(np.array(expected))


def test_draws_are_the_same_in_every_call_and_nan_counts_as_0() -> None:
    both = made_pairs(200, 2, levels=10)
    alone = both._replace(cosines=both.cosines[1:])
    draws = draw_scores(*both, resamples=100, seed=1)
    assert np.array_equal(draw_scores(*alone, resamples=100, seed=1)[0], draws[1])
    assert np.array_equal(draw_scores(*both, resamples=30, seed=1), draws[:, :30])
    sickr = both._replace(task="sickr")  # another task, or seed, draws others
    for other, seed in ((sickr, 1), (both, 0)):
        assert not np.array_equal(draws, draw_scores(*other, resamples=100, seed=seed))
    gold = np.arange(4.0)
    with_nan = both._replace(gold=gold, cosines=np.array([[-1, np.nan, 1, 2]], np.float32))
    with_zero = both._replace(gold=gold, cosines=np.array([[-1, 0, 1, 2]], np.float32))
    draws = [draw_scores(*pairs, resamples=20, seed=0) for pairs in (with_nan, with_zero)]
    assert np.array_equal(*draws)
