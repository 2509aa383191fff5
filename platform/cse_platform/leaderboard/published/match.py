"""Whether one of our rows stands in a published one."""

from collections.abc import Mapping
from typing import Any

from cse_platform.leaderboard.published.row import CORPUS, SELECTED_ON, PublishedRow
from cse_platform.leaderboard.row import DevSets, Estimate, LeaderboardRow

TRANSFER_DEV = "transfer_dev"
PAPERS = frozenset({"hub", "senteval"})
"""Sources of the data that papers report on."""


def source_of(score: Estimate, dev: DevSets) -> str:
    """Of the data that a score is on; of the dev sets where a store does not know it."""
    return score.source or dev.source


def comparable(score: Estimate, dev: DevSets) -> bool:
    """Whether a score can be beside a paper's: on built-in or imported data it cannot."""
    return source_of(score, dev) in PAPERS


def matches(published: PublishedRow, ours: LeaderboardRow) -> bool:
    """Whether ours is of the method, the backbone and the settings that the row is of.

    A row that does not say on which dev set it was selected takes configurations that were selected
    on STS-B or SICK-R. One that names no corpus takes any.
    """
    stated, corpus = published.settings.get(SELECTED_ON), published.settings.get(CORPUS)
    return (
        published.configuration is not None
        and (published.method, published.backbone) == (ours.method, ours.backbone)
        and (ours.dev.search != TRANSFER_DEV if stated is None else ours.dev.search == stated)
        and (corpus is None or set(corpus.split("+")) == set(ours.corpus.split("+")))
        and all(
            _fits(name, wanted, ours.configuration.values)
            for name, wanted in published.configuration.items()
        )
    )


def _fits(name: str, wanted: Any, values: Mapping[str, Any]) -> bool:
    if name not in values:
        return False
    if isinstance(wanted, dict):
        return bool(values[name] != wanted["not"])
    return bool(values[name] == wanted)
