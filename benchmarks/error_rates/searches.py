"""Error rates of a search: races, the expected best, the winner's curse, borders, and selection.

Seeds vary with a standard deviation of 1.
"""

from collections.abc import Sequence
from itertools import product
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.stats import laplace, norm, uniform
from seeds import covers
from simulator import Simulator, fold, format_mean

from cse_platform.counting_seeds import rate_seeds, select_counting_seeds
from cse_platform.leaderboard.records import best_key
from cse_platform.leaderboard.statistics.intervals import seed_interval
from cse_platform.leaderboard.statistics.searches import (
    BorderSide,
    border_side,
    expected_best,
    find_survivors,
    winners_curse,
)

RACE_SEEDS = range(5)
DISTRIBUTIONS = {"normal": norm, "uniform": uniform, "peaked (Laplace)": laplace}
SIZES = {40: [5, 10, 20], 100: [10, 25]}
"""The sizes of the subsets whose expected best is estimated, by the number of trials."""
CORRELATION = 0.7
"""Between a seed's noise on dev and on test."""
TOP = 3
Way = Literal["further seeds alone", "all seeds", "race", "no further seeds"]


def run_race(scores: Sequence[Sequence[float]]) -> dict[str, dict[int, float | None]]:
    """Race configurations with these scores by seed. Returns the scores that the race asked for."""
    planned = range(len(scores[0]))
    values: dict[str, dict[int, float | None]] = {str(n): {} for n in range(len(scores))}
    for seed in planned:
        for name in find_survivors(values, seeds=planned):
            values[name][seed] = scores[int(name)][seed]
    return values


def simulate_race(
    rng: np.random.Generator, *, racers: int, gap: float, spread: float
) -> tuple[float, float]:
    """Whether the best is dropped, and which share of the further trials is saved.

    Neighbours are `gap` apart; the best varies `spread` times as much as the others.
    """
    noise = rng.standard_normal((racers, len(RACE_SEEDS)))
    noise[0] *= spread
    values = run_race((noise - gap * np.arange(racers)[:, None]).tolist())
    used = sum(map(len, values.values()))
    return len(values["0"]) < len(RACE_SEEDS), 1 - used / noise.size


def measure_races(simulator: Simulator) -> str:
    """Measure how often a race drops the best configuration, and what it saves."""
    settings = [
        *((0.0, 1.0, racers) for racers in (2, 3, 10)),
        *((0.0, spread, 10) for spread in (2.0, 3.0)),
        *((gap, 1.0, racers) for racers in (3, 10) for gap in (1.0, 2.0, 4.0)),
    ]
    cases = [{"gap": gap, "spread": spread, "racers": racers} for gap, spread, racers in settings]
    found = simulator.run(simulate_race, cases, 2_000)
    rows = []
    for (gap, spread, racers), each in zip(settings, found, strict=True):
        apart = f"neighbours {gap:g} apart" if gap else "all equal"
        varied = "" if spread == 1 else f"; one varies {spread:g} times as much as the others"
        cells = [format_mean(each[:, column]) for column in (0, 1)]
        rows.append([f"{racers} configurations, {apart}{varied}", *cells])
    head = ["", "this one or the best is dropped", "further trials saved"]
    return simulator.format_table(head, rows, 2_000)


def compute_expected_best(distribution: str, n: int) -> float:
    """Compute the expected maximum of n values by numerical integration."""
    levels = (np.arange(1_000_000) + 0.5) / 1_000_000
    return float(DISTRIBUTIONS[distribution].ppf(levels ** (1 / n)).mean())


def simulate_expected_best(
    rng: np.random.Generator, *, distribution: str, trials: int, truths: Sequence[float]
) -> list[float]:
    """Whether the interval of the expected best of each size covers the truth."""
    values = DISTRIBUTIONS[distribution].rvs(size=trials, random_state=rng).tolist()
    found = expected_best(values, SIZES[trials], seed=int(rng.integers(2**31)))
    return [each.low <= truth <= each.high for each, truth in zip(found, truths, strict=True)]


def measure_expected_best(simulator: Simulator) -> str:
    """Measure the coverage of the interval of the expected best of n trials."""
    cases = [
        {
            "distribution": name,
            "trials": trials,
            "truths": [compute_expected_best(name, n) for n in sizes],
        }
        for name, (trials, sizes) in product(DISTRIBUTIONS, SIZES.items())
    ]
    found = simulator.run(simulate_expected_best, cases, 2_000)
    rows = []
    for name, each in zip(DISTRIBUTIONS, fold(found, len(SIZES)), strict=True):
        columns = [column for outcomes in each for column in outcomes.T]
        rows.append([name, *map(format_mean, columns)])
    head = ["values", *(f"{n} of {trials}" for trials, sizes in SIZES.items() for n in sizes)]
    return simulator.format_table(head, rows, 2_000)


def simulate_curse(
    rng: np.random.Generator, *, trials: int, top: int, n: int
) -> tuple[float, float]:
    """How much the best of equal trials is too high, and whether the interval covers that."""
    best = float(rng.standard_normal(trials).max())
    fresh, *others = rng.standard_normal((top, n)).tolist()
    curse = winners_curse(best, fresh, others)
    assert curse is not None and curse.low is not None and curse.high is not None
    return best, curse.low <= best <= curse.high


