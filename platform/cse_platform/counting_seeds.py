"""Decides which seeds estimate a configuration: those whose values did not choose it.

The best value of a search is the best of many, so it is too high for the configuration that it
chooses. Further seeds of that configuration are not. docs/statistics.md says how much this matters.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

LEAST_FURTHER = 2
"""The fewest seeds that estimate a configuration without the values that chose it."""
ESTIMATED = 3
"""The standing of a configuration that such seeds estimate."""


RIVALS = ("COMPLETE", "PRUNED")
"""The states of trials whose values a search has compared."""


class Searched(Protocol):
    """A trial of a sweep, as the leaderboard or its driver has it."""

    @property
    def key(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def configuration(self) -> str: ...
    @property
    def state(self) -> str | None: ...


def find_choosing_trials(trials: Iterable[Searched], *, confirms_all: bool) -> set[str]:
    """Find the trials of a sweep, by key, whose values choose among its configurations.

    These are all trials of its search, repeats included, if several configurations have a value to
    be compared; a trial that failed or runs has none. A search of a single configuration chooses
    nothing, and neither does one of which every configuration gets the further seeds
    (`confirms_all`).
    """
    searched = [trial for trial in trials if trial.role != "confirm"]
    compared = {trial.configuration for trial in searched if trial.state in RIVALS}
    return set() if confirms_all or len(compared) < 2 else {trial.key for trial in searched}


def select_counting_seeds(complete: Collection[int], chose: Collection[int]) -> list[int]:
    """Select the seeds that estimate a configuration, in ascending order.

    Args:
        complete: its complete seeds.
        chose: those of them, and possibly others, whose values chose it.

    Returns:
        The seeds that did not choose it where there are at least two, otherwise all of them.
    """
    further = sorted(set(complete).difference(chose))
    return further if len(further) >= LEAST_FURTHER else sorted(complete)


def rate_seeds(complete: int, further: int, repeats: int) -> int:
    """Rate how well its seeds estimate a configuration; a higher standing takes precedence.

    Args:
        complete: the number of its complete seeds.
        further: the number of those that did not choose it.
        repeats: the number of those with which a search repeated it. A search also repeats
            configurations that are not good, so they raise no standing.

    Returns:
        3 if at least two seeds that did not choose it estimate it, 2 for several seeds of which a
        choosing one counts, without the repeats, 1 for a single one, and 0 without a seed.
    """
    if further >= LEAST_FURTHER:
        return ESTIMATED
    return 2 if complete - repeats > 1 else min(complete, 1)
