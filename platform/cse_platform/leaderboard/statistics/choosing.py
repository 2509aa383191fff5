"""What choosing on dev is worth: the test gain of the chosen configuration over the average one."""

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
"""All rows of the tasks; those whose pair stands in a dev set that chose; those that clean scores
keep, whose pair stands neither in one nor in an earlier task."""

_FEWEST_ROWS = 10
"""Of fewer rows of a task, a correlation says nothing."""
_FEWEST, _MOST, _DRAWN = 400, 2000, 40_000
"""The fewest and most resamples, and how many correlations of a task they are together."""


@dataclass(frozen=True, eq=False)
class EvaluatedConfiguration:
    """A configuration whose trials were chosen from on dev and scored on test sets."""

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
    """The groups of pairs that share a sentence, shape (pairs,), where they are known."""
    shared: NDArray[np.bool_] | None
    """Rows whose pair stands in a dev set that chose, shape (pairs,); None where unknown."""
    kept: NDArray[np.bool_]
    """Rows that the clean score keeps, shape (pairs,)."""


@dataclass(frozen=True)
class ChoiceGain:
    """The gain of the chosen configuration on some rows of test sets; fractions."""

    rows: RowsName
    tasks: tuple[str, ...]
    """The gain is the mean over these."""
    pairs: int
    """How many rows these are."""
    gain: float
    interval: Interval


@dataclass(frozen=True)
class ChoiceWorth:
    """What choosing one of several evaluated configurations on dev was worth; fractions."""

    configurations: int
    seeds: int
    """Of the chosen one."""
    dev_gain: float
    """The dev mean of the chosen one above the average over configurations."""
    gains: tuple[ChoiceGain, ...]
    """On all rows; then on shared and on kept rows of the same tasks, where ten rows are shared."""
    excess: float | None
    """The gain on shared rows minus that on kept rows; None where no task shares ten."""
    excess_interval: Interval | None


def choice_worth(
    configurations: Sequence[EvaluatedConfiguration], tasks: Sequence[TaskRows], *, seed: int = 0
) -> ChoiceWorth:
    r"""Estimate the gain of the configuration with the highest dev mean over the average one.

    .. math:: g = \frac 1 T \sum_t \Big(\bar\rho_{c^*\!,t} - \frac 1 C \sum_c \bar\rho_{c,t}\Big)

    for Spearman's correlations :math:`\rho`, averaged over the seeds of a configuration c, on the
    rows in question of T tasks. A configuration with several seeds is chosen before one with a
    single seed, as on the leaderboard.

    Where choosing on dev fits the very pairs of dev, g is higher on the rows that dev shares than
    on those that it does not. So is it where the shared rows are of a kind that configurations
    differ on more: the excess alone does not tell the two apart.

    The 95 % intervals take the choice as made. They are of a bootstrap over the groups of pairs
    that share a sentence, the same resamples for all configurations, plus Student errors over
    the seeds of each that has several. Shared and kept rows are resampled each by themselves.

    Args:
        configurations: two or more, with cosines for all tasks.
        tasks: the test sets, one or more.
        seed: of the resamples.

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
    """Compute the gain on these rows, and draws of it, shape (resamples,)."""
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
