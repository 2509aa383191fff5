"""A leaderboard with all its columns, each defined once: its name, its value and its text.

JSON, CSV and pandas use the values, formats for people the texts.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from textwrap import shorten
from typing import Any

from cse_platform.leaderboard.published.rows import PublishedRow, source_of
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    DEV,
    OWN,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    BoardFamily,
    Estimate,
    FamilyName,
    LeaderboardRow,
    SeenSentences,
    family_named,
)
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.numbers import HASH_DIGITS, clock, percent, short_settings, signed_percent
from cse_platform.presentation.tables import Align, Cell, Column, flatten, read_path
from cse_platform.tracking.events import IMPORTED
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
OVER_PAIRS = "‡"
OVER_PAIRS_MEANS = "Over the pairs of a single seed; other seeds may differ."
CHOSEN = "△"
CHOSEN_MEANS = (
    "A value by which its search chose counts here: the best of such rows are too high, and their "
    "intervals cover less than 95 %. Two further seeds of it give an honest estimate."
)

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
    """Format an interval as `[78.12, 79.30]`, marked if it is over pairs instead of seeds."""
    mark = OVER_PAIRS if interval.over == "pairs" else ""
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
    is_ambiguous = row.dev.source in (OWN_FILE, IMPORTED)
    return (
        f"{row.dev.search} ({row.dev.source}{f' {row.dev.identity[:HASH_DIGITS]}' * is_ambiguous})"
    )


def published_cell(column: str, value: float, std: float | None) -> Cell:
    """Format a number of a paper: a fraction as a percentage, a cost in its own unit."""
    if column in COSTS:
        return Cell(f"{value:g}")
    return Cell(percent(value), spread=percent(std))


def short_hash(row: LeaderboardRow) -> str:
    """Return the first digits of the configuration's hash."""
    return row.configuration.hash[:HASH_DIGITS]


AnyRow = LeaderboardRow | PublishedRow
_NUMBER, _COUNT, _TRUTH, _TIME = "float64", "Int64", "boolean", "datetime64[us, UTC]"
_Read = Callable[[LeaderboardRow], Any]


def _make_column(
    name: str,
    value: str | _Read = "",
    dtype: str = "object",
    *,
    published: str = "",
    shown: _Read | None = None,
    sort: str = "",
    **more: Any,
) -> Column[Any]:
    """Make a column of a board, whose `value` is an attribute path or a function of our rows.

    Numbers are aligned to the right. `sort` is the name by which rows can be sorted by it, one of
    `ORDERS`; empty if they cannot.
    `published` is the attribute path of published rows; empty if these have no value. `shown`
    returns the value of our rows that people see, if it differs.
    """

    def read(row: AnyRow) -> Any:
        if isinstance(row, PublishedRow):
            return read_path(row, published) if published else None
        return value(row) if callable(value) else read_path(row, value or name)

    def read_shown(row: AnyRow) -> Any:
        return read(row) if shown is None or isinstance(row, PublishedRow) else shown(row)

    align: Align = "right" if dtype in (_NUMBER, _COUNT) else "left"
    return Column(name, read, dtype=dtype, align=align, sort=sort, shown=read_shown, **more)


_dump_json = partial(json.dumps, sort_keys=True)


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


def _find_headline(row: LeaderboardRow) -> Estimate | None:
    """Return the score that the row is ranked by if it is a test score, else None."""
    return row.ranked_score if row.headline else None


def searched_settings(row: LeaderboardRow) -> str:
    """Format the active searched hyperparameters."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def short_key(row: LeaderboardRow) -> str:
    """Return the first digits of the key of the best seed's trial, which commands accept."""
    return (row.best_trial or "")[:HASH_DIGITS]


def format_seen(seen: Iterable[SeenSentences]) -> str | None:
    """Format how many test sentences occur in each place, summed over the test sets.

    A sentence of two sets counts twice. None if they have not been counted.
    """
    sums: dict[str, tuple[int, int]] = {}
    for entry in seen:
        if entry.split == "test":
            count, total = sums.get(entry.place, (0, 0))
            sums[entry.place] = count + entry.found, total + entry.sentences
    return "; ".join(f"{place} {f:,} of {n:,}" for place, (f, n) in sums.items()) or None


def _format_rank(row: LeaderboardRow) -> Cell | None:
    """Format the rank among several rows; None without a rank or if no other row is ranked."""
    rank, ranked = row.rank, row.ranked_score
    if rank is None or rank.among == 1:
        return None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _make_cost_column(name: str) -> Column[Any]:
    """Make a column of one of `COSTS`; extrapolated values are marked."""

    def format_cost(row: LeaderboardRow) -> Cell | None:
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        cost = row.cost(name)
        return None if cost is None else cost_cell(name, cost, extrapolated=part)

    head = COST_HEADS[name]
    return _make_column(
        name, lambda row: row.cost(name), _NUMBER, shown=format_cost, title=head, sort=name
    )


