"""What a search has found, and how far that can be trusted."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory, TrialOutcome
from cse_platform.leaderboard.statistics.border import BorderSide, border_side
from cse_platform.leaderboard.statistics.expected_best import ExpectedBest, expected_best
from cse_platform.leaderboard.statistics.winners_curse import WinnersCurse, winners_curse
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.search.findings.even import even_history, highest_first
from cse_platform.search.findings.importance import EVALUATOR, Importance, unsure_importances
from cse_platform.search.replay import replayed_study
from cse_platform.sweep.space.dimensions import Choices, Dimension

LEAST_SEARCHED = 10
"""Trials below which a search says nothing of itself."""
MOST_SIZES = 40
"""Numbers of trials for which the expected best is told."""
INDEPENDENT = ("random",)
"""Samplers whose trials do not depend on the ones before them."""
OUTER = 0.1
"""The share of a range, at each side, that counts as its border."""


@dataclass(frozen=True)
class BestSoFar:
    """A trial that was better than all before it."""

    trials: int
    """How many of the search had been begun, itself included."""
    value: float


@dataclass(frozen=True)
class AtBorder:
    """A hyperparameter whose best values lie at the border of what was searched."""

    name: str
    side: BorderSide
    bound: Any
    """The bound to move, or the last of the choices."""
    choices: bool
    """Whether it is one of a list."""
    of_best: int
    """How many of the best five trials lie there."""


@dataclass(frozen=True)
class SearchFindings:
    """What a search has found. Values are dev scores, fractions."""

    sweep: str
    dev: str
    sampler: str
    trials: int
    """Of the search, that came to a value; pruned ones have the best until they were stopped."""
    best: float
    best_so_far: tuple[BestSoFar, ...]
    expected: tuple[ExpectedBest, ...]
    """For up to half of the trials."""
    independent: bool
    """Whether `expected` is what as many trials of this sampler reach; else it is of its trials,
    taken in any order."""
    curse: WinnersCurse | None
    """None where no further seed says how far the best value is luck."""
    evaluator: str
    """Of the importances."""
    importances: tuple[Importance, ...]
    """The most important one first; empty where there are not two hyperparameters."""
    borders: tuple[AtBorder, ...]


def search_findings(history: SearchHistory) -> SearchFindings | None:
    """What is known of a search; None with fewer than ten trials that came to a value."""
    tried = [one for one in history.outcomes if one.role == "search"]
    ended = [one for one in tried if one.state in ("COMPLETE", "PRUNED")]
    scored = [(one, one.value) for one in ended if one.value is not None]
    complete = [(one, value) for one, value in scored if one.state == "COMPLETE"]
    if len(scored) < LEAST_SEARCHED or not complete:
        return None
    winner, best = max(complete, key=lambda pair: pair[1])
    return SearchFindings(
        sweep=history.sweep,
        dev=history.dev,
        sampler=history.sampler,
        trials=len(scored),
        best=best,
        best_so_far=tuple(_best_so_far(tried)),
        expected=tuple(expected_best([value for _, value in scored], _sizes(len(scored)))),
        independent=history.sampler in INDEPENDENT,
        curse=_curse(history, winner, best),
        evaluator=EVALUATOR,
        importances=tuple(_importances(history)),
        borders=tuple(_borders(history)),
    )


def _best_so_far(tried: Sequence[TrialOutcome | TrialSummary]) -> Iterator[BestSoFar]:
    best = float("-inf")
    for begun, one in enumerate(tried, start=1):
        if one.state == "COMPLETE" and one.value is not None and one.value > best:
            best = one.value
            yield BestSoFar(begun, best)


def _sizes(trials: int) -> list[int]:
    most = trials // 2
    return sorted({max(1, round(most * part / MOST_SIZES)) for part in range(1, MOST_SIZES + 1)})


def _curse(
    history: SearchHistory, winner: TrialOutcome | TrialSummary, best: float
) -> WinnersCurse | None:
    fresh: dict[str, list[float]] = defaultdict(list)
    for one in history.outcomes:
        if one.role == "confirm" and one.state == "COMPLETE" and one.value is not None:
            fresh[one.configuration].append(one.value)
    own = fresh.pop(winner.configuration, [])
    return winners_curse(best, own, list(fresh.values()))


def _importances(history: SearchHistory) -> list[Importance]:
    study = replayed_study(even_history(history)).study
    values = {tuple(trial.values) for trial in study.get_trials(deepcopy=False) if trial.values}
    if len(history.space) < 2 or len(values) < 2:
        return []
    return unsure_importances(study)


def _borders(history: SearchHistory) -> Iterator[AtBorder]:
    tried = [one for one in history.trials if one.role == "search" and one.value is not None]
    best_first = highest_first([one for one in tried if one.state == "COMPLETE"])
    for name, dimension in history.space.items():
        ends = _ends(dimension)
        if ends is None:
            continue
        values = [one.values[name] for one in best_first if name in one.values]
        sides = [_side(value, dimension, ends) for value in values]
        if found := border_side(sides, chances=_chances(dimension)):
            side, there = found
            bound = ends[0] if side == "low" else ends[1]
            yield AtBorder(name, side, bound, isinstance(dimension, Choices), there)


def _ends(dimension: Dimension) -> tuple[Any, Any] | None:
    """The lowest and the highest value; None of choices that have no order."""
    if not isinstance(dimension, Choices):
        return dimension.low, dimension.high
    numbers = [one for one in dimension.choices if isinstance(one, (int, float))]
    if len(numbers) < len(dimension.choices) or any(isinstance(one, bool) for one in numbers):
        return None
    return min(numbers), max(numbers)


def _side(value: Any, dimension: Dimension, ends: tuple[Any, Any]) -> BorderSide | None:
    if isinstance(dimension, Choices):
        return "low" if value == ends[0] else "high" if value == ends[1] else None
    share = dimension.share(value)
    return "low" if share <= OUTER else "high" if share >= 1 - OUTER else None


def _chances(dimension: Dimension) -> dict[BorderSide, float]:
    """The share of trials at each side, if they are spread evenly."""
    if isinstance(dimension, Choices):
        return {"low": 1 / len(dimension.choices), "high": 1 / len(dimension.choices)}
    if not dimension.whole and dimension.step is None:
        return {"low": OUTER, "high": OUTER}
    shares = [dimension.share(dimension.at((n + 0.5) / 1000)) for n in range(1000)]
    low = sum(share <= OUTER for share in shares) / len(shares)
    return {"low": low, "high": sum(share >= 1 - OUTER for share in shares) / len(shares)}
