"""Estimates what choosing on dev is worth: the chosen configuration's test gain over average."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups
from cse_platform.leaderboard.statistics.intervals import TAILS, seed_errors
from cse_platform.leaderboard.statistics.resampling import Floats, TaskPairs, spearman_draws
from cse_platform.leaderboard.statistics.results import Interval

RowsName = Literal["all", "shared", "kept"]
"""`all` rows of the tasks; `shared` rows, whose pair is in a dev set used for choosing; `kept`
rows, on which clean scores are computed: their pair is in no such dev set and in no earlier task.
"""

_FEWEST_ROWS = 10
"""Tasks with fewer such rows are left out: a correlation over so few is meaningless."""
_FEWEST, _MOST, _DRAWN = 400, 2000, 40_000
"""Minimum and maximum number of resamples, and the number of correlations per task to aim for."""


@dataclass(frozen=True, eq=False)
class EvaluatedConfiguration:
    """A configuration that could be chosen on dev, with its results on test sets."""

    dev: Sequence[float]
    """The dev score of each seed."""
    cosines: Mapping[str, NDArray[np.floating[Any]]]
    """The cosines of each task, shape (seeds, pairs)."""


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The rows of a test set, and which of them a dev set shares."""

    task: str
    gold: Floats
    """Shape (pairs,)."""
    groups: Groups | None
    """The groups of pairs that share a sentence, shape (pairs,); None if unknown."""
    shared: NDArray[np.bool_] | None
    """Rows whose pair is in a dev set used for choosing, shape (pairs,); None if unknown."""
    kept: NDArray[np.bool_]
    """Rows that clean scores are computed on, shape (pairs,)."""


@dataclass(frozen=True)
class ChoiceGain:
    """The gain of the chosen configuration on some rows of the test sets; fractions."""

    rows: RowsName
    tasks: tuple[str, ...]
    """The tasks that the gain is averaged over."""
    pairs: int
    """The number of these rows."""
    gain: float
    interval: Interval


@dataclass(frozen=True)
class ChoiceWorth:
    """What choosing one of several evaluated configurations on dev was worth; fractions."""

    configurations: int
    seeds: int
    """The number of seeds of the chosen configuration."""
    dev_gain: float
    """The dev mean of the chosen configuration minus the average over configurations."""
    gains: tuple[ChoiceGain, ...]
    """On all rows; then on the shared and the kept rows of the tasks with at least ten of each."""
    excess: float | None
    """The gain on shared rows minus that on kept rows; None if no task has ten of each."""
    excess_interval: Interval | None


def choice_worth(
    configurations: Sequence[EvaluatedConfiguration], tasks: Sequence[TaskRows], *, seed: int = 0
) -> ChoiceWorth:
    r"""Estimate the gain of the configuration with the highest dev mean over the average one.

    .. math:: g = \frac 1 T \sum_t \Big(\bar\rho_{c^*\!,t} - \frac 1 C \sum_c \bar\rho_{c,t}\Big)

    for Spearman's correlations :math:`\rho`, averaged over the seeds of a configuration c, on the
    chosen rows of T tasks. A configuration with several seeds is preferred to one with a single
    seed, as on the leaderboard.

    If choosing on dev overfits its pairs, g is higher on the rows that test sets share with dev
    than on the others. It is also higher if configurations differ more on the kind of rows that are
    shared; the excess alone does not distinguish the two.

    The 95 % intervals take the choice as given. They combine a bootstrap over the groups of pairs
    that share a sentence, with the same resamples for all configurations, and Student errors over
    the seeds of each configuration that has several. Shared and kept rows are resampled separately.

    Args:
        configurations: two or more, with cosines for all tasks.
        tasks: the test sets, one or more.
        seed: of the resampling.

    Raises:
        ValueError: if there are fewer than two configurations, or no task.
    """
    if len(configurations) < 2 or not tasks:
        raise ValueError(
            f"expected two configurations and a task, got {len(configurations)} and {len(tasks)}"
        )
    dev = [float(np.mean(each.dev)) for each in configurations]
    chosen = max(
        range(len(dev)), key=lambda index: (len(configurations[index].dev) > 1, dev[index])
    )
    split = [
        task for task in tasks if _count_rows(task.shared) >= _FEWEST_ROWS <= _count_rows(task.kept)
    ]
    rows: list[tuple[RowsName, Sequence[TaskRows]]] = [("all", tasks)]
    rows += [("shared", split), ("kept", split)] if split else []
    computed = {
        name: _compute_gain(configurations, chosen, name, among, seed=seed) for name, among in rows
    }
    excess = excess_interval = None
    if split:
        (shared, shared_draws), (kept, kept_draws) = computed["shared"], computed["kept"]
        excess = shared.gain - kept.gain
        excess_interval = _make_interval(shared_draws - kept_draws, configurations[chosen])
    return ChoiceWorth(
        configurations=len(configurations),
        seeds=len(configurations[chosen].dev),
        dev_gain=dev[chosen] - float(np.mean(dev)),
        gains=tuple(gain for gain, _ in computed.values()),
        excess=excess,
        excess_interval=excess_interval,
    )


