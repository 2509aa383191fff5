"""Summarise a search: its best value, how far to trust it, and which hyperparameters matter."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.past_searches import SearchHistory
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.statistics.searches import (
    LEAST_SEARCHED,
    BorderSide,
    ExpectedBest,
    WinnersCurse,
    border_side,
    expected_best,
    winners_curse,
)
from cse_platform.numbers import format_count, percent, short_value
from cse_platform.stores.optuna.trials import build_distribution
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import find_value
from cse_platform.values import encode, is_number

MOST_COUNTED = 500
"""The most trials from which importances are computed; more hardly change them."""


def subsample_history(history: SearchHistory) -> SearchHistory:
    """Subsample a history to at most 500 trials, keeping the whole search's proportion of the best.

    If the history is itself a sample, half of its trials are the search's best ones.
    """
    trials = history.trials
    if history.is_sample:
        best = sort_by_value([trial for trial in trials if trial.state == "COMPLETE"])
        best = best[: len(trials) // 2]
        others, sampled = history.total - len(best), len(trials) - len(best)
        kept = {trial.number for trial in pick_evenly(best, round(len(best) * sampled / others))}
        too_many = {trial.number for trial in best} - kept
        trials = tuple(trial for trial in trials if trial.number not in too_many)
    if len(trials) > MOST_COUNTED:
        trials = tuple(pick_evenly(trials, MOST_COUNTED))
    return replace(history, trials=trials, total=len(trials))


def sort_by_value(trials: Sequence[Trial]) -> list[Trial]:
    """Sort trials by value, highest first, then by number."""
    return sorted(trials, key=lambda trial: (-(trial.best_value or 0.0), trial.number))


def pick_evenly(trials: Sequence[Trial], count: int) -> list[Trial]:
    """Pick `count` trials at equal distances."""
    return [trials[index * len(trials) // count] for index in range(count)]


def replay_study(history: SearchHistory) -> optuna.Study:
    """Rebuild a study in memory from a search's ended trials.

    Confirmation seeds are left out, and trials with a value that is not in the space. The study
    numbers the others from 0.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, space = optuna.create_study(direction="maximize"), history.space
    for trial in history.trials:
        if trial.role != "search" or trial.state == "RUNNING":
            continue
        # Without a known space, there are none.
        values = trial.searched_values if len(space) else {}
        try:
            point = {n: find_value(space, history.method, n, value) for n, value in values.items()}
        except LookupError:
            continue
        study.add_trial(
            create_trial(
                state=TrialState[trial.state],
                value=trial.best_value if trial.state == "COMPLETE" else None,
                params={name: encode(value) for name, value in point.items()},
                distributions={name: build_distribution(space[name]) for name in point},
            )
        )
    return study


EVALUATOR = "PED-ANOVA"
TOP, LEAST, HALF = 0.1, 5, 0.5
"""Importance is measured for being among the best: the best tenth of the complete trials, or the
best 5 if that is more, but never more than half of them."""
_RESAMPLES = (20, 100)
"""The smallest and the largest number of resamples."""
DRAWN = 8000
"""The number of trials in all resamples together: with more trials there are fewer resamples."""
_TAILS = (0.05, 0.95)


@dataclass(frozen=True)
class Importance:
    """The importance of one hyperparameter; all importances add up to 1."""

    name: str
    value: float
    low: float
    high: float
    """`low` and `high` are the 5th and 95th percentiles over resamples of the trials."""


def compute_importances(study: optuna.Study) -> dict[str, float]:
    """Compute the importance of each hyperparameter, highest first; they add up to 1."""
    # Imported here because it imports scikit-learn, which takes a second.
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    share_of_best = max(TOP, min(HALF, LEAST / len(complete)))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=share_of_best)
    with warnings.catch_warnings():  # about few trials, which the interval already shows
        warnings.simplefilter("ignore", UserWarning)
        return get_param_importances(study, evaluator=evaluator)


