"""Contenders of a comparison, and bootstrap draws of their scores over pairs and seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups
from cse_platform.leaderboard.statistics.intervals import (
    draw_t_factors,
    normal_seed_errors,
    welch_freedom,
)
from cse_platform.leaderboard.statistics.resampling import Floats, TaskPairs, spearman_draws
from cse_platform.leaderboard.statistics.results import Spread


@dataclass(frozen=True, eq=False)
class Contender:
    """One side of a comparison: a configuration over its seeds."""

    name: str
    scores: Mapping[str, Sequence[float]]
    """The scores by task, one per seed; seeds have the same order in all tasks."""
    cosines: Mapping[str, NDArray[np.floating[Any]]] = field(default_factory=dict)
    """The cosines by task, shape (seeds, pairs); tasks for which a seed has none are absent."""
    gold: Mapping[str, Floats] = field(default_factory=dict)
    """The gold scores by task, shape (pairs,)."""
    groups: Mapping[str, Groups] = field(default_factory=dict)
    """The groups of pairs that share a sentence by task, shape (pairs,), where they are known;
    equal for all contenders on the same pairs.
    """

    def __post_init__(self) -> None:
        """Check that all tasks have scores and cosines of the same seeds.

        Raises:
            ValueError: if there is no seed, or the number of seeds differs between tasks.
        """
        seeds = {task: len(scores) for task, scores in self.scores.items()}
        if len(set(seeds.values())) != 1 or 0 in seeds.values():
            raise ValueError(f"{self.name}: expected the same seeds for all tasks, got {seeds}")
        for task, cosines in self.cosines.items():
            if len(cosines) != self.seeds or task not in self.gold:
                raise ValueError(
                    f"{self.name}, {task}: expected gold, and cosines of {self.seeds} seeds, "
                    f"got {len(cosines)}"
                )

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(next(iter(self.scores.values())))

    def shares_pairs(self, other: "Contender", task: str) -> bool:
        """Whether both have cosines of the same pairs, judged by their gold scores."""
        return (
            task in self.cosines
            and task in other.cosines
            and np.array_equal(self.gold[task], other.gold[task])
        )


@dataclass(frozen=True, eq=False)
class Sampled:
    """A contender with bootstrap draws of its scores."""

    contender: Contender
    scores: Mapping[str, Floats]
    """The scores by task, shape (seeds,)."""
    errors: Mapping[str, Floats]
    """Normal draws of the errors of the means over seeds, by task, shape (resamples,); 0 for one
    seed.
    """
    over_pairs: Mapping[str, Floats]
    """The means over seeds in resamples of the pairs, by task, shape (resamples,)."""
    variances: Mapping[str, float]
    """The variance between seeds that resampling the pairs explains, by task; tasks with pairs and
    contenders with several seeds only.
    """

    def average(self, tasks: Sequence[str]) -> Floats:
        """Average each seed's scores over some tasks, shape (seeds,)."""
        scores: Floats = np.mean([self.scores[task] for task in tasks], axis=0)
        return scores


@dataclass(frozen=True, eq=False)
class Difference:
    """Draws of the score of A minus that of B."""

    draws: Floats
    over: Spread