def _count_rows(rows: NDArray[np.bool_] | None) -> int:
    return 0 if rows is None else int(rows.sum())


def _compute_gain(
    configurations: Sequence[EvaluatedConfiguration],
    chosen: int,
    name: RowsName,
    tasks: Sequence[TaskRows],
    *,
    seed: int,
) -> tuple[ChoiceGain, Floats]:
    """Compute the gain on these rows, and its bootstrap draws, shape (resamples,)."""
    from cse_methods.metrics import spearman  # torch: a second

    sizes = [len(each.dev) for each in configurations]
    resamples = min(_MOST, max(_FEWEST, _DRAWN // sum(sizes)))
    scores, draws = np.zeros(sum(sizes)), np.zeros((sum(sizes), resamples))
    for task in tasks:
        pairs = _select_rows(configurations, task, name)
        scores += [spearman(cosines, pairs.gold) for cosines in pairs.cosines]
        draws += spearman_draws(pairs, resamples=resamples, seed=seed)
    ends = np.cumsum(sizes)[:-1]
    by_configuration = np.split(scores / len(tasks), ends)
    drawn = np.array([own.mean(axis=0) for own in np.split(draws / len(tasks), ends)])
    rng = np.random.default_rng(seed)
    for index, own in enumerate(by_configuration):
        if len(own) > 1:
            drawn[index] += seed_errors(own[:, None], resamples=resamples, rng=rng)[0]
    means = np.array([own.mean() for own in by_configuration])
    gains: Floats = drawn[chosen] - drawn.mean(axis=0)
    gain = ChoiceGain(
        rows=name,
        tasks=tuple(task.task for task in tasks),
        pairs=sum(
            len(task.gold) if name == "all" else _count_rows(getattr(task, name)) for task in tasks
        ),
        gain=float(means[chosen] - means.mean()),
        interval=_make_interval(gains, configurations[chosen]),
    )
    return gain, gains


def _select_rows(
    configurations: Sequence[EvaluatedConfiguration], task: TaskRows, name: RowsName
) -> TaskPairs:
    """Select the rows of a task, with the cosines of all seeds of all configurations."""
    masks = {"all": np.ones(len(task.gold), np.bool_), "shared": task.shared, "kept": task.kept}
    rows = masks[name]
    assert rows is not None  # tasks without are left out
    cosines = np.concatenate([each.cosines[task.task] for each in configurations])
    groups = None if task.groups is None else task.groups[rows]
    return TaskPairs(task.task, task.gold[rows], cosines[:, rows], groups)


def _make_interval(draws: Floats, chosen: EvaluatedConfiguration) -> Interval:
    low, high = np.quantile(draws, TAILS)
    return Interval(float(low), float(high), "seeds" if len(chosen.dev) > 1 else "pairs")