_FIRST: tuple[Column[Any], ...] = (
    Column("published", lambda row: isinstance(row, PublishedRow), dtype=_TRUTH),
    _make_column("method", published="method", sort="method"),
    _make_column(
        "backbone",
        published="backbone",
        shown=lambda row: row.shown_backbone,
        sort="backbone",
    ),
)
"""Columns that published rows have too."""

_CONFIGURATION: tuple[Column[Any], ...] = (
    _make_column("sweep", sort="sweep"),
    _make_column(
        "configuration",
        parts=(
            _make_column(
                "configuration",
                "configuration.hash",
                format=lambda digits: digits[:HASH_DIGITS],
                sort="configuration",
            ),
            _make_column("values", "configuration.values", csv=_dump_json),
            _make_column(
                "searched", "configuration.searched", shown=searched_settings, csv=_dump_json
            ),
            _make_column(  # the code of imported trials is never known
                "code",
                "configuration.code",
                shown=lambda row: (
                    None if row.configuration.code or row.dev.source == IMPORTED else "unknown"
                ),
            ),
        ),
    ),
    _make_column("corpus", sort="corpus"),
    _make_column("seeds"),
    _make_column("n", dtype=_COUNT, published="seeds", sort="n"),
    _make_column("keys", shown=short_key, title="trial", csv=_dump_json),
)