def sample(
    contenders: Sequence[Contender],
    tasks: Sequence[str],
    *,
    resamples: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> list[Sampled]:
    """Draw scores for each contender; contenders on the same pairs share the resamples of these.

    Raises:
        ValueError: if one has no score for a task.
    """
    for contender in contenders:
        if missing := [task for task in tasks if task not in contender.scores]:
            raise ValueError(f"{contender.name} has no score for {', '.join(missing)}")
    over_pairs: list[dict[str, Floats]] = [{} for _ in contenders]
    variances: list[dict[str, float]] = [{} for _ in contenders]
    for task in tasks:
        for members in _group_by_pairs(contenders, task):
            cosines = np.concatenate([contenders[member].cosines[task] for member in members])
            first = contenders[members[0]]
            pairs = TaskPairs(task, first.gold[task], cosines, first.groups.get(task))
            draws = spearman_draws(pairs, resamples=resamples, seed=seed, progress=progress)
            ends = np.cumsum([contenders[member].seeds for member in members])[:-1]
            for member, own in zip(members, np.split(draws, ends), strict=True):
                over_pairs[member][task] = own.mean(axis=0)
                if len(own) > 1:
                    deviations = own - own.mean(axis=1, keepdims=True)
                    variances[member][task] = float(deviations.var(axis=0, ddof=1).mean())
    return [
        Sampled(
            contender,
            {task: np.asarray(contender.scores[task], np.float64) for task in tasks},
            _draw_errors(contender, tasks, resamples=resamples, seed=seed),
            pairs,
            varied,
        )
        for contender, pairs, varied in zip(contenders, over_pairs, variances, strict=True)
    ]


def _group_by_pairs(contenders: Sequence[Contender], task: str) -> list[list[int]]:
    """Group the contenders that have cosines for a task by equal gold scores."""
    groups: list[list[int]] = []
    for index, contender in enumerate(contenders):
        if task in contender.cosines:
            known = (g for g in groups if contenders[g[0]].shares_pairs(contender, task))
            group = next(known, None)
            if group is None:
                groups.append([index])
            else:
                group.append(index)
    return groups


def _draw_errors(
    contender: Contender, tasks: Sequence[str], *, resamples: int, seed: int
) -> dict[str, Floats]:
    """Draw normal errors of a contender's means over its seeds, by task; 0 for a single seed."""
    if contender.seeds == 1:
        return {task: np.zeros(resamples) for task in tasks}
    scores = np.array([contender.scores[task] for task in tasks], dtype=np.float64).T
    # Seeded by the scores, so that a contender compared with itself differs by 0 in each draw.
    own = int.from_bytes(sha256(scores.tobytes()).digest())
    errors = normal_seed_errors(scores, resamples=resamples, rng=np.random.default_rng([seed, own]))
    return dict(zip(tasks, errors, strict=True))


def difference(
    a: Sampled, b: Sampled, tasks: Sequence[str], *, resamples: int, seed: int
) -> Difference | None:
    r"""Draw the difference of A's mean over some tasks and B's, with errors over pairs and seeds.

    The draws are Student's around the difference, with a variance of

    .. math:: V = V_P + \max\Bigl(0, S - \sum_i p_i / n_i\Bigr), \quad S = \sum_i s_i^2 / n_i

    where :math:`V_P` is the variance of the difference in resamples of the pairs that both sides
    have in common, :math:`s_i^2` that of the scores of the :math:`n_i` seeds of a side, and
    :math:`p_i` the part of it that resampling the pairs explains and :math:`V_P` contains.
    The degrees of freedom are Welch's for :math:`S`, at most twice those of the side with fewer
    seeds, times :math:`(V / S)^2`, as :math:`V_P` counts as known. Without that limit, the
    intervals of 2 seeds against 10 would cover the truth in 90 %.

    None if a side has only one seed and there is a task without shared pairs, because the spread is
    then unknown.
    """
    several = [side for side in (a, b) if side.contender.seeds > 1]
    paired = [task for task in tasks if a.contender.shares_pairs(b.contender, task)]
    if len(several) < 2 and len(paired) < len(tasks):
        return None
    by_task = [
        a.over_pairs[task] - b.over_pairs[task]
        if task in paired
        else np.full(resamples, a.average([task]).mean() - b.average([task]).mean())
        for task in tasks
    ]
    draws: Floats = np.mean(by_task, axis=0)
    observed = [float(side.average(tasks).var(ddof=1)) / side.contender.seeds for side in several]
    explained = sum(
        side.variances[task] / len(tasks) ** 2 / side.contender.seeds
        for side in several
        for task in paired
    )
    if (spread := sum(observed)) > explained:
        share = spread / (float(draws.var()) + spread - explained)
        freedoms = [side.contender.seeds - 1 for side in several]
        freedom = min(welch_freedom(observed, freedoms), 2 * min(freedoms))
        freedom /= min(1.0, max(1e-4, share)) ** 2
        factors = draw_t_factors(freedom, resamples=resamples, rng=np.random.default_rng(seed))
        errors = np.mean([a.errors[task] - b.errors[task] for task in tasks], axis=0)
        centre = draws.mean()
        draws = centre + (draws - centre + sqrt(1 - explained / spread) * errors) * factors
    # With a single seed on either side, the draws do not cover the spread of its seeds.
    return Difference(draws, "seeds" if len(several) == 2 else "pairs")
