"""A leaderboard as tables for people: several short ones with the same names, or one wide one."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from cse_platform.leaderboard.render import fields as columns_of
from cse_platform.leaderboard.render.board import (
    ABOVE,
    DEV,
    OPENED,
    PUBLISHED,
    Board,
    Entry,
    entries,
    identities,
    with_emphasis,
)
from cse_platform.leaderboard.render.fields import Field
from cse_platform.leaderboard.render.grid import Grid, Row, Rule
from cse_platform.leaderboard.render.numbers import ALPHA, OVER_PAIRS, OVER_PAIRS_MEANS

LEGEND = {
    OPENED: "First tried after tests were opened for its method; "
    "tried before and promoted after has no mark.",
    OVER_PAIRS: OVER_PAIRS_MEANS,
}
ABOVE_MEANS = f"Above {{b}} with p < {ALPHA}, after Holm's correction over the tasks."
PUBLISHED_MEANS = f"{PUBLISHED} Published, not ours; the number leads to its source."
GAP_MEANS = "paper: ours minus the published number, which lies inside our interval or outside."
UNRANKED = "Not ranked: {why}."
ONE_SEED = "{n} of one seed without stored cosines"
ALONE = "{n} with no other ranked row of its evaluation identity"
WITHOUT = "{n} without this score"
MIXED = "{column}: {n} evaluation identities; compare rows of one (--format json has them)."

Key = TypeVar("Key", bound=Hashable)


def board_grids(board: Board, *, wide: bool) -> list[Grid]:
    """The tables of a leaderboard.

    Rows that are ranked by different columns have tables of their own, and so have scores on
    built-in data; published rows stand beside ours on real data only.

    Args:
        board: what to show.
        wide: one table with everything for each of these groups, and those of scores on other data
            than their row is ranked on; instead of one after the other for the standing, the scores
            by task, the settings, the runs and the sources.
    """
    grids = _whole(board) if wide else _parts(board)
    return [grid.without_empty_columns() for grid in grids]


def _whole(board: Board) -> Iterator[Grid]:
    listed = entries(board)
    for headline, builtin, group in _ranked(listed):
        columns = _columns(board, group)
        others = [column for column in columns if column != headline]
        fields = [
            *columns_of.standing(headline, group),
            *columns_of.scores(others),
            *columns_of.settings(),
            *columns_of.runs(),
            *columns_of.sources(),
        ]
        title = f"Leaderboard {_order(board, headline, group)}, x 100{_where(builtin)}"
        yield _grid(board, title, fields, group, shown=[headline, *others])
    elsewhere = [entry.on(builtin=not entry.ranked_on_builtin) for entry in listed]
    yield from _test_scores(board, elsewhere)


def _parts(board: Board) -> Iterator[Grid]:
    listed = entries(board)
    for headline, builtin, group in _ranked(listed):
        if any(entry.row for entry in group):  # others have nothing but their scores
            ranked = [entry for entry in group if entry.row or headline in entry.scores.values]
            title = f"Standing {_order(board, headline, group)}, x 100{_where(builtin)}"
            fields = columns_of.standing(headline, ranked)
            yield _grid(board, title, fields, ranked, shown=[headline])
    yield from _test_scores(board, listed)
    ours = [entry for entry in listed if entry.row]
    theirs = [entry for entry in listed if entry.published]
    if ours:
        yield _grid(board, "Settings", columns_of.settings(), ours)
        yield _grid(board, "Runs", columns_of.runs(), ours)
    if theirs:
        yield _grid(board, "Sources of published rows", columns_of.sources(), theirs)


def _test_scores(board: Board, listed: Sequence[Entry]) -> Iterator[Grid]:
    for builtin in (False, True):
        group = [entry.on(builtin=builtin) for entry in listed]
        for block in _blocks(board, _columns(board, group)):
            scored = [
                entry for entry in group if any(name in entry.scores.values for name in block)
            ]
            title = f"Test scores, {_span(block)}, x 100{_where(builtin)}"
            yield _grid(board, title, columns_of.scores(block), scored, shown=block)


def _ranked(listed: Sequence[Entry]) -> Iterator[tuple[str, bool, list[Entry]]]:
    """Entries that can stand in one table, with the column that they are ranked by: dev where the
    headline is that of none.
    """
    for (headline, builtin), group in _groups(listed, lambda e: (e.headline, e.ranked_on_builtin)):
        there = any(headline in entry.scores.values for entry in group)
        yield headline if there else DEV, builtin, [entry.on(builtin=builtin) for entry in group]


def _groups(
    listed: Sequence[Entry], key: Callable[[Entry], Key]
) -> Iterator[tuple[Key, list[Entry]]]:
    """Entries by key, in the order in which keys appear."""
    for found in dict.fromkeys(map(key, listed)):
        yield found, [entry for entry in listed if key(entry) == found]


def _columns(board: Board, listed: Sequence[Entry]) -> list[str]:
    """The family's columns in which there is a number."""
    return [
        name
        for name in board.columns.columns
        if any(name in entry.scores.values for entry in listed)
    ]


