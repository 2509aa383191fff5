"""The columns of a leaderboard, by subject."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cse_platform.folding import Fold
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.query.trials.test_access import BUILTIN
from cse_platform.leaderboard.render.board import (
    DEV,
    HASH_SHOWN,
    Entry,
    dev_set,
    key_columns,
    scores_of,
)
from cse_platform.leaderboard.render.grid import Cell, Column
from cse_platform.leaderboard.render.numbers import OVER_PAIRS, bounds, percent, score, signed
from cse_platform.leaderboard.row import Estimate, LeaderboardRow

GAP, RANK = "paper", "rank"


@dataclass(frozen=True)
class Field:
    """A column, and what an entry has in it."""

    column: Column
    cell: Callable[[Entry], Cell]


def keys(listed: Sequence[Entry]) -> list[Field]:
    """What names a row."""

    def field(name: str) -> Field:
        return Field(Column(name, folds="names"), lambda entry: entry.key.get(name, Cell()))

    return [field(name) for name in key_columns(listed)]


def standing(headline: str, listed: Sequence[Entry]) -> list[Field]:
    """How good, and how sure of it: the headline's score over seeds, its rank, dev beside it."""
    rows = [entry.row for entry in listed if entry.row]
    untrained = _number("untrained", lambda row: Cell(percent(row.dev_untrained)))
    return [
        _score(headline, title=_dev_title(rows) if headline == DEV else headline, folds="last"),
        _number("95 % interval", _of(headline, lambda estimate: bounds(estimate.interval))),
        _at_blanks(_number(RANK, _ranks)),
        _number("best of n", _of(headline, lambda estimate: Cell(percent(estimate.best)))),
        _number("n", lambda row: Cell(_seeds(row, headline))),
        *([untrained] if headline == DEV else [_dev(rows, builtin=one) for one in (False, True)]),
        _at_blanks(_number(GAP, _gap)),
    ]


def scores(columns: Sequence[str]) -> list[Field]:
    """Test scores over seeds; a standard deviation goes below its mean where room is short."""
    return [_score(column, title=column, folds="at blanks") for column in columns]


def settings() -> list[Field]:
    """Which configuration it is."""
    return [
        _named("configuration", lambda row: row.configuration.hash[:HASH_SHOWN]),
        _named("trial", _trial),
        _text("sweep", lambda row: row.sweep),
        _text("dev set", _dev_sets),
        _text("corpus", lambda row: row.corpus),
        _at_blanks(_text("searched", searched)),
    ]


def runs() -> list[Field]:
    """What finding it took, when and where."""
    return [
        _number("trials", lambda row: Cell(str(row.trials))),
        _number("GPU-hours", lambda row: Cell(_hours(row.gpu_hours))),
        _text("finished", lambda row: f"{row.finished:%Y-%m-%d}"),
        _text("machines", lambda row: ", ".join(row.machines)),
        _text("tags", lambda row: ", ".join(row.tags)),
    ]


def sources() -> list[Field]:
    """Where published rows are from, and what their papers set."""

    def field(name: str, text: Callable[[PublishedRow], str]) -> Field:
        def cell(entry: Entry) -> Cell:
            return Cell(text(entry.published)) if entry.published else Cell()

        return Field(Column(name), cell)

    return [
        _at_blanks(field("published settings", lambda row: row.label)),
        field("source", lambda row: ", ".join(row.sources)),
    ]


def searched(row: LeaderboardRow) -> str:
    """The settings that were searched, and are active."""
    values = row.configuration.values
    names = [name for name in row.configuration.searched if name in values]
    return " ".join(f"{name}={_short(values[name])}" for name in names)


def _dev(rows: Sequence[LeaderboardRow], *, builtin: bool) -> Field:
    """Dev scores on built-in sets, or on others."""

    def mine(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    title = _dev_title([row for row in rows if mine(row)])
    return _number(title, lambda row: score(row.dev_score) if mine(row) else Cell())


def _dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """With the dev set or its source, if it is one."""
    for known in ({dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _at_blanks(field: Field) -> Field:
    return replace(field, column=replace(field.column, folds="at blanks"))


def _score(column: str, *, title: str, folds: Fold) -> Field:
    return Field(
        Column(title.replace("_", " "), "right", folds),
        lambda entry: entry.scores.cells.get(column, Cell()),
    )


def _number(name: str, cell: Callable[[LeaderboardRow], Cell]) -> Field:
    return Field(
        Column(name, "right", "last"), lambda entry: cell(entry.row) if entry.row else Cell()
    )


def _text(name: str, text: Callable[[LeaderboardRow], str]) -> Field:
    return Field(Column(name), lambda entry: Cell(text(entry.row)) if entry.row else Cell())


def _named(name: str, text: Callable[[LeaderboardRow], str]) -> Field:
    field = _text(name, text)
    return replace(field, column=replace(field.column, folds="names"))


def _of(headline: str, cell: Callable[[Estimate], Cell]) -> Callable[[LeaderboardRow], Cell]:
    def of(row: LeaderboardRow) -> Cell:
        estimate = scores_of(row).get(headline)
        return cell(estimate) if estimate else Cell()

    return of


def _ranks(row: LeaderboardRow) -> Cell:
    rank, ranked = row.rank, row.ranked_score
    if rank is None or rank.among == 1:
        return Cell()
    ends = "-".join(dict.fromkeys((str(rank.best), str(rank.worst))))
    single = ranked is not None and ranked.n == 1
    return Cell(f"{ends} of {rank.among}", mark=OVER_PAIRS if single else "")


def _hours(gpu: float | None) -> str:
    return "" if gpu is None else f"{gpu:.1f}"


def _seeds(row: LeaderboardRow, headline: str) -> str:
    """How many the headline is over; of how many, where others were not scored."""
    estimate = scores_of(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"


def _gap(row: LeaderboardRow) -> Cell:
    if row.gap is None:
        return Cell()
    verdict = {True: " inside", False: " outside", None: ""}[row.gap.inside]
    return Cell(signed(row.gap.difference) + verdict)


def _trial(row: LeaderboardRow) -> str:
    """The key of the best seed, as far as commands need it."""
    return (row.best_trial or "")[:HASH_SHOWN]


def _dev_sets(row: LeaderboardRow) -> str:
    same = row.dev.checkpoint == row.dev.search
    return dev_set(row) + ("" if same else f", checkpoint by {row.dev.checkpoint}")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
