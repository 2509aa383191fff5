"""Error rates over examples: of bootstraps with and without seeds, and of Williams's test."""

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from seeds import covers
from simulator import Floats, Simulator, fold, format_mean
from sklearn.metrics import average_precision_score

from cse_methods.data.shared_sentences import Groups, group_by_sentence
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.names import TASKS
from cse_methods.tasks import STS_TASKS, Statistic
from cse_platform.leaderboard.statistics.compare import compare, williams
from cse_platform.leaderboard.statistics.intervals import Contender, difference, sample

PAIRS = 200
RESAMPLES = 500
GROUP_RESAMPLES = 192
NORMAL_REACH = 1.96


def score(cosines: Floats, gold: Floats) -> list[float]:
    """Compute each seed's Spearman correlation with gold; cosines have the shape (seeds, pairs)."""
    ranks = rankdata(gold)
    return [float(np.corrcoef(ranks, row)[0, 1]) for row in rankdata(cosines, axis=1)]


def train_equal_methods(
    rng: np.random.Generator, *, n: int, pairs: int, quality: float, sharing: int
) -> list[Contender]:
    """Make up two equal methods, each with n seeds, scored on the same new pairs.

    Seeds differ by `quality` in how well they follow gold, and in their noise on each pair;
    `sharing` pairs have a sentence in common, and half of all noise with it.
    """
    groups = (np.arange(pairs) // sharing).astype(np.intp)

    def draw(rows: int) -> Floats:
        by_pair, by_group = rng.standard_normal((2, rows, pairs))
        return by_pair if sharing == 1 else (by_pair + by_group[:, groups]) / np.sqrt(2)

    gold, both = rng.standard_normal(pairs), draw(1)
    contenders = []
    for name in "ab":
        scale = 0.7 + quality * rng.standard_normal((n, 1))
        cosines = gold + scale * (both + 0.3 * draw(1) + 0.2 * draw(n))
        known = {} if sharing == 1 else {"stsb": groups}
        scores = {"stsb": score(cosines, gold)}
        contenders.append(Contender(name, scores, {"stsb": cosines}, {"stsb": gold}, known))
    return contenders


def simulate_pairs(
    rng: np.random.Generator, *, n: int, pairs: int, quality: float, sharing: int
) -> tuple[float, float]:
    """Whether the interval of equal methods' difference covers 0, and p is below 5 %."""
    a, b = train_equal_methods(rng, n=n, pairs=pairs, quality=quality, sharing=sharing)
    seed = int(rng.integers(2**31))
    row = compare(a, b, tasks=["stsb"], average=None, resamples=RESAMPLES, seed=seed).tasks[0]
    assert row.p is not None
    return covers(row.interval), row.p < 0.05


def measure_pairs_and_seeds(simulator: Simulator) -> str:
    """Measure the coverage of equal methods' difference over pairs and seeds."""
    seeds = (2, 3, 5, 10)
    kinds = list(product((1, 4), (0.0, 0.1)))
    cases = [
        {"n": n, "pairs": PAIRS, "quality": quality, "sharing": sharing}
        for (sharing, quality), n in product(kinds, seeds)
    ]
    found = simulator.run(simulate_pairs, cases, 800)
    cells = fold([format_mean(each[:, 0]) for each in found], len(seeds))
    rows = []
    for (sharing, quality), row in zip(kinds, cells, strict=True):
        differ = "in quality too" if quality else "in their errors on each pair"
        shared = "no sentence is shared" if sharing == 1 else f"{sharing} pairs share a sentence"
        rows.append([f"{shared}; seeds differ {differ}", *row])
    head = [f"{PAIRS} pairs", *(f"{n} seeds a side" for n in seeds)]
    return simulator.format_table(head, rows, 800)


def measure_pairs_alone(simulator: Simulator) -> str:
    """Measure how often equal encoders of one seed differ at 5 %."""
    sizes, sharings = (200, 1379), {"no sentence is shared": 1, "4 pairs share a sentence": 4}
    cases = [
        {"n": 1, "pairs": pairs, "quality": 0.0, "sharing": sharing}
        for sharing, pairs in product(sharings.values(), sizes)
    ]
    found = simulator.run(simulate_pairs, cases, 1_600)
    cells = fold([format_mean(each[:, 1]) for each in found], len(sizes))
    rows = [[name, *row] for name, row in zip(sharings, cells, strict=True)]
    head = ["p below 5 %", *(f"{pairs:,} pairs" for pairs in sizes)]
    return simulator.format_table(head, rows, 1_600)


def simulate_kind(
    rng: np.random.Generator, *, statistic: Statistic, graded: bool, examples: int
) -> tuple[float]:
    """Whether equal encoders of one seed differ at 5 % on a task whose score is that statistic.

    Values are a query's metric, `graded` from 0 to 1, or whether a text is classified rightly; of
    an average precision, cosines of pairs of which three in ten have label 1.
    """
    gold = (rng.random(examples) < 0.3).astype(float)
    both, *own = rng.standard_normal((3, examples))
    contenders = []
    for name, noise in zip("ab", own, strict=True):
        values = 0.7 * both + 0.5 * noise
        if statistic == "average_precision":
            values += 1.5 * gold
            value = float(average_precision_score(gold, values))
        else:
            values = np.clip(values + 0.5, 0, 1) if graded else (values > -0.7).astype(float)
            value = float(values.mean())
        known = {"set": gold} if statistic == "average_precision" else {}
        statistics = {"set": statistic}
        contender = Contender(name, {"set": [value]}, {"set": values[None]}, known)
        contenders.append(replace(contender, statistics=statistics))
    seed = int(rng.integers(2**31))
    found = compare(*contenders, tasks=["set"], average=None, resamples=RESAMPLES, seed=seed)
    p = found.tasks[0].p
    assert p is not None
    return (p < 0.05,)


def measure_kinds(simulator: Simulator) -> str:
    """Measure how often equal encoders of one seed differ at 5 % on tasks of other kinds."""
    sizes, simulations = (200, 1_000), 1_600
    kinds: dict[str, tuple[Statistic, bool]] = {
        "mean of a metric of each query": ("mean", True),
        "mean correctness of texts": ("mean", False),
        "average precision of pairs": ("average_precision", False),
    }
    cases = [
        {"statistic": statistic, "graded": graded, "examples": examples}
        for (statistic, graded), examples in product(kinds.values(), sizes)
    ]
    found = simulator.run(simulate_kind, cases, simulations)
    cells = fold([format_mean(each[:, 0]) for each in found], len(sizes))
    rows = [[name, *row] for name, row in zip(kinds, cells, strict=True)]
    head = ["p below 5 %", *(f"{examples:,} examples" for examples in sizes)]
    return simulator.format_table(head, rows, simulations)


def read_graphs() -> dict[str, tuple[NDArray[np.intp], Groups]] | None:
    """Read the sentences of each pair, shape (2, pairs), and its group, by test set.

    None without the data folder, which CSE_DATA names, or CSE_SHARED the folder above it.
    """
    shared = os.environ.get("CSE_SHARED", Path(__file__).parents[2] / "shared")
    folder = Path(os.environ.get("CSE_DATA", Path(shared) / "data"))
    if not folder.is_dir():
        return None
    graphs = {}
    for task in STS_TASKS:
        pairs = load_pair_set(task, str(folder))
        _, sentences = np.unique([*pairs.first, *pairs.second], return_inverse=True)
        groups = group_by_sentence(pairs.first, pairs.second)
        graphs[task] = sentences.reshape(2, -1), groups
    return graphs


def simulate_graph(
    rng: np.random.Generator, *, sentences: NDArray[np.intp], groups: Groups, share: float
) -> tuple[float, float, float, float]:
    """Whether intervals of equal encoders' difference cover 0: by pairs, and by groups.

    `share` of the variance of gold and of each error belongs to the two sentences of a pair. Also
    returns the sum of the products of the contributions to the difference of any two pairs of a
    sentence, each in units of their variance, and the number of such products.
    """
    pairs = sentences.shape[1]

    def draw() -> Floats:
        own, by_sentence = rng.standard_normal(pairs), rng.standard_normal(sentences.max() + 1)
        of_sentences: Floats = by_sentence[sentences].sum(axis=0)
        return np.sqrt(1 - share) * own + np.sqrt(share / 2) * of_sentences

    gold, both = draw(), draw()
    cosines = [gold + 0.7 * (both + 0.5 * draw()) for _ in "ab"]
    scores = [score(each[None], gold)[0] for each in cosines]
    seed, covered = int(rng.integers(2**31)), []
    for known in ({}, {"set": groups}):
        a, b = (
            Contender(name, {"set": [value]}, {"set": each[None]}, {"set": gold}, known)
            for name, value, each in zip("ab", scores, cosines, strict=True)
        )
        left, right = sample((a, b), ["set"], resamples=GROUP_RESAMPLES, seed=seed)
        drawn = difference(left, right, ["set"])
        assert drawn is not None
        error = drawn[0].std(ddof=1)
        covered.append(abs(scores[0] - scores[1]) <= NORMAL_REACH * error)
    return (*covered, *_correlate_contributions(gold, cosines, scores, sentences))


def _correlate_contributions(
    gold: Floats, cosines: Sequence[Floats], scores: Sequence[float], sentences: NDArray[np.intp]
) -> tuple[float, float]:
    """Sum the products of the pairs' contributions to the difference over pairs of a sentence."""
    ranks = [rankdata(values) for values in (gold, *cosines)]
    g, a, b = ((values - values.mean()) / values.std() for values in ranks)
    parts = g * (a - b) - scores[0] * (a**2 + g**2) / 2 + scores[1] * (b**2 + g**2) / 2
    parts = (parts - parts.mean()) / parts.std()
    different = sentences[0] != sentences[1]
    places = np.concatenate([sentences[0], sentences[1][different]])
    values = np.concatenate([parts, parts[different]])
    sums, squares = np.bincount(places, values), np.bincount(places, values**2)
    numbers = np.bincount(places)
    return float((sums**2 - squares).sum()), float((numbers * (numbers - 1)).sum())


def measure_groups(simulator: Simulator) -> str | None:
    """Measure the coverage of bootstraps by pairs and by groups on the real sets' graphs."""
    if (graphs := read_graphs()) is None:
        return None
    shares = (0.0, 0.9)
    cases = [
        {"sentences": sentences, "groups": groups, "share": share}
        for share, (sentences, groups) in product(shares, graphs.values())
    ]
    found = simulator.run(simulate_graph, cases, 304)
    rows = []
    for share, each in zip(shares, (found[: len(graphs)], found[len(graphs) :]), strict=True):
        told = "correlated" if share else "independent"
        for column, name in enumerate(("by pairs", "by groups")):
            cells = [format_mean(one[:, column], digits=0) for one in each]
            rows.append([f"{told}, {name}", *cells])
        between = [f"{one[:, 2].sum() / one[:, 3].sum():z.2f}" for one in each]
        rows.append([f"{told}: correlation of two pairs of a sentence", *between])
    return simulator.format_table(["", *map(TASKS.__getitem__, graphs)], rows, 304)


def simulate_williams(rng: np.random.Generator, *, correlation: float, ranks: bool) -> tuple[float]:
    """Whether Williams's test finds equal encoders different at 5 %, on 1,379 pairs."""
    gold, both, *own = rng.standard_normal((4, 1379))
    noise = np.sqrt(1 / correlation**2 - 1)
    values = np.array([gold, *(gold + noise * (0.9 * both + np.sqrt(0.19) * o) for o in own)])
    r = np.corrcoef(rankdata(values, axis=1) if ranks else values)
    return (williams(float(r[0, 1]), float(r[0, 2]), float(r[1, 2]), 1379)[1] < 0.05,)


def measure_williams(simulator: Simulator) -> str:
    """Measure the false positives of Williams's test on values and on ranks."""
    correlations, kinds = (0.4, 0.6, 0.78, 0.9), {"Pearson": False, "Spearman": True}
    cases = [
        {"correlation": correlation, "ranks": ranks}
        for ranks, correlation in product(kinds.values(), correlations)
    ]
    found = simulator.run(simulate_williams, cases, 10_000)
    cells = fold([format_mean(each[:, 0]) for each in found], len(correlations))
    rows = [[name, *row] for name, row in zip(kinds, cells, strict=True)]
    head = ["p below 5 %", *(f"correlation {correlation:g}" for correlation in correlations)]
    return simulator.format_table(head, rows, 10_000)
