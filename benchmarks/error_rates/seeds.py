"""Error rates of what is computed over seeds alone: rows, comparisons, ranks, Holm, power.

Seeds vary with a standard deviation of 1, if nothing else is said.
"""

from itertools import product
from typing import Any

import numpy as np
from simulator import Floats, Simulator, fold, format_mean

from cse_platform.leaderboard.statistics.compare import (
    compare,
    compare_all,
    seeds_to_decide,
)
from cse_platform.leaderboard.statistics.intervals import (
    Contender,
    Interval,
    joint_ranks,
    seed_interval,
)

SEEDS = (2, 3, 5, 10)
SKEWNESS = 1.4
RESAMPLES = 2_000
"""Draws of a comparison; the leaderboard takes 10,000, which takes longer and changes little."""
TASKS = [f"task{number}" for number in range(7)]


def draw_noise(rng: np.random.Generator, size: int, *, skewed: bool = False) -> Floats:
    """Draw noise of mean 0 and standard deviation 1: normal, or gamma with skewness 1.4."""
    if not skewed:
        return rng.standard_normal(size)
    shape = (2 / SKEWNESS) ** 2
    noise: Floats = (rng.gamma(shape, size=size) - shape) / np.sqrt(shape)
    return noise


def covers(interval: Interval | None, truth: float = 0.0) -> bool:
    """Whether an interval covers the truth."""
    assert interval is not None
    return interval.low <= truth <= interval.high


def simulate_row(rng: np.random.Generator, *, n: int, skewed: bool) -> tuple[float]:
    """Whether the interval over n seeds covers the truth."""
    return (covers(seed_interval(draw_noise(rng, n, skewed=skewed).tolist())),)


def measure_rows(simulator: Simulator) -> str:
    """Measure the coverage of a row's interval."""
    noises = {"normal": False, f"gamma, skewness {SKEWNESS}": True}
    cases = [{"n": n, "skewed": skewed} for skewed, n in product(noises.values(), SEEDS)]
    found = simulator.run(simulate_row, cases, 100_000)
    cells = fold([format_mean(each[:, 0]) for each in found], len(SEEDS))
    rows = [[name, *row] for name, row in zip(noises, cells, strict=True)]
    head = ["noise of a seed", *(f"n = {n}" for n in SEEDS)]
    return simulator.format_table(head, rows, 100_000)


def simulate_comparison(
    rng: np.random.Generator,
    *,
    n_a: int,
    n_b: int,
    spread: float = 1.0,
    skewed: bool = False,
    gap: float = 0.0,
) -> tuple[float, float]:
    """Whether the interval of a comparison covers the true difference, and p is below 5 %.

    A's seeds vary `spread` times as much as B's.
    """
    a = gap + spread * draw_noise(rng, n_a, skewed=skewed)
    b = draw_noise(rng, n_b, skewed=skewed)
    compared = compare(
        Contender("a", {"mr": a.tolist()}),
        Contender("b", {"mr": b.tolist()}),
        tasks=["mr"],
        average=None,
        resamples=RESAMPLES,
        seed=int(rng.integers(2**31)),
    )
    row = compared.tasks[0]
    assert row.p is not None
    return covers(row.interval, gap), row.p < 0.05


def measure_comparisons(simulator: Simulator) -> str:
    """Measure the coverage of equal methods' difference, and how often p is below 5 %."""
    kinds: dict[str, dict[str, Any]] = {
        "normal; both sides vary alike": {},
        "normal; A varies three times as much": {"spread": 3.0},
        "normal; A varies ten times as much": {"spread": 10.0},
        f"skewness {SKEWNESS}; both sides vary alike": {"skewed": True},
        f"skewness {SKEWNESS}; A varies three times as much": {"spread": 3.0, "skewed": True},
        f"skewness {SKEWNESS}; A varies ten times as much": {"spread": 10.0, "skewed": True},
    }
    cases = [{"n_a": n, "n_b": n, **kind} for kind, n in product(kinds.values(), SEEDS)]
    found = simulator.run(simulate_comparison, cases, 5_000)
    cells = fold([format_mean(each[:, 0]) for each in found], len(SEEDS))
    rows = [[name, *row] for name, row in zip(kinds, cells, strict=True)]
    significant = [format_mean(each[:, 1]) for each in found[: len(SEEDS)]]
    rows.append(["p below 5 %, normal, both sides vary alike", *significant])
    head = ["noise of a seed", *(f"{n} a side" for n in SEEDS)]
    return simulator.format_table(head, rows, 5_000)


def measure_unequal_comparisons(simulator: Simulator) -> str:
    """Measure the coverage of equal methods' difference with more seeds on one side."""
    sizes = [(2, 5), (2, 10), (3, 10), (5, 10)]
    kinds: dict[str, dict[str, Any]] = {
        "both sides vary alike": {},
        "A three times as much": {"spread": 3.0},
        "A a third as much": {"spread": 1 / 3},
        f"alike, skewness {SKEWNESS}": {"skewed": True},
    }
    cases = [{"n_a": a, "n_b": b, **kind} for (a, b), kind in product(sizes, kinds.values())]
    found = simulator.run(simulate_comparison, cases, 5_000)
    cells = fold([format_mean(each[:, 0]) for each in found], len(kinds))
    rows = [[f"{a}, {b}", *row] for (a, b), row in zip(sizes, cells, strict=True)]
    head = ["seeds of A, of B", *kinds]
    return simulator.format_table(head, rows, 5_000)


