"""Which published number is like a row of ours, and how far the row is from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from cse_methods.published.released import ReleasedEncoder
from cse_platform.leaderboard.published.row import (
    ABOUT_THE_RUN,
    SELECTED_ON,
    PublishedRow,
)
from cse_platform.leaderboard.row import ConfigurationSetup, DevSets, Estimate, Gap, LeaderboardRow


def gap(ours: LeaderboardRow, published: Sequence[PublishedRow]) -> Gap | None:
    """The difference to the published number that is most like ours, on our headline column.

    Among several, the method's own paper comes first, and one that ran another's method anew last;
    then the row that says most about the configuration, then the number with most sources, then the
    order of `published`.

    Args:
        ours: its headline is a test column; nothing is compared on dev, or on built-in or imported
            data.
        published: rows of any method, backbone and split; best before `merged`, which drops what
            some of the sources say of the configuration.

    Returns:
        None where our row has no such score, or no published one is like it.
    """
    column = ours.headline
    score = None if column is None else ours.scores.get(column)
    if column is None or score is None or not comparable(score, ours.dev):
        return None
    rows = [
        row
        for row in published
        if row.split == "test"
        and column in row.scores.keys() - row.unstated
        and matches(row, ours.setup)
    ]
    return _gap(column, score, rows) if rows else None


def _gap(column: str, score: Estimate, rows: Sequence[PublishedRow]) -> Gap:
    def repeated(value: float) -> int:
        return len(
            {source for row in rows if row.scores[column] == value for source in row.sources}
        )

    def credit(row: PublishedRow) -> tuple[bool, bool]:
        return row.own, not row.rerun

    def likeness(row: PublishedRow) -> tuple[bool, bool, int, int]:
        return *credit(row), len(row.configuration or ()), repeated(row.scores[column])

    closest = max(rows, key=likeness)
    value = closest.scores[column]
    # The first table of such papers to print the number: an ablation may only repeat it.
    first = next(r for r in rows if credit(r) == credit(closest) and r.scores[column] == value)
    interval = score.interval
    return Gap(
        column=column,
        published=value,
        source=f"{first.paper} {first.table}",
        difference=score.mean - value,
        inside=None if interval is None else interval.low <= value <= interval.high,
    )


PAPERS_DEV = frozenset({"stsb", "sickr"})
"""What papers select on that do not say it."""
PAPERS = frozenset({"hub", "senteval"})
"""Sources of the data that papers report on."""


def source_of(score: Estimate, dev: DevSets) -> str:
    """Of the data that a score is on; of the dev sets where a store does not know it."""
    return score.source or dev.source


def comparable(score: Estimate, dev: DevSets) -> bool:
    """Whether a score can be beside a paper's: on built-in or imported data it cannot."""
    return source_of(score, dev) in PAPERS


def matches(published: PublishedRow, ours: ConfigurationSetup) -> bool:
    """Whether ours is of the method, the backbone and the settings that the row is of.

    A row that does not say on which dev set it was selected takes configurations that were selected
    on STS-B or SICK-R. One that names no corpus takes any, but for costs.
    """
    if ours.released is not None:
        return _is_of_released(published, ours.released)
    stated, corpus = published.settings.get(SELECTED_ON), published.corpus
    return (
        published.configuration is not None
        and (published.method, published.backbone) == (ours.method, ours.backbone)
        and ours.dev_search in (PAPERS_DEV if stated is None else {stated})
        and (corpus is None or set(corpus.split("+")) == set(ours.corpus.split("+")))
        and all(
            _fits(name, wanted, ours.values) for name, wanted in published.configuration.items()
        )
    )


def _is_of_released(published: PublishedRow, released: ReleasedEncoder) -> bool:
    """Whether a row is what the encoder's authors report: the paper did not train it anew.

    Settings tell of a variant, unless the row says what they are of our hyperparameters.
    """
    is_variant = published.configuration is None and not published.settings.keys() <= ABOUT_THE_RUN
    return (
        (published.method, published.backbone) == (released.system, released.trained_from)
        and published.split == "test"
        and published.settings.get(SELECTED_ON) == released.selected_on
        and not (published.rerun or is_variant)
    )


def _fits(name: str, wanted: Any, values: Mapping[str, Any]) -> bool:
    if name not in values:
        return False
    if isinstance(wanted, dict):
        return bool(values[name] != wanted["not"])
    return bool(values[name] == wanted)
