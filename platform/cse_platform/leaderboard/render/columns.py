"""The columns of a leaderboard: for people by subject, x 100, and for programs, as fractions."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from textwrap import shorten
from typing import Any

from cse_platform.leaderboard.published.papers import source_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import BOARD_FAMILIES, Estimate, Gap, LeaderboardRow
from cse_platform.leaderboard.render.board import (
    COST_HEADS,
    DEV,
    OVER_PAIRS,
    STARRED,
    Board,
    Entry,
    cost_cell,
    estimates,
    interval_cell,
    join_marks,
    score_cell,
    score_column,
    short_hash,
    shown_dev_set,
)
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.leaderboard.trials import BUILTIN
from cse_platform.render.formats import (
    HASH_DIGITS,
    clock,
    percent,
    short_settings,
    signed_percent,
)
from cse_platform.render.table import Cell, Column, as_text, to_record
from cse_platform.tracking.events import IMPORTED
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES

EntryColumn = Column[Entry]


def key_columns(listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows."""
    rows = [entry.row for entry in listed if entry.row]

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(_KEYS[name](row) for name in names) for row in rows})

    names = ["method", "backbone"]
    if distinct(["dev set"]) > 1:
        names.append("dev set")
    for name in ("configuration", "evaluation"):
        if distinct(names) < distinct([*names, name]):
            names.append(name)
    others = (
        _make_our_column(name, _KEYS[name], sort=_SORTS_OF_KEYS.get(name, "")) for name in names[2:]
    )
    return [_METHOD, _BACKBONE, *others]


