"""Which of our rows match a row of a paper, and the gap between their numbers."""

from collections.abc import Sequence
from typing import Any

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.published.released import ReleasedEncoder
from cse_platform.leaderboard.published.rows import (
    ABOUT_THE_RUN,
    BACKBONE,
    SELECTED_ON,
    PublishedRow,
)
from cse_platform.leaderboard.records import (
    ConfigurationSetup,
    DevSets,
    Estimate,
    Gap,
    LeaderboardRow,
)


def find_gap(
    ours: LeaderboardRow,
    published: Sequence[PublishedRow],
    column: str | None,
    score: Estimate | None,
) -> Gap | None:
    """Compare our headline score with the closest published number.

    Of several rows, those of the method's own paper come first and reruns by other papers last;
    then the one that specifies most of the configuration, then the number that most sources print,
    then the first in `published`.

    Args:
        ours: our row.
        published: rows of any method, backbone and split; preferably before
            `merge_repeated_rows`, which drops what some sources state of the configuration.
        column: the headline: a test column; for None, which is dev, nothing is compared.
        score: our score in it; scores on built-in or imported data are not compared.

    Returns:
        None if our row has no such score, or no published row matches it.
    """
    if column is None or score is None or not is_comparable(score, ours.dev):
        return None
    rows = [
        row
        for row in published
        if row.split == "test"
        and column in row.scores.keys() - row.unstated
        and has_settings_of(row, ours.setup)
    ]
    return _find_closest_gap(column, score, rows) if rows else None


def _find_closest_gap(column: str, score: Estimate, rows: Sequence[PublishedRow]) -> Gap:
    """Return the difference to the row that is closest to ours, in the order of `find_gap`."""

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
    # Name the first table that prints the number: an ablation may only repeat it.
    first = next(r for r in rows if credit(r) == credit(closest) and r.scores[column] == value)
    interval = score.interval
    return Gap(
        column=column,
        published=value,
        source=f"{first.paper} {first.table}",
        difference=score.mean - value,
        inside=None if interval is None else interval.low <= value <= interval.high,
    )


PAPERS_DEV = frozenset({"stsb", "sickr", "stsb+sickr"})
"""Dev sets that are accepted for papers that do not state which one they select on."""
PAPERS = frozenset({"hub", "senteval"})
"""Sources of the data that papers report on."""


def source_of(score: Estimate, dev: DevSets) -> str:
    """Return the source of a score's data; if the store has none, that of the dev sets."""
    return score.source or dev.source


def is_comparable(score: Estimate, dev: DevSets) -> bool:
    """Whether a score can be compared with a paper's: it is not on built-in or imported data."""
    return source_of(score, dev) in PAPERS


def has_settings_of(published: PublishedRow, ours: ConfigurationSetup) -> bool:
    """Whether our configuration has the method, the backbone and the settings of the row.

    A row that does not state its dev set matches configurations selected on STS-B or SICK-R; one
    that names no corpus matches any corpus, except for costs. Configurations trained on the texts
    of test sets never match.
    """
    if ours.released is not None:
        return _is_of_released(published, ours.released)
    stated, corpus = published.settings.get(SELECTED_ON), published.corpus
    values = {**ours.values, BACKBONE: ours.backbone}

    def has(name: str, wanted: Any) -> bool:
        if name not in values or not isinstance(wanted, dict):
            return name in values and bool(values[name] == wanted)
        return bool(values[name] != wanted["not"])

    return (
        published.configuration is not None
        and published.method == ours.method
        and ours.dev_search in (PAPERS_DEV if stated is None else {stated})
        and TRANSDUCTIVE not in ours.corpus
        and (corpus is None or set(corpus.split("+")) == set(ours.corpus.split("+")))
        and all(
            has(*wanted)
            for wanted in {BACKBONE: published.backbone, **published.configuration}.items()
        )
    )


def _is_of_released(published: PublishedRow, released: ReleasedEncoder) -> bool:
    """Whether a row is what the encoder's authors report, not a rerun by the paper.

    A row with settings is of a variant, unless it states our hyperparameters for them.
    """
    is_variant = published.configuration is None and not published.settings.keys() <= ABOUT_THE_RUN
    return (
        (published.method, published.backbone) == (released.system, released.trained_from)
        and published.split == "test"
        and published.settings.get(SELECTED_ON) == released.selected_on
        and not (published.rerun or is_variant)
    )


def matches_any_row(rows: Sequence[PublishedRow], ours: ConfigurationSetup) -> bool:
    """Whether a configuration of ours can have a score for any of these rows of a paper."""
    return any(
        (ours.is_scored or row.split != "test") and has_settings_of(row, ours) for row in rows
    )
