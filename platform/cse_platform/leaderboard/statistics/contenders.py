"""Contenders of a comparison, and bootstrap draws of their scores over pairs and seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups
from cse_platform.leaderboard.statistics.intervals import seed_errors
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
    scores: Floats
    """Shape (seeds, tasks)."""
    errors: Floats | None
    """Draws of the errors of the means over seeds, shape (tasks, resamples); None for one seed."""
    over_pairs: Mapping[str, Floats]
    """The means over seeds in resamples of the pairs, by task, shape (resamples,)."""


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
    over_pairs: list[dict[str, Floats]] = [{} for _ in contenders]
    for task in tasks:
        for members in _group_by_pairs(contenders, task):
            cosines = np.concatenate([contenders[member].cosines[task] for member in members])
            first = contenders[members[0]]
            pairs = TaskPairs(task, first.gold[task], cosines, first.groups.get(task))
            draws = spearman_draws(pairs, resamples=resamples, seed=seed, progress=progress)
            ends = np.cumsum([contenders[member].seeds for member in members])[:-1]
            for member, own in zip(members, np.split(draws, ends), strict=True):
                over_pairs[member][task] = own.mean(axis=0)
    return [
        _sample_contender(contender, tasks, pairs, resamples=resamples, seed=seed)
        for contender, pairs in zip(contenders, over_pairs, strict=True)
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


def _sample_contender(
    contender: Contender,
    tasks: Sequence[str],
    over_pairs: Mapping[str, Floats],
    *,
    resamples: int,
    seed: int,
) -> Sampled:
    """Draw the errors of a contender over its seeds."""
    missing = [task for task in tasks if task not in contender.scores]
    if missing:
        raise ValueError(f"{contender.name} has no score for {', '.join(missing)}")
    scores = np.array([contender.scores[task] for task in tasks], dtype=np.float64).T
    errors = None
    if len(scores) > 1:
        # Seeded by the scores, so that a contender compared with itself differs by 0 in each draw.
        own = int.from_bytes(sha256(scores.tobytes()).digest())
        rng = np.random.default_rng([seed, own])
        errors = seed_errors(scores, resamples=resamples, rng=rng)
    return Sampled(contender, scores, errors, over_pairs)


def difference(a: Sampled, b: Sampled, task: str, place: int) -> Difference | None:
    """Subtract the draws of B's mean on a task from those of A's.

    Draws are over pairs if both have cosines of the same ones, plus over the seeds of each side
    that has several. None if there are no shared pairs and a side has only one seed, because the
    spread is then unknown. `place` is the index of the task in the call of `sample`.
    """
    paired = a.contender.shares_pairs(b.contender, task)
    if not paired and (a.errors is None or b.errors is None):
        return None
    draws = np.array(a.scores[:, place].mean() - b.scores[:, place].mean())
    if paired:
        draws = a.over_pairs[task] - b.over_pairs[task]
    if a.errors is not None:
        draws = draws + a.errors[place]
    if b.errors is not None:
        draws = draws - b.errors[place]
    # With a single seed on either side, the draws do not cover the spread of its seeds.
    known = a.errors is not None and b.errors is not None
    return Difference(draws, "seeds" if known else "pairs")