def ranking_columns(headline: str, listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, and dev."""
    rows = [entry.row for entry in listed if entry.row]

    def of(part: Callable[[Estimate], Any]) -> Callable[[LeaderboardRow], Any]:
        def value(row: LeaderboardRow) -> Any:
            estimate = estimates(row).get(headline)
            return None if estimate is None else part(estimate)

        return value

    title = _format_dev_title(rows) if headline == DEV else ""
    if headline == DEV:
        beside = [
            _make_number_column(
                "untrained", lambda row: row.dev_untrained, percent, sort="untrained"
            )
        ]
    else:
        beside = [_make_dev_column(rows, builtin=builtin) for builtin in (False, True)]
    return [
        score_column(headline, title=title),
        _make_number_column("95 % interval", of(lambda estimate: estimate.interval), interval_cell),
        _make_number_column("rank", _select_ranked_row, _format_rank, sort="rank"),
        _make_number_column("best of n", of(lambda estimate: estimate.best), percent, sort="best"),
        _make_number_column("n", lambda row: _format_seed_count(row, headline), sort="n"),
        *beside,
        _make_number_column("paper", lambda row: row.gap, _format_gap, sort="gap"),
    ]


def searched_settings(row: LeaderboardRow) -> str:
    """Format the searched settings that are active."""
    values = row.configuration.values
    return short_settings(
        {name: values[name] for name in row.configuration.searched if name in values}
    )


def short_key(row: LeaderboardRow) -> str:
    """The first digits of the key of the best seed's trial, as commands take it."""
    return (row.best_trial or "")[:HASH_DIGITS]


def _format_unknown_code(row: LeaderboardRow) -> str | None:
    """Say that the code is unknown, as of rows that older versions stored."""
    return None if row.configuration.code or row.dev.source == IMPORTED else "unknown"


def _make_our_column(
    name: str,
    value: Callable[[LeaderboardRow], Any],
    format: Callable[[Any], Cell | str] = as_text,
    *,
    sort: str = "",
) -> EntryColumn:
    """Make a column that published rows leave empty; `sort` is one of `SORT_COLUMNS`."""
    return Column(
        name, lambda entry: value(entry.row) if entry.row else None, format, name, sort=sort
    )


def _make_number_column(
    name: str,
    value: Callable[[LeaderboardRow], Any],
    format: Callable[[Any], Cell | str] = as_text,
    *,
    sort: str = "",
) -> EntryColumn:
    """Make a right-aligned column that published rows leave empty."""
    return replace(_make_our_column(name, value, format, sort=sort), align="right")


def _make_cost_column(name: str) -> EntryColumn:
    """Make a column of one of `COSTS`; extrapolated values are marked."""

    def marked(row: LeaderboardRow) -> Cell | None:
        if (cost := row.cost(name)) is None:
            return None
        part = name == EPOCH_MINUTES and row.epoch_is_extrapolated
        return cost_cell(name, cost, extrapolated=part)

    return _make_number_column(COST_HEADS[name], marked, lambda cell: cell, sort=name)


def _make_published_column(name: str, value: Callable[[PublishedRow], Any]) -> EntryColumn:
    """Make a column that our rows leave empty."""
    return Column(name, lambda entry: value(entry.published) if entry.published else None)


def _make_dev_column(rows: Sequence[LeaderboardRow], *, builtin: bool) -> EntryColumn:
    """Make a column of dev scores on built-in dev sets, or on others."""

    def there(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    title = _format_dev_title([row for row in rows if there(row)])
    return _make_number_column(
        title, lambda row: row.dev_score if there(row) else None, score_cell, sort=DEV
    )


def _format_dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """Format the title of the dev column, with the dev set or source that all rows share."""
    for known in ({shown_dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _select_ranked_row(row: LeaderboardRow) -> LeaderboardRow | None:
    """Return the row if it is ranked among several; else None."""
    return row if row.rank is not None and row.rank.among > 1 else None


def _format_rank(row: LeaderboardRow) -> Cell:
    rank, ranked = row.rank, row.ranked_score
    assert rank is not None
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _format_seed_count(row: LeaderboardRow, headline: str) -> str:
    """Format the number of seeds of the headline, and of how many if some are not scored."""
    estimate = estimates(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"


def _format_gap(gap: Gap) -> str:
    verdict = {True: " inside", False: " outside", None: ""}[gap.inside]
    return signed_percent(gap.difference) + verdict


def _format_dev_sets(row: LeaderboardRow) -> str:
    same = row.dev.checkpoint == row.dev.search
    return shown_dev_set(row) + ("" if same else f", checkpoint by {row.dev.checkpoint}")


def _format_evaluation(row: LeaderboardRow) -> str:
    return row.ranked_score.identity[:HASH_DIGITS] if row.ranked_score else ""


def _format_method(entry: Entry) -> Cell:
    row = entry.published
    star = STARRED if entry.row and entry.row.starred else ""  # which no paper's table has
    name = row.system if row else entry.row.shown_method if entry.row else ""
    return Cell(name, mark=join_marks(star, entry.mark))


_METHOD: EntryColumn = Column("method", _format_method, lambda cell: cell, sort="method")
_BACKBONE: EntryColumn = Column(
    "backbone",
    lambda entry: (
        entry.row.shown_backbone if entry.row else getattr(entry.published, "backbone", None)
    ),
    sort="backbone",
)
_KEYS: dict[str, Callable[[LeaderboardRow], str]] = {
    "method": lambda row: row.shown_method,
    "backbone": lambda row: row.shown_backbone,
    "dev set": shown_dev_set,
    "configuration": short_hash,
    "evaluation": _format_evaluation,
}
"""The values that distinguish our rows."""
_SORTS_OF_KEYS = {"dev set": "dev_set", "configuration": "configuration"}
SETTING_COLUMNS = (
    _make_our_column("configuration", short_hash, sort="configuration"),
    _make_our_column("trial", short_key),
    _make_our_column("code", _format_unknown_code),
    _make_our_column("searched", searched_settings),
)
NOTES_WIDTH = 60
"""Characters of notes that a table shows; `cse-leaderboard show` has all of them."""
SWEEP_COLUMNS = (
    _make_our_column("sweep", lambda row: row.sweep, sort="sweep"),
    _make_our_column("dev set", _format_dev_sets, sort="dev_set"),
    _make_our_column("corpus", lambda row: row.corpus, sort="corpus"),
    _make_our_column("tags", lambda row: ", ".join(row.tags), sort="tags"),
    _make_our_column(
        "notes", lambda row: shorten(" / ".join(row.notes), NOTES_WIDTH, placeholder="…")
    ),
)
RUN_COLUMNS = (
    _make_number_column("trials", lambda row: row.trials, sort="trials"),
    _make_number_column(
        "GPU-hours", lambda row: row.gpu_hours, lambda hours: f"{hours:.1f}", sort="gpu_hours"
    ),
    _make_number_column(
        "wall time a trial", lambda row: row.wall_seconds, clock, sort="wall_seconds"
    ),
    _make_our_column(
        "finished", lambda row: row.finished, lambda day: f"{day:%Y-%m-%d}", sort="finished"
    ),
    _make_our_column("machines", lambda row: ", ".join(row.machines), sort="machines"),
)
COST_COLUMNS = tuple(map(_make_cost_column, COSTS))
SOURCE_COLUMNS = (
    _make_published_column("published settings", lambda row: row.label),
    _make_published_column("source", lambda row: ", ".join(row.sources)),
)


AnyRow = LeaderboardRow | PublishedRow
DataColumn = Column[AnyRow]

_NUMBER, _COUNT, _TRUTH, _TIME = "float64", "Int64", "boolean", "datetime64[us, UTC]"


def board_records(board: Board) -> list[dict[str, Any]]:
    """Make a JSON object of each row: ours with every score they have, then published ones."""
    ours = [to_record(_OUR_RECORD, row) for row in board.rows]
    return ours + [to_record(_PUBLISHED_RECORD, row) for row in board.published]


def data_columns(board: Board) -> list[DataColumn]:
    """List the columns of a board for CSV and pandas: one value a cell.

    There are columns for every score that a row has in a family which the board or one of our rows
    shows.
    """
    scores = [column for name in _list_score_columns(board) for column in _make_score_columns(name)]
    return [*_BOARD_COLUMNS, *(_PAPER_COLUMNS if board.published else ()), *scores]


def data_rows(board: Board) -> list[AnyRow]:
    """List the rows of a board for CSV and pandas."""
    return [*board.rows, *board.published]


def estimate_records(scores: Mapping[str, Estimate], *, prefix: str) -> dict[str, Any]:
    """List what is known of each score beside its mean, by column."""
    return {
        f"{prefix}_{name}": {column: part(score) for column, score in scores.items()}
        for name, part in ESTIMATE_PARTS.items()
    }


def _list_bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


ESTIMATE_PARTS: dict[str, Callable[[Estimate], Any]] = {
    "std": lambda estimate: estimate.std,
    "interval": lambda estimate: _list_bounds(estimate.interval),
    "best": lambda estimate: estimate.best,
    "seeds": lambda estimate: estimate.n,
    "source": lambda estimate: estimate.source,
    "values": lambda estimate: estimate.values,
}


def _read_attribute(row: object, path: str) -> Any:
    """Read an attribute of a row by a path with dots; None behind a None."""
    for name in filter(None, path.split(".")):
        row = None if row is None else getattr(row, name)
    return row if path else None


def _make_data_column(
    name: str, dtype: str = "object", *, ours: str | None = None, published: str = ""
) -> DataColumn:
    """Make a column from the attributes that hold its values in our and in published rows.

    `ours` is a path with dots, and the name where it is left out. Without a path for published
    rows, these leave the column empty. `dtype` is what pandas calls the type.
    """
    path = name if ours is None else ours

    def value(row: AnyRow) -> Any:
        content = _read_attribute(row, published if isinstance(row, PublishedRow) else path)
        return list(content) if isinstance(content, tuple) else content

    return Column(name, value, dtype=dtype)


def _make_our_data_column(
    name: str, value: Callable[[LeaderboardRow], Any], dtype: str = "object"
) -> DataColumn:
    """Make a column that published rows leave empty."""
    return Column(
        name, lambda row: value(row) if isinstance(row, LeaderboardRow) else None, dtype=dtype
    )


def _format_as_json(column: DataColumn) -> DataColumn:
    """Write the values of a column as JSON in CSV."""
    return replace(column, format=lambda value: json.dumps(value, sort_keys=True))


def _list_score_columns(board: Board) -> list[str]:
    """List the score columns of the families that the board or one of our rows shows."""
    ours = {column for row in board.rows for column in row.scores}
    known = ours.union(*(row.scores for row in board.published))
    shown = (
        family
        for family in BOARD_FAMILIES.values()
        if family.name == board.family or not ours.isdisjoint(family.columns)
    )
    return [column for family in shown for column in family.columns if column in known]


def _make_score_columns(name: str) -> Iterator[DataColumn]:
    """Make the columns of a score: mean, n, std and interval; if n is 1, over pairs."""

    def mean(row: AnyRow) -> float | None:
        score = row.scores.get(name)
        return score.mean if isinstance(score, Estimate) else score

    def std(row: AnyRow) -> Any:
        return row.std.get(name) if isinstance(row, PublishedRow) else part("std")(row)

    def part(path: str) -> Callable[[LeaderboardRow], Any]:
        return lambda row: _read_attribute(row.scores.get(name), path)

    yield Column(name, mean, dtype=_NUMBER)
    yield _make_our_data_column(f"{name}_n", part("n"), _COUNT)
    yield Column(f"{name}_std", std, dtype=_NUMBER)
    yield _make_our_data_column(f"{name}_low", part("interval.low"), _NUMBER)
    yield _make_our_data_column(f"{name}_high", part("interval.high"), _NUMBER)


def _make_test_column(name: str) -> DataColumn:
    part = ESTIMATE_PARTS[name]
    return _make_our_data_column(
        f"test_{name}", lambda row: {column: part(score) for column, score in row.scores.items()}
    )


def _find_ranked_score(row: LeaderboardRow) -> Estimate | None:
    """Return the score that the row is ranked by, if that is a test score."""
    return row.ranked_score if row.headline else None


_IS_PUBLISHED: DataColumn = Column(
    "published", lambda row: isinstance(row, PublishedRow), dtype=_TRUTH
)
_NAMES = tuple(_make_data_column(name, published=name) for name in ("method", "backbone"))
_DEV_NUMBERS = (
    _make_data_column("dev_best", _NUMBER, ours="dev_score.best"),
    _make_data_column("dev_untrained", _NUMBER),
    _make_data_column("trials", _COUNT),
    _make_data_column("headline"),
)
_RUN = (
    _make_data_column("other_code", _TRUTH),
    _make_data_column("test_opened", _TIME),
    _make_data_column("gpu_hours", _NUMBER),
    _make_data_column("wall_seconds", _NUMBER),
    *(_make_our_data_column(name, methodcaller("cost", name), _NUMBER) for name in COSTS),
    _make_data_column("epochs", _NUMBER),
    _make_data_column("finished", _TIME),
    _make_data_column("machines"),
    _make_data_column("tags"),
    _make_data_column("starred", _TRUTH),
    _make_data_column("notes"),
    _make_data_column("released", ours="released.system"),
    _make_data_column("trained_from", ours="released.trained_from"),
)
_BOARD_COLUMNS: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    _make_data_column("sweep"),
    _make_data_column("configuration", ours="configuration.hash"),
    _format_as_json(_make_data_column("values", ours="configuration.values")),
    _format_as_json(_make_data_column("searched", ours="configuration.searched")),
    _make_data_column("code", ours="configuration.code"),
    _make_data_column("corpus"),
    _make_data_column("seeds"),
    _make_data_column("n", _COUNT, published="seeds"),
    _format_as_json(_make_data_column("keys")),
    *(
        _make_data_column(f"dev_{name}", ours=f"dev.{name}")
        for name in ("checkpoint", "search", "identity", "source")
    ),
    _make_data_column("dev_mean", _NUMBER, ours="dev_score.mean"),
    _make_data_column("dev_std", _NUMBER, ours="dev_score.std"),
    _make_data_column("dev_low", _NUMBER, ours="dev_score.interval.low"),
    _make_data_column("dev_high", _NUMBER, ours="dev_score.interval.high"),
    *_DEV_NUMBERS,
    _make_our_data_column(
        "evaluation", lambda row: _read_attribute(_find_ranked_score(row), "identity")
    ),
    _make_our_data_column(
        "source", lambda row: source_of(one, row.dev) if (one := _find_ranked_score(row)) else None
    ),
    _make_our_data_column(
        "best_of_n", lambda row: _read_attribute(_find_ranked_score(row), "best"), _NUMBER
    ),
    *(
        _make_data_column(f"rank_{name}", _COUNT, ours=f"rank.{name}")
        for name in ("best", "worst", "among")
    ),
    _make_data_column("gap", _NUMBER, ours="gap.difference"),
    _make_data_column("gap_published", _NUMBER, ours="gap.published"),
    _make_data_column("gap_source", ours="gap.source"),
    _make_data_column("gap_inside", _TRUTH, ours="gap.inside"),
    *_RUN,
)
"""The columns of every board. `evaluation`, `source` and `best_of_n` are those of the headline;
JSON has those of every score."""
_PAPER_COLUMNS: tuple[DataColumn, ...] = (
    _make_data_column("system", ours="", published="system"),
    _make_data_column("sources", ours="", published="sources"),
    _make_data_column("settings", ours="", published="label"),
    Column("split", lambda row: row.split if isinstance(row, PublishedRow) else "test"),
    _make_data_column("unstated", ours="", published="unstated"),
)
"""The columns of a board with published rows."""
_OUR_RECORD: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    *map(_make_data_column, ("sweep", "configuration", "corpus", "seeds", "n", "keys", "dev")),
    _make_data_column("dev_mean", ours="dev_score.mean"),
    _make_data_column("dev_std", ours="dev_score.std"),
    _make_our_data_column("dev_interval", lambda row: _list_bounds(row.dev_score.interval)),
    *_DEV_NUMBERS,
    _make_data_column("rank"),
    _make_data_column("gap"),
    _make_our_data_column("test", lambda row: {name: one.mean for name, one in row.scores.items()}),
    *(_make_test_column(name) for name in ESTIMATE_PARTS),
    _make_our_data_column(
        "evaluation", lambda row: {name: one.identity for name, one in row.scores.items()}
    ),
    *_RUN,
)
"""The fields of our rows in JSON."""
_PUBLISHED_RECORD: tuple[DataColumn, ...] = (
    _IS_PUBLISHED,
    *_NAMES,
    *(
        _make_data_column(name, published=name)
        for name in ("system", "sources", "settings", "split")
    ),
    _make_data_column("scores", published="scores"),
    _make_data_column("scores_std", published="std"),
    _make_data_column("unstated", published="unstated"),
)
"""The fields of published rows in JSON."""