_DEV_COLUMNS: tuple[Column[Any], ...] = (
    _make_column(
        "dev",
        parts=(
            _make_column("dev_checkpoint", "dev.checkpoint"),
            _make_column(
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
            _make_column("dev_identity", "dev.identity"),
            _make_column("dev_source", "dev.source"),
        ),
    ),
    _make_column("dev_mean", "dev_score.mean", _NUMBER, sort=DEV),
    _make_column("dev_std", "dev_score.std", _NUMBER, sort="dev_std"),
    _make_column(
        "dev_interval",
        lambda row: _list_bounds(row.dev_score.interval),
        parts=(
            _make_column("dev_low", "dev_score.interval.low", _NUMBER),
            _make_column("dev_high", "dev_score.interval.high", _NUMBER),
        ),
    ),
    _make_column("dev_best", "dev_score.best", _NUMBER),
    _make_column(
        "chosen_by",
        shown=lambda row: ", ".join(map(percent, row.chosen_by.values())) or None,
        csv=_dump_json,
        title="chosen by",
    ),
    _make_column("counts_choice", dtype=_TRUTH),
    _make_column("best_of", dtype=_COUNT),
    _make_column(
        "dev_untrained", dtype=_NUMBER, format=percent, title="untrained", sort="untrained"
    ),
    _make_column("trials", dtype=_COUNT, sort="trials"),
)

_RANKING: tuple[Column[Any], ...] = (
    _make_column(
        "headline",
        parts=(
            _make_column("headline"),
            _make_column(
                "evaluation",
                lambda row: read_path(_find_headline(row), "identity"),
                shown=lambda row: (row.ranked_score.identity if row.ranked_score else "")[
                    :HASH_DIGITS
                ],
            ),
            _make_column(
                "source",
                lambda row: source_of(score, row.dev) if (score := _find_headline(row)) else None,
            ),
            _make_column("best_of_n", lambda row: read_path(_find_headline(row), "best"), _NUMBER),
        ),
    ),
    replace(
        _make_column(
            "rank",
            shown=_format_rank,
            sort="rank",
            parts=tuple(
                _make_column(f"rank_{name}", f"rank.{name}", _COUNT)
                for name in ("best", "worst", "among")
            ),
        ),
        align="right",
    ),
    _make_column(
        "gap",
        parts=(
            _make_column(
                "gap",
                "gap.difference",
                _NUMBER,
                shown=lambda row: (
                    row.gap
                    and signed_percent(row.gap.difference)
                    + {True: " inside", False: " outside", None: ""}[row.gap.inside]
                ),
                title="paper",
                sort="gap",
            ),
            _make_column("gap_published", "gap.published", _NUMBER),
            _make_column("gap_source", "gap.source"),
            _make_column("gap_inside", "gap.inside", _TRUTH),
        ),
    ),
)

_RUN: tuple[Column[Any], ...] = (
    _make_column("other_code", dtype=_TRUTH),
    _make_column("marks"),
    _make_column(
        "seen",
        lambda row: [asdict(entry) for entry in row.seen],
        shown=lambda row: format_seen(row.seen),
        title="saw",
        csv=_dump_json,
    ),
    _make_column("test_opened", dtype=_TIME),
    _make_column(
        "gpu_hours",
        dtype=_NUMBER,
        format=lambda hours: f"{hours:.1f}",
        title="GPU-hours",
        sort="gpu_hours",
    ),
    _make_column(
        "wall_seconds", dtype=_NUMBER, format=clock, title="wall time a trial", sort="wall_seconds"
    ),
    *map(_make_cost_column, COSTS),
    _make_column("epochs", dtype=_NUMBER),
    _make_column("finished", dtype=_TIME, format=lambda day: f"{day:%Y-%m-%d}", sort="finished"),
    _make_column("machines", format=", ".join, sort="machines"),
    _make_column("tags", format=", ".join, sort="tags"),
    _make_column("starred", dtype=_TRUTH),
    _make_column("notes", format=lambda notes: shorten(" / ".join(notes), 60, placeholder="…")),
    _make_column("released", "released.system"),
    _make_column("trained_from", "released.trained_from"),
)

_OURS = (*_FIRST, *_CONFIGURATION, *_DEV_COLUMNS, *_RANKING, *_RUN)

_PAPER: tuple[Column[Any], ...] = (
    _make_column("system", lambda _: None, published="system"),
    _make_column("sources", lambda _: None, published="sources", format=", ".join, title="source"),
    _make_column(
        "settings",
        lambda _: None,
        published="settings",
        parts=(
            _make_column("settings", lambda _: None, published="label", title="published settings"),
        ),
    ),
    _make_column("split", lambda _: "test", published="split"),
)
"""Columns that only published rows fill; left out of a board without published rows."""

_UNSTATED = _make_column("unstated", lambda _: None, published="unstated")
BY_NAME = {part.name: part for column in (*_OURS, *_PAPER) for part in (column, *column.parts)}
"""All columns and parts by name, from which the columns for people are chosen."""

ESTIMATE_PARTS: dict[str, Callable[[Estimate], Any]] = {
    "std": lambda estimate: estimate.std,
    "interval": lambda estimate: _list_bounds(estimate.interval),
    "best": lambda estimate: estimate.best,
    "seeds": lambda estimate: estimate.n,
    "source": lambda estimate: estimate.source,
    "values": lambda estimate: estimate.values,
}


def _make_scores_column(name: str, part: Callable[[Estimate], Any]) -> Column[Any]:
    return _make_column(
        name, lambda row: {column: part(score) for column, score in row.scores.items()}
    )


OUR_RECORD = (
    *(*_FIRST, *_CONFIGURATION, *_DEV_COLUMNS, *_RANKING),
    _make_scores_column("test", lambda estimate: estimate.mean),
    *(_make_scores_column(f"test_{name}", part) for name, part in ESTIMATE_PARTS.items()),
    _make_scores_column("evaluation", lambda estimate: estimate.identity),
    *_RUN,
)
"""Fields of our rows in JSON; test scores are in objects keyed by column."""

PAPER_RECORD = (
    *(*_FIRST, *_PAPER),
    _make_column("scores", lambda _: None, published="scores"),
    _make_column("scores_std", lambda _: None, published="std"),
    _UNSTATED,
)
"""Fields of published rows in JSON."""


def data_columns(board: Board) -> list[Column[Any]]:
    """List the columns of a board for CSV and pandas, which have one value per cell.

    Score columns are those of the board's family and of every family that one of our rows has
    scores of. `evaluation`, `source` and `best_of_n` are those of the headline; JSON has them for
    every score.
    """
    ours = {column for row in board.rows for column in row.scores}
    known = ours.union(*(row.scores for row in board.published))
    scores = [
        column
        for family in (*BOARD_FAMILIES.values(), family_named(OWN, board.rows))
        if family.name == board.family or not ours.isdisjoint(family.columns)
        for name in family.columns
        if name in known
        for column in _make_score_columns(name)
    ]
    return [*flatten([*_OURS, *((*_PAPER, _UNSTATED) if board.published else ())]), *scores]


def _make_score_columns(name: str) -> Iterator[Column[Any]]:
    """Make the columns of a score: mean, n, std and the interval, which is over pairs if n is 1."""

    def read_part(path: str) -> _Read:
        return lambda row: read_path(row.scores.get(name), path)

    def read_mean(row: AnyRow) -> float | None:
        score = row.scores.get(name)
        return score.mean if isinstance(score, Estimate) else score

    def read_std(row: AnyRow) -> Any:
        return row.std.get(name) if isinstance(row, PublishedRow) else read_part("std")(row)

    yield Column(name, read_mean, dtype=_NUMBER)
    yield _make_column(f"{name}_n", read_part("n"), _COUNT)
    yield Column(f"{name}_std", read_std, dtype=_NUMBER)
    yield _make_column(f"{name}_low", read_part("interval.low"), _NUMBER)
    yield _make_column(f"{name}_high", read_part("interval.high"), _NUMBER)