def measure_power(simulator: Simulator) -> str:
    """Measure how often a true difference is found with `seeds_to_decide`, and one seed fewer."""
    gaps = (1.0, 1.5, 2.0, 3.0, 4.0)
    enough = [seeds_to_decide(gap, seeds_error=2**0.5) for gap in gaps]
    one_sided = [seeds_to_decide(gap, seeds_error=2**0.5, share=1.0) for gap in gaps]
    cases = [
        {"n_a": n - fewer, "n_b": n - fewer, "gap": gap}
        for fewer in (0, 1)
        for gap, n in zip(gaps, enough, strict=True)
        if n is not None
    ]
    found = simulator.run(simulate_comparison, cases, 10_000)
    cells = fold([format_mean(each[:, 1]) for each in found], len(gaps))
    rows = [
        ["seeds a side", *map(str, enough)],
        ["difference found", *cells[0]],
        ["found with one seed fewer", *cells[1]],
        ["seeds a side, if one side alone varies", *map(str, one_sided)],
    ]
    head = ["true difference, in standard deviations of a seed", *(f"{gap:g}" for gap in gaps)]
    return simulator.format_table(head, rows, 10_000)


def draw_tasks(rng: np.random.Generator, n: int, correlation: float) -> dict[str, list[float]]:
    """Draw scores of n seeds on seven tasks that are so correlated over seeds."""
    shared = np.sqrt(correlation) * rng.standard_normal(n)
    own = np.sqrt(1 - correlation)
    return {task: (shared + own * rng.standard_normal(n)).tolist() for task in TASKS}


def simulate_tasks(rng: np.random.Generator, *, n: int, correlation: float) -> tuple[float, float]:
    """Whether any of seven tasks has a p below 5 % after Holm's correction, and before it."""
    a, b = (Contender(name, draw_tasks(rng, n, correlation)) for name in "ab")
    seed = int(rng.integers(2**31))
    rows = compare(a, b, tasks=TASKS, average=None, resamples=RESAMPLES, seed=seed).tasks
    return (
        any(row.p_holm is not None and row.p_holm < 0.05 for row in rows),
        any(row.p is not None and row.p < 0.05 for row in rows),
    )


def simulate_matrix(rng: np.random.Generator, *, n: int, rows: int) -> tuple[float, float]:
    """Whether any pair of equal rows has a p below 5 % after Holm's correction, and before it."""
    scores = rng.standard_normal((rows, n)).tolist()
    contenders = [Contender(str(row), {"mr": each}) for row, each in enumerate(scores)]
    matrix = compare_all(contenders, tasks=["mr"], resamples=10_000)
    found = []
    for ps in (matrix.p_holm, matrix.p):
        found.append(any(p is not None and p < 0.05 for row in ps for p in row))
    return found[0], found[1]


def measure_holm(simulator: Simulator) -> str:
    """Measure how often any of several true hypotheses is rejected."""
    seeds = (2, 3, 5, 10)
    correlations = (0.0, 0.9)
    tasks = [
        {"n": n, "correlation": correlation} for correlation, n in product(correlations, seeds)
    ]
    sizes = (3, 5)
    matrices = [{"n": n, "rows": rows} for rows, n in product(sizes, seeds)]
    found = [
        *simulator.run(simulate_tasks, tasks, 1_600),
        *simulator.run(simulate_matrix, matrices, 1_600),
    ]
    names = [
        *(f"seven tasks, correlated {correlation:g} over seeds" for correlation in correlations),
        *(f"all {rows * (rows - 1) // 2} pairs of {rows} rows" for rows in sizes),
    ]
    rows = []
    for name, row in zip(names, fold(found, len(seeds)), strict=True):
        rows.append([name, *(format_mean(each[:, 0]) for each in row)])
        rows.append(["… without correction", *(format_mean(each[:, 1]) for each in row)])
    head = ["any p below 5 %", *(f"{n} seeds" for n in seeds)]
    return simulator.format_table(head, rows, 1_600)


def simulate_board(
    rng: np.random.Generator, *, rows: int, n: int, gap: float
) -> tuple[float, float, float]:
    """Which share of rows have their true rank in the interval; all; and which the first rank.

    Rows that are truly equal share several ranks, each of which is true. The first is rank 1.
    """
    truth = -gap * np.arange(rows)
    drawn = [(list(rng.normal(mean, 1, n)), None) for mean in truth]
    ranks = joint_ranks(drawn, resamples=RESAMPLES, seed=int(rng.integers(2**31)))
    held, first = [], []
    for mean, rank in zip(truth, ranks, strict=True):
        assert rank is not None
        best, worst = 1 + np.count_nonzero(truth > mean), np.count_nonzero(truth >= mean)
        held.append(rank.best <= worst and best <= rank.worst)
        first.append(rank.best <= best)
    return float(np.mean(held)), float(all(held)), float(np.mean(first))


def measure_ranks(simulator: Simulator) -> str:
    """Measure the coverage of rank intervals, by row and by board."""
    sizes, seeds, gaps = (5, 10), (2, 5), (0.0, 0.5, 1.0)
    settings = list(product(sizes, seeds))
    cases = [
        {"rows": rows, "n": n, "gap": gap} for (rows, n), gap in product(settings, gaps)
    ]  # fmt: skip
    found = simulator.run(simulate_board, cases, 400)
    rows = []
    for (size, n), (equal, *apart) in zip(settings, fold(found, len(gaps)), strict=True):
        of_row, of_board = (
            [format_mean(each[:, column]) for each in (*apart, equal)] for column in (0, 1)
        )
        rows.append([f"{size} rows of {n} seeds", *of_row, format_mean(equal[:, 2])])
        rows.append(["… all rows at once", *of_board, ""])
    head = [
        "neighbours apart by, in standard deviations of a seed",
        *(f"{gap:g}" for gap in gaps[1:]),
        "0: a shared rank",
        "0: the first of them",
    ]
    return simulator.format_table(head, rows, 400)