def _blocks(board: Board, columns: Sequence[str]) -> Iterator[list[str]]:
    """Each average with the columns that it is over."""
    block: list[str] = []
    for name in columns:
        block.append(name)
        if name in board.columns.averages:
            yield block
            block = []
    if block:
        yield block


def _order(board: Board, headline: str, group: Sequence[Entry]) -> str:
    """What rows are ranked by, and what ours are sorted by where that is something else."""
    if board.sorted_by == headline or not any(entry.row for entry in group):
        return f"by {headline}"
    return f"on {headline}, in order of {board.sorted_by}"


def _span(block: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((block[0], block[-1])))


def _where(builtin: bool) -> str:
    return ", on built-in data" if builtin else ""


def _grid(
    board: Board,
    title: str,
    fields: Sequence[Field],
    listed: Sequence[Entry],
    *,
    shown: Sequence[str] = (),
) -> Grid:
    """A table of these entries; `shown` are the columns of scores whose best are emphasised."""
    named = columns_of.keys(listed)
    names = [field.column.name for field in named]
    fields = [*named, *(field for field in fields if field.column.name not in names)]
    lines: list[Row | Rule] = [
        Row(tuple(field.cell(entry) for field in fields)) for entry in with_emphasis(listed, shown)
    ]
    ours = sum(entry.row is not None for entry in listed)
    if 0 < ours < len(listed) and all(entry.published for entry in listed[ours:]):
        lines.insert(ours, Rule())
    against = next(iter(board.against.values()), None)
    return Grid(
        title,
        tuple(field.column for field in fields),
        tuple(lines),
        notes=tuple(_notes(fields, listed, shown)),
        legend=LEGEND | ({ABOVE: ABOVE_MEANS.format(b=against.b)} if against else {}),
    )


def _notes(fields: Sequence[Field], listed: Sequence[Entry], shown: Sequence[str]) -> Iterator[str]:
    if any(entry.published for entry in listed):
        yield PUBLISHED_MEANS
    names = [field.column.name for field in fields]
    if columns_of.GAP in names and any(entry.row and entry.row.gap for entry in listed):
        yield GAP_MEANS
    if columns_of.RANK in names:
        yield from _unranked(listed)
    for column in shown:
        if (found := len(identities(listed, column))) > 1:
            yield MIXED.format(column=column, n=found)


def _unranked(listed: Sequence[Entry]) -> Iterator[str]:
    """How many rows have no rank, and why; a row that is alone needs none."""
    ours = [entry.row for entry in listed if entry.row]
    single = sum(
        row.rank is None and row.ranked_score is not None and row.ranked_score.n == 1
        for row in ours
    )
    alone = sum(row.rank is not None and row.rank.among == 1 for row in ours)
    without = sum(row.ranked_score is None for row in ours)
    counted = {ONE_SEED: single, ALONE: alone, WITHOUT: without}
    why = [text.format(n=n) for text, n in counted.items() if n]
    if why and len(ours) > 1:
        yield UNRANKED.format(why=", ".join(why))