def measure_curse(simulator: Simulator) -> str:
    """Measure the winner's curse and the coverage of its interval."""
    tops, seeds = (1, 3), (2, 3, 5)
    cases = [{"trials": 30, "top": top, "n": n} for top, n in product(tops, seeds)]
    found = simulator.run(simulate_curse, cases, 20_000)
    cells = fold([format_mean(each[:, 1]) for each in found], len(seeds))
    rows = [[f"{top} with further seeds", *row] for top, row in zip(tops, cells, strict=True)]
    excess = [format_mean(each[:, 0], digits=2, scale=1) for each in found[: len(seeds)]]
    rows.append(["the best is too high by, in standard deviations", *excess])
    head = ["30 equal configurations", *(f"{n} further seeds" for n in seeds)]
    return simulator.format_table(head, rows, 20_000)


def simulate_border(rng: np.random.Generator, *, chance: float) -> tuple[float]:
    """Whether evenly spread trials are reported to be best at a border."""
    drawn = rng.random(5)
    sides: list[BorderSide | None] = [
        "low" if place < chance else "high" if place >= 1 - chance else None for place in drawn
    ]
    return (border_side(sides, chances={"low": chance, "high": chance}) is not None,)


def measure_borders(simulator: Simulator) -> str:
    """Measure how often trials without any trend are reported to be best at a border."""
    kinds = {
        "a range": 0.1,
        "two choices": 1 / 2,
        "three choices": 1 / 3,
        "four": 1 / 4,
        "five": 1 / 5,
        "ten": 1 / 10,
    }
    found = simulator.run(
        simulate_border, [{"chance": chance} for chance in kinds.values()], 100_000
    )
    rows = [["reported", *(format_mean(each[:, 0], digits=2) for each in found)]]
    return simulator.format_table(["", *kinds], rows, 100_000)


def simulate_selection(
    rng: np.random.Generator, *, trials: int, n: int, way: Way, top: int = TOP
) -> tuple[float, float, float, float]:
    """Choose a row among equal configurations. Returns bias and coverage, on dev and on test.

    The search gives each configuration seed 0; the `top` best on dev get n further seeds. The row
    is the best of them by its mean on dev over the seeds that count.
    """
    scores = rng.standard_normal((trials, n + 1, 2))
    scores[..., 1] *= np.sqrt(1 - CORRELATION**2)
    scores[..., 1] += CORRELATION * scores[..., 0]
    best = np.argsort(-scores[:, 0, 0])[:top]
    complete = {str(place): list(range(n + 1)) for place in range(len(best))}
    if way == "race":
        raced = run_race(scores[best, 1:, 0].tolist())
        complete = {name: [0, *(seed + 1 for seed in values)] for name, values in raced.items()}
    chose = [] if way == "all seeds" else [0]
    counted = {name: select_counting_seeds(seeds, chose) for name, seeds in complete.items()}

    def rank(name: str) -> object:
        seeds, mean = complete[name], fmean(scores[best[int(name)], counted[name], 0])
        standing = rate_seeds(len(seeds), len(set(seeds).difference(chose)), 0)
        return best_key(standing=standing, mean=mean, configuration=name)

    row = max(counted, key=rank)  # type: ignore[arg-type]
    found = []
    for column in (0, 1):
        values = scores[best[int(row)], counted[row], column].tolist()
        interval = seed_interval(values)
        found += [fmean(values), np.nan if interval is None else covers(interval)]
    return found[0], found[1], found[2], found[3]


def measure_selection(simulator: Simulator) -> str:
    """Measure bias and coverage of a row that a search chose, on dev and on test."""
    further: list[tuple[Way, int, int]] = [
        *(("further seeds alone", n, TOP) for n in (2, 3, 5)),
        ("further seeds alone", 3, 1),
        *(("race", n, TOP) for n in (3, 5)),
        *(("all seeds", n, TOP) for n in (2, 3, 5)),
        ("no further seeds", 0, 1),
    ]
    names: dict[Way, str] = {
        "further seeds alone": "the further seeds alone",
        "race": "the further seeds alone, in a race",
        "all seeds": "all seeds, the one that chose it too",
        "no further seeds": "the one that chose it",
    }
    cases = [{"trials": 100, "n": n, "way": way, "top": top} for way, n, top in further]
    found = simulator.run(simulate_selection, cases, 10_000)
    rows = []
    for (way, n, top), each in zip(further, found, strict=True):
        cells = []
        for place in (0, 2):
            cells.append(format_mean(each[:, place], digits=2, scale=1))
            cells.append(format_mean(each[:, place + 1]) if n else "no interval")
        rows.append([f"{top} x {n}" if n else "none", names[way], *cells])
    head = ["confirmed x seeds", "seeds that count", "bias on dev", "coverage on dev"]
    head += ["bias on test", "coverage on test"]
    return simulator.format_table(head, rows, 10_000)