def bootstrap_importances(study: optuna.Study, *, seed: int = 0) -> list[Importance]:
    """Compute importances with bootstrap intervals over the trials, highest first.

    An interval shows how much an importance depends on which trials happened to be drawn; with few
    trials it can range from nearly 0 to nearly 1.
    """
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    rng = np.random.default_rng(seed)
    importances = compute_importances(study)
    fewest, most = _RESAMPLES
    resamples = max(fewest, min(most, DRAWN // len(complete)))
    drawn = []
    resample = _Resample(study)
    for _ in range(resamples):
        some = rng.integers(0, len(complete), len(complete))
        resample.trials_drawn = [complete[index] for index in some]
        again = compute_importances(resample)
        drawn.append([again.get(name, 0.0) for name in importances])
    low, high = np.quantile(np.array(drawn), _TAILS, axis=0)
    ends = zip(importances.items(), low.tolist(), high.tolist(), strict=True)
    return [Importance(name, value, *span) for (name, value), *span in ends]


class _Resample(optuna.Study):
    """A study whose complete trials are drawn from another study.

    Using `add_trials` instead would copy each trial, which is most of the time of a bootstrap.
    """

    def __init__(self, study: optuna.Study) -> None:
        storage = optuna.storages.InMemoryStorage()
        empty = optuna.create_study(storage=storage, direction="maximize")
        super().__init__(empty.study_name, storage)
        self.trials_drawn: list[FrozenTrial] = []

    def get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return list(self.trials_drawn)


MOST_SIZES = 40
"""The most numbers of trials for which the expected best is computed."""
OUTER = 0.1
"""The share of a range, at each end, that counts as its border."""


@dataclass(frozen=True)
class BestSoFar:
    """A trial that was better than all earlier ones."""

    trials: int
    """Number of trials that had begun, including this one."""
    value: float


@dataclass(frozen=True)
class AtBorder:
    """A hyperparameter whose best values lie at the border of its dimension."""

    name: str
    side: BorderSide
    bound: Any
    """The bound to move, or the outermost choice."""
    choices: bool
    """Whether the dimension is a list of choices."""
    of_best: int
    """How many of the best five trials lie there."""


@dataclass(frozen=True)
class SearchFindings:
    """The findings of a search; values are dev scores as fractions."""

    sweep: str
    dev: str
    sampler: str
    trials: int
    """Number of search trials with a value; that of a pruned trial is its best until it stopped."""
    best: float
    best_so_far: tuple[BestSoFar, ...]
    expected: tuple[ExpectedBest, ...]
    """The expected best of fewer trials, up to half of them; the fewest first."""
    independent: bool
    """Whether `expected` holds for new searches with this sampler; otherwise only for these trials
    in random order."""
    curse: WinnersCurse | None
    """How much of the best value is luck; None if it has no further seeds."""
    evaluator: str
    """The name of the method that computes importances."""
    importances: tuple[Importance, ...]
    """The most important hyperparameter first; empty if there are fewer than two."""
    borders: tuple[AtBorder, ...]


def search_findings(history: SearchHistory) -> SearchFindings | None:
    """Compute the findings of a search; None if fewer than ten trials have a value."""
    tried = [trial for trial in history.outcomes if trial.role == "search"]
    ended = [trial for trial in tried if trial.state in ("COMPLETE", "PRUNED")]
    scored = [(trial, trial.best_value) for trial in ended if trial.best_value is not None]
    complete = [(trial, value) for trial, value in scored if trial.state == "COMPLETE"]
    if len(scored) < LEAST_SEARCHED or not complete:
        return None
    winner, best = max(complete, key=lambda pair: pair[1])
    most = len(scored) // 2
    sizes = sorted({max(1, round(most * part / MOST_SIZES)) for part in range(1, MOST_SIZES + 1)})
    # The scores of confirmed configurations by seeds that chose none of them.
    fresh: dict[str, list[float]] = defaultdict(list)
    for trial in history.outcomes:
        if trial.role == "confirm" and trial.state == "COMPLETE" and trial.best_value is not None:
            fresh[trial.configuration].append(trial.best_value)
    own = fresh.pop(winner.configuration, [])
    best_so_far: list[BestSoFar] = []
    for begun, trial in enumerate(tried, start=1):
        highest = best_so_far[-1].value if best_so_far else float("-inf")
        value = trial.best_value if trial.state == "COMPLETE" else None
        if value is not None and value > highest:
            best_so_far.append(BestSoFar(begun, value))
    study = replay_study(subsample_history(history))
    values = {tuple(trial.values) for trial in study.get_trials(deepcopy=False) if trial.values}
    several = len(history.space) > 1 and len(values) > 1
    return SearchFindings(
        sweep=history.sweep,
        dev=history.dev,
        sampler=history.sampler,
        trials=len(scored),
        best=best,
        best_so_far=tuple(best_so_far),
        expected=tuple(expected_best([value for _, value in scored], sizes)),
        independent=history.sampler == "random",
        curse=winners_curse(best, own, list(fresh.values())),
        evaluator=EVALUATOR,
        importances=tuple(bootstrap_importances(study) if several else ()),
        borders=tuple(find_borders(history)),
    )


def find_borders(history: SearchHistory) -> Iterator[AtBorder]:
    """Yield each hyperparameter, unless its choices are no numbers, that is best at its border."""
    tried = [t for t in history.trials if t.role == "search" and t.best_value is not None]
    best_first = sort_by_value([trial for trial in tried if trial.state == "COMPLETE"])
    for name, dimension in history.space.items():
        if not all(map(is_number, dimension.ends)):
            continue
        low, high = min(dimension.ends), max(dimension.ends)
        values = [t.searched_values[name] for t in best_first if name in t.searched_values]
        sides = [_find_side(value, dimension) for value in values]
        # The share of trials at each border if values are spread evenly.
        if isinstance(dimension, Choices):
            chances: dict[BorderSide, float] = dict.fromkeys(
                ("low", "high"), 1 / dimension.grid_size
            )
        elif dimension.is_real:
            chances = {"low": OUTER, "high": OUTER}
        else:
            even = (dimension.value_at((n + 0.5) / 1000) for n in range(1000))
            counts = Counter(_find_side(value, dimension) for value in even)
            chances = {"low": counts["low"] / 1000, "high": counts["high"] / 1000}
        if border := border_side(sides, chances=chances):
            side, of_best = border
            bound = low if side == "low" else high
            yield AtBorder(name, side, bound, isinstance(dimension, Choices), of_best)


def _find_side(value: Any, dimension: Dimension) -> BorderSide | None:
    """Find the border at which a value lies: the outer tenth of a range, or an outermost choice."""
    if isinstance(dimension, Choices):
        low, high = value == min(dimension.choices), value == max(dimension.choices)
    else:
        position = dimension.position_of(value)
        low, high = position <= OUTER, position >= 1 - OUTER
    return "low" if low else "high" if high else None


_SHOWN = 3
"""The number of hyperparameters whose importance is printed."""


def format_findings(findings: SearchFindings) -> list[str]:
    """Describe the findings in four to eight lines."""
    trials, sampler = findings.trials, findings.sampler
    reached = dict.fromkeys(
        f"{best.trials} {percent(best.mean)} [{percent(best.low)}, {percent(best.high)}]"
        for most in (trials // 8, trials // 4)
        for best in [point for point in findings.expected if point.trials <= most][-1:]
    )
    expected = f"; expected of {', '.join(reached)}" if reached else ""
    new = f"a new search{f' by {sampler}' if sampler else ''}"
    order = "" if findings.independent else f" (these trials in any order, not {new})"
    lines = [f"best of {trials} trials {percent(findings.best)}{expected}{order}"]
    if (curse := findings.curse) is None:
        # Only a search of a sweep file has a sampler; recorded and imported trials have none.
        why = (
            "it has no further seeds (seeds: {confirm: {top: …, seeds: […]}})"
            if sampler
            else "of recorded or imported trials it is not known which seeds chose it"
        )
        lines.append(f"how much of the best score is luck is unknown, because {why}")
    else:
        known = curse.low is not None and curse.high is not None
        ends = f" [{percent(curse.low)}, {percent(curse.high)}]" if known else ""
        lines.append(
            f"luck in the best: {percent(curse.excess)}{ends}; "
            f"{format_count(curse.seeds, 'fresh seed')} of it reach {percent(curse.fresh)}"
        )
    if findings.importances:
        texts = ", ".join(
            f"{item.name} {item.value:.2f} [{item.low:.2f}, {item.high:.2f}]"
            for item in findings.importances[:_SHOWN]
        )
        lines.append(f"what decides ({findings.evaluator}): {texts}")
    return [*lines, *map(format_border, findings.borders)]


def format_border(border: AtBorder) -> str:
    """Describe a bound of the space at which the best trials lie, and how to widen it."""
    high = border.side == "high"
    if border.choices:
        location = f"at {short_value(border.bound)}"
        way_out = f"add a choice {'above' if high else 'below'}"
    else:
        location = f"in the outer tenth at {border.side}={short_value(border.bound)}"
        way_out = f"move {border.side} {'up' if high else 'down'}"
    text = f"{border.of_best} of the best 5 trials have {border.name} {location}"
    return f"at the border: {text}; {way_out} if the method allows it"
