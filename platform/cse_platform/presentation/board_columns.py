"""A leaderboard with all its columns, each defined once: its name, its value and its text.

JSON and CSV use the values, formats for people the texts.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from textwrap import shorten
from typing import Any

from cse_platform.leaderboard.published.matching import source_of
from cse_platform.leaderboard.records import OWN_FILE, Estimate, LeaderboardRow, SeenSentences
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.numbers import (
    HASH_DIGITS,
    clock,
    first_percents,
    percent,
    short_settings,
    signed_percent,
)
from cse_platform.presentation.tables import Cell, Column
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.tracking.history import (
    COSTS,
    EPOCH_MINUTES,
    GPU_MEMORY,
    HOST_MEMORY,
    MEMORY,
    SPEED,
    TRAIN_MINUTES,
)

ALPHA = 0.05
OVER_EXAMPLES = "‡"
OVER_EXAMPLES_MEANS = "Over the pairs, texts or queries of a single seed; other seeds may differ."
COST_HEADS = {
    TRAIN_MINUTES: "train minutes",
    EPOCH_MINUTES: "epoch minutes",
    SPEED: "sentences per second",
    GPU_MEMORY: "GPU memory",
    HOST_MEMORY: "host memory",
}

EXTRAPOLATED = "~"
EXTRAPOLATED_MEANS = "Extrapolated: a trial trained for less than one epoch."


def score_cell(estimate: Estimate) -> Cell:
    """Format the mean and standard deviation over seeds."""
    return Cell(percent(estimate.mean), spread=percent(estimate.std))


def cost_cell(name: str, cost: float, *, extrapolated: bool = False) -> Cell:
    """Format one of `COSTS`, with as many decimals as are meaningful."""
    if name in MEMORY:
        text = f"{cost:.2f} GiB"
    else:
        text = f"{cost:.{0 if name == SPEED else 1 if cost >= 10 else 2}f}"
    return Cell(text, mark=EXTRAPOLATED if extrapolated else "")


def interval_cell(interval: Interval) -> Cell:
    """Format an interval as `[78.12, 79.30]`, marked if it is over examples instead of seeds."""
    mark = OVER_EXAMPLES if interval.over == "examples" else ""
    return Cell(f"[{percent(interval.low)}, {percent(interval.high)}]", mark=mark)


def join_marks(*marks: str) -> str:
    """Join the marks that are not empty, for one cell."""
    return " ".join(filter(None, marks))


STARRED = "★"


def shown_dev_set(row: LeaderboardRow) -> str:
    """Name the dev set that the search climbed, and its source.

    For a lab's own files and imported rows, the identity is added to distinguish them.
    """
    is_ambiguous = row.dev.source in {OWN_FILE, *UNCHECKED_DATA}
    return (
        f"{row.dev.search} ({row.dev.source}{f' {row.dev.identity[:HASH_DIGITS]}' * is_ambiguous})"
    )


def short_digits(digits: str) -> str:
    """Return the first digits of a hash or key, which commands accept."""
    return digits[:HASH_DIGITS]


_make_number = partial(Column[Any], align="right")
_dump_json = partial(json.dumps, sort_keys=True)


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


def _format_searched(row: LeaderboardRow) -> str:
    """Format the active searched hyperparameters."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def format_seen(seen: Iterable[SeenSentences]) -> str | None:
    """Format how many test sentences occur in each kind of data, summed over the test sets.

    A sentence of two sets counts twice. None if they have not been counted.
    """
    sums: dict[str, tuple[int, int]] = {}
    for entry in seen:
        if entry.split == "test":
            count, total = sums.get(entry.seen_in, (0, 0))
            sums[entry.seen_in] = count + entry.seen, total + entry.sentences
    return "; ".join(f"{data} {seen:,} of {n:,}" for data, (seen, n) in sums.items()) or None


def _format_rank(row: LeaderboardRow) -> Cell | None:
    """Format the rank among several rows; None without a rank or if no other row is ranked."""
    rank, ranked = row.rank, row.ranked_score
    if rank is None or rank.among == 1:
        return None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_EXAMPLES if single else "")


def _make_cost_column(name: str) -> Column[Any]:
    """Make a column of one of `COSTS`; extrapolated values are marked."""

    def format_cost(row: LeaderboardRow) -> Cell | None:
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        cost = row.cost(name)
        return None if cost is None else cost_cell(name, cost, extrapolated=part)

    return _make_number(
        name, lambda row: row.cost(name), shown=format_cost, title=COST_HEADS[name], sort=name
    )


_CONFIGURATION: tuple[Column[Any], ...] = (
    Column("published", lambda _: False),
    Column("method", sort="method"),
    Column("backbone", shown=lambda row: row.shown_backbone, sort="backbone"),
    Column("sweep", sort="sweep"),
    Column(
        "configuration",
        parts=(
            Column("configuration", "configuration.hash", short_digits, sort="configuration"),
            Column("values", "configuration.values", csv=_dump_json),
            Column("searched", "configuration.searched", shown=_format_searched, csv=_dump_json),
            Column(  # the code of imported trials is never known
                "code",
                "configuration.code",
                shown=lambda row: (
                    None
                    if row.configuration.code or row.dev.source in UNCHECKED_DATA
                    else "unknown"
                ),
            ),
        ),
    ),
    Column("corpus", shown=lambda row: row.shown_corpus, sort="corpus"),
    Column("seeds"),
    _make_number("n", sort="n"),
    Column(
        "keys", shown=lambda row: short_digits(row.best_trial or ""), title="trial", csv=_dump_json
    ),
)

