"""A leaderboard with all its columns, each defined once: its name, its value and its text.

JSON and CSV use the values, formats for people the texts.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from textwrap import shorten
from typing import Any

from cse_methods.data.dev_selection import ByWidth
from cse_platform.leaderboard.published.rows import PublishedRow, source_of
from cse_platform.leaderboard.records import (
    DEV,
    FAMILIES,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    BoardFamily,
    Estimate,
    FamilyName,
    LeaderboardRow,
    SeenSentences,
    families_beside,
    family_named,
)
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.numbers import (
    HASH_DIGITS,
    clock,
    first_percents,
    percent,
    short_settings,
    signed_percent,
)
from cse_platform.presentation.tables import Cell, Column, flatten, read_path
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
CHOSEN = "△"
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


OWN_FILE = "file"
"""The source of a lab's own dev sets."""
OPENED, PUBLISHED, ABOVE, OTHER_CODE, STARRED = "*", "†", "§", "¶", "★"
TRAINING_MARKS = {TEACHER_SAW_PAIRS: "◊", SAW_TESTS: "°"}
"""Marks of how a row was trained, by their names. `released` and `transductive` have none, because
the row's name shows them.
"""


@dataclass(frozen=True)
class Board:
    """A leaderboard, in the order of its rows."""

    rows: Sequence[LeaderboardRow]
    published: Sequence[PublishedRow] = ()
    """Published rows; only those on test sets are shown."""
    family: FamilyName = "sts"
    """The tasks whose scores are shown."""
    sorted_by: str | None = None
    """The column that `rows` are asked to be sorted by; None for that which ranks them. If the
    headline is asked for, published rows are sorted in among them, else they come below.
    """
    against: Mapping[int, Comparison] = field(default_factory=dict)
    """Comparisons with one reference row, by index in `rows`, to mark significant differences."""
    by_width: Sequence[ByWidth] = ()
    """The dev scores of each of `rows` at several widths, if they are shown."""

    @property
    def columns(self) -> BoardFamily:
        """The columns of the shown tasks."""
        return family_named(self.family, self.rows)

    @property
    def headline(self) -> str:
        """The column that rows are ranked by, published rows included."""
        ours = [row.headline for row in self.rows if row.headline]
        return next(iter((*ours, *self.columns.averages, *self.columns.columns)), DEV)


def shown_dev_set(row: LeaderboardRow) -> str:
    """Name the dev set that the search climbed, and its source.

    For a lab's own files and imported rows, the identity is added to distinguish them.
    """
    is_ambiguous = row.dev.source in {OWN_FILE, *UNCHECKED_DATA}
    return (
        f"{row.dev.search} ({row.dev.source}{f' {row.dev.identity[:HASH_DIGITS]}' * is_ambiguous})"
    )


def published_cell(column: str, value: float, std: float | None) -> Cell:
    """Format a number of a paper: a fraction as a percentage, a cost in its own unit."""
    if column in COSTS:
        return Cell(f"{value:g}")
    return Cell(percent(value), spread=percent(std))


def short_digits(digits: str) -> str:
    """Return the first digits of a hash or key, which commands accept."""
    return digits[:HASH_DIGITS]


AnyRow = LeaderboardRow | PublishedRow
_make_number = partial(Column[Any], align="right")
_dump_json = partial(json.dumps, sort_keys=True)


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


def _find_headline(row: LeaderboardRow) -> Estimate | None:
    """Return the score that the row is ranked by if it is a test score, else None."""
    return row.ranked_score if row.headline else None


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
    Column("corpus", sort="corpus"),
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
                lambda row: read_path(_find_headline(row), "identity"),
                shown=lambda row: row.ranked_score and short_digits(row.ranked_score.identity),
            ),
            Column(
                "source",
                lambda row: source_of(score, row.dev) if (score := _find_headline(row)) else None,
            ),
            Column("best_of_n", lambda row: read_path(_find_headline(row), "best")),
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

_OURS = (*_CONFIGURATION, *_DEV_COLUMNS, *_RANKING, *_RUN)

_PAPER: tuple[Column[Any], ...] = (
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

PAPER_RECORD = (*_PAPER, Column("scores"), Column("scores_std", "std"), Column("unstated"))
"""Fields of published rows in JSON."""


def _by_name(columns: Iterable[Column[Any]]) -> dict[str, Column[Any]]:
    return {part.name: part for column in columns for part in (column, *column.parts)}


_OF_OURS = _by_name((*_OURS, Column("split", lambda _: "test")))
_OF_PAPERS = _by_name((*_PAPER, Column("n", "seeds"), Column("unstated")))


def board_column(name: str) -> Column[AnyRow]:
    """Make a column of our rows and published ones; those that lack it have no value."""
    ours, theirs = _OF_OURS.get(name), _OF_PAPERS.get(name)

    def choose(row: AnyRow) -> Column[Any]:
        return (theirs if isinstance(row, PublishedRow) else ours) or Column("", lambda _: None)

    return replace(
        ours or _OF_PAPERS[name],
        value=lambda row: choose(row).read(row),
        shown=lambda row: choose(row).read_shown(row),
    )


def data_columns(board: Board) -> list[Column[Any]]:
    """List the columns of a board for CSV, which has one value per cell.

    Score columns are those of the board's family and of every family that one of our rows has
    scores of. `evaluation`, `source` and `best_of_n` are those of the headline; JSON has them for
    every score.
    """
    ours = {column for row in board.rows for column in row.scores}
    known = ours.union(*(row.scores for row in board.published))
    scores = [
        column
        for family in (family_named(name, board.rows) for name in FAMILIES)
        if family.name in families_beside(board.family) or not ours.isdisjoint(family.columns)
        for name in family.columns
        if name in known
        for column in _make_score_columns(name)
    ]
    papers = (*_PAPER, Column("unstated")) if board.published else ()
    names = dict.fromkeys(column.name for column in flatten((*_OURS, *papers)))
    return [*map(board_column, names), *scores]


def _make_score_columns(name: str) -> Iterator[Column[AnyRow]]:
    """Make the columns of a score: mean, n, std and the interval, over examples if n is 1."""

    def read(row: AnyRow, part: str) -> Any:
        if isinstance(row, PublishedRow):
            return {"mean": row.scores, "std": row.std}.get(part, {}).get(name)
        return read_path(row.scores.get(name), part)

    parts = {"": "mean", "_n": "n", "_std": "std", "_low": "interval.low", "_high": "interval.high"}
    for ending, part in parts.items():
        yield Column(name + ending, partial(read, part=part))
