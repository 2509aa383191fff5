"""Compare the cost of a comparison by resampling with scipy's: `make bench-resampling`.

Two encoders with one seed each have made-up cosines for as many pairs as the seven STS tasks have.
scipy runs a few hundred resamples, and its time is scaled to the number that `compare` uses. Both
run in one process on one thread.
"""

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, spearmanr

from cse_platform.leaderboard.statistics.compare import compare
from cse_platform.leaderboard.statistics.intervals import Contender
from cse_platform.leaderboard.statistics.resampling import draw_scores

PAIRS = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "sickr": 4927,
}
RESAMPLES, BOARD_RESAMPLES, SCIPY_RESAMPLES = 10_000, 2_000, 200


def made_contender(name: str, noise: float) -> Contender:
    """Make cosines that correlate with gold scores from 0 to 5 about as well as an encoder's."""
    rng = np.random.default_rng(list(name.encode()))
    gold = {
        task: np.random.default_rng(pairs).integers(0, 26, pairs) / 5
        for task, pairs in PAIRS.items()
    }
    cosines = {
        task: (truth / 5 + rng.normal(scale=noise, size=(1, len(truth)))).astype(np.float32)
        for task, truth in gold.items()
    }
    scores = {task: [spearmanr(gold[task], cosines[task][0]).statistic] for task in PAIRS}
    return Contender(name, scores, cosines, gold)


def scipys_difference(
    gold: NDArray[np.float64], a: NDArray[np.float32], b: NDArray[np.float32]
) -> float:
    """Compute the difference of the Spearman correlations of A and B."""
    return float(spearmanr(gold, a).statistic - spearmanr(gold, b).statistic)


def scipys_bootstrap(a: Contender, b: Contender) -> None:
    """Run scipy's paired bootstrap of each task's difference."""
    for task in PAIRS:
        bootstrap(
            (a.gold[task], a.values[task][0], b.values[task][0]),
            scipys_difference,
            paired=True,
            vectorized=False,
            n_resamples=SCIPY_RESAMPLES,
            method="percentile",
            rng=0,
        )


def board_row(a: Contender) -> None:
    """Resample a leaderboard row of one seed."""
    for task in PAIRS:
        draw_scores(
            task, "spearman", a.values[task], a.gold[task], resamples=BOARD_RESAMPLES, seed=0
        )


def seconds(work: Callable[[], object]) -> float:
    """Return the shorter time of two runs."""
    taken = []
    for _ in range(2):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def main() -> None:
    """Print the times."""
    a, b = made_contender("a", 0.25), made_contender("b", 0.26)
    ours = seconds(lambda: compare(a, b, tasks=list(PAIRS), average="avg_sts", resamples=RESAMPLES))
    theirs = seconds(lambda: scipys_bootstrap(a, b)) * RESAMPLES / SCIPY_RESAMPLES
    row = seconds(lambda: board_row(a))
    sys.stdout.write(
        f"{sum(PAIRS.values()):,} pairs of {len(PAIRS)} tasks\n"
        f"compare, two encoders, {RESAMPLES:,} resamples   {ours:8.2f} s\n"
        f"scipy.stats.bootstrap, scaled to as many     {theirs:8.1f} s, {theirs / ours:.0f} times\n"
        f"a row's single seed, {BOARD_RESAMPLES:,} resamples         {row:8.2f} s\n"
    )


if __name__ == "__main__":
    main()