_DEV_COLUMNS: tuple[Column[Any], ...] = (
    Column(
        "dev",
        parts=(
            Column("dev_checkpoint", "dev.checkpoint"),
            Column(
                "dev_search",
                "dev.search",
                shown=lambda row: (
                    shown_dev_set(row)
                    + f", checkpoint by {row.dev.checkpoint}"
                    * (row.dev.checkpoint != row.dev.search)
                ),
                title="dev set",
                sort="dev_set",
            ),
            Column("dev_identity", "dev.identity"),
            Column("dev_source", "dev.source"),
        ),
    ),
    Column("dev_mean", "dev_score.mean"),
    Column("dev_std", "dev_score.std"),
    Column(
        "dev_interval",
        lambda row: _list_bounds(row.dev_score.interval),
        parts=(
            Column("dev_low", "dev_score.interval.low"),
            Column("dev_high", "dev_score.interval.high"),
        ),
    ),
    Column("dev_best", "dev_score.best"),
    Column(
        "chosen_by",
        shown=lambda row: first_percents(row.chosen_by.values()) or None,
        csv=_dump_json,
    ),
    Column("counts_choice"),
    Column("best_of"),
    _make_number("dev_untrained", format=percent, title="untrained", sort="untrained"),
    _make_number("trials", sort="trials"),
)

_RANKING: tuple[Column[Any], ...] = (
    Column(
        "headline",
        parts=(
            Column("headline"),
            Column(
                "evaluation",
                "headline_score.identity",
                shown=lambda row: row.ranked_score and short_digits(row.ranked_score.identity),
            ),
            Column(
                "source",
                lambda row: row.headline_score and source_of(row.headline_score, row.dev),
            ),
            Column("best_of_n", "headline_score.best"),
        ),
    ),
    _make_number(
        "rank",
        shown=_format_rank,
        sort="rank",
        parts=tuple(Column(f"rank_{name}", f"rank.{name}") for name in ("best", "worst", "among")),
    ),
    Column(
        "gap",
        parts=(
            _make_number(
                "gap",
                "gap.difference",
                shown=lambda row: (
                    row.gap
                    and signed_percent(row.gap.difference)
                    + {True: " inside", False: " outside", None: ""}[row.gap.inside]
                ),
                title="paper",
                sort="gap",
            ),
            Column("gap_published", "gap.published"),
            Column("gap_source", "gap.source"),
            Column("gap_inside", "gap.inside"),
        ),
    ),
)

_RUN: tuple[Column[Any], ...] = (
    Column("other_code"),
    Column("marks"),
    Column(
        "seen",
        lambda row: [asdict(entry) for entry in row.seen],
        shown=lambda row: format_seen(row.seen),
        title="saw",
        csv=_dump_json,
    ),
    Column("test_opened"),
    _make_number(
        "gpu_hours", format=lambda hours: f"{hours:.1f}", title="GPU-hours", sort="gpu_hours"
    ),
    _make_number("wall_seconds", format=clock, title="wall time a trial", sort="wall_seconds"),
    *map(_make_cost_column, COSTS),
    Column("epochs"),
    Column("finished", format=lambda day: f"{day:%Y-%m-%d}", sort="finished"),
    Column("machines", format=", ".join, sort="machines"),
    Column("tags", format=", ".join, sort="tags"),
    Column("starred"),
    Column("notes", format=lambda notes: shorten(" / ".join(notes), 60, placeholder="…")),
    Column("released", "released.system"),
    Column("trained_from", "released.trained_from"),
)

OUR_FIELDS = (*_CONFIGURATION, *_DEV_COLUMNS, *_RANKING, *_RUN)
"""Fields of our rows in CSV, where scores follow."""

_PUBLISHED: tuple[Column[Any], ...] = (
    Column("published", lambda _: True),
    Column("method"),
    Column("backbone"),
    Column("system"),
    Column("sources", format=", ".join, title="source"),
    Column("settings", parts=(Column("settings", "label", title="published settings"),)),
    Column("split"),
    Column("year"),
    Column("venue"),
    Column("paper_id", title="id"),
    Column("trained_on", title="trained on"),
    Column("checkpoints"),
    Column("apart", format=", ".join),
    Column("reported_by", title="reported by"),
    Column("read_in", title="read in"),
)

ESTIMATE_PARTS: dict[str, Callable[[Estimate], Any]] = {
    "std": lambda estimate: estimate.std,
    "interval": lambda estimate: _list_bounds(estimate.interval),
    "best": lambda estimate: estimate.best,
    "seeds": lambda estimate: estimate.n,
    "source": lambda estimate: estimate.source,
    "values": lambda estimate: estimate.values,
}


def _make_scores_column(name: str, part: Callable[[Estimate], Any]) -> Column[Any]:
    return Column(name, lambda row: {column: part(score) for column, score in row.scores.items()})


OUR_RECORD = (
    *(*_CONFIGURATION, *_DEV_COLUMNS, *_RANKING),
    _make_scores_column("test", lambda estimate: estimate.mean),
    *(_make_scores_column(f"test_{name}", part) for name, part in ESTIMATE_PARTS.items()),
    _make_scores_column("evaluation", lambda estimate: estimate.identity),
    *_RUN,
)
"""Fields of our rows in JSON; test scores are in objects keyed by column."""

PUBLISHED_FIELDS = (*_PUBLISHED, Column("n", "seeds"), Column("unstated"))
"""Fields of published rows in CSV, where scores follow."""
PUBLISHED_RECORD = (*_PUBLISHED, Column("scores"), Column("scores_std", "std"), Column("unstated"))
"""Fields of published rows in JSON."""


def _by_name(columns: Iterable[Column[Any]]) -> dict[str, Column[Any]]:
    return {part.name: part for column in columns for part in (column, *column.parts)}


OUR_COLUMNS = _by_name((*OUR_FIELDS, Column("split", lambda _: "test")))
PUBLISHED_COLUMNS = _by_name(PUBLISHED_FIELDS)
