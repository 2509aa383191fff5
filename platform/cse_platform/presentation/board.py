"""Lays out a leaderboard as tables, our rows and published ones, and as a document."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cse_platform.leaderboard.families import OWN
from cse_platform.leaderboard.records import DEV
from cse_platform.numbers import percent, short_settings
from cse_platform.presentation.board_columns import (
    OUR_COLUMNS,
    OUR_RECORD,
    PUBLISHED_RECORD,
    interval_cell,
    join_marks,
    score_cell,
)
from cse_platform.presentation.board_entries import (
    APART,
    CHOSEN,
    Board,
    Entry,
    EntryColumn,
    Group,
    board_column,
    data_columns,
    group_by_ranking,
    list_all_entries,
    list_scored_columns,
    score_blocks,
    score_column,
)
from cse_platform.presentation.board_notes import (
    count_identities,
    explain_marks,
    note_fewer_seeds,
    note_identities,
    note_ranking,
    note_rows,
)
from cse_platform.presentation.board_printed import paper_board
from cse_platform.presentation.tables import (
    Cell,
    Column,
    Document,
    Table,
    to_csv,
    to_record,
    to_table,
)
from cse_platform.tracking.history import COSTS
from cse_platform.values import group_by

RANKING, SCORES, WIDTHS, SOURCES = "ranking", "scores", "widths", "sources"
ABOUT_PAPERS = ("venue", "paper_id", "trained_on", "checkpoints", "reported_by", "read_in")
DETAILS: dict[str, tuple[str, tuple[str, ...]]] = {
    "hyperparameters": ("Hyperparameters", ("configuration", "keys", "code", "searched")),
    "sweeps": ("Sweeps", ("sweep", "dev_search", "corpus", "seen", "tags", "notes")),
    "runs": ("Runs", ("trials", "gpu_hours", "wall_seconds", "finished", "machines")),
    "costs": ("Costs of a trial", tuple(COSTS)),
    SOURCES: ("Sources of published rows", ("settings", "sources", *ABOUT_PAPERS)),
}
"""The titles of further tables, and the names of their columns."""
TABLES = (RANKING, SCORES, WIDTHS, *DETAILS)
"""The names of all tables of a board."""

WIDE = (
    *("configuration", "keys", "sweep", "dev_search", "corpus", "seen", "code", "searched"),
    *("trials", "gpu_hours", "wall_seconds", *COSTS, "finished", "machines", "tags", "notes"),
    *("settings", "sources", *ABOUT_PAPERS),
)
"""The columns of a wide table after the scores."""


def board_tables(board: Board, names: Collection[str] = TABLES) -> list[Table]:
    """Make the tables of these names, of `TABLES`.

    Rows that are ranked by different columns are in separate tables, and so are scores on built-in
    data; published rows appear only beside scores on real data.
    """
    every, tables = Group(board.entries), list[Table]()
    if RANKING in names:
        for group in group_by_ranking(board, every.listed):
            if group.ours:  # published rows have only their scores
                lacking = {e for e in group.published if group.headline not in e.scores}
                ranked = replace(group, listed=[e for e in group.listed if e not in lacking])
                others = list_scored_columns(board, ranked.listed) if board.family == OWN else []
                columns = ranking_columns(ranked, others)
                columns = [*find_sorting_column(board, ranked, columns), *columns]
                title = f"Ranking {_name_order(board, ranked)}"
                tables.append(_make_entry_table(board, title, columns, ranked))
    if SCORES in names:
        tables += _make_score_tables(board, every.listed)
    if WIDTHS in names and (shown := [entry for entry in every.ours if entry.by_width]):
        title = "Dev scores of the first coordinates alone, Spearman x 100"
        tables.append(_make_entry_table(board, title, [*_make_width_columns(shown)], Group(shown)))
    details: dict[str, Sequence[Entry]] = {
        **dict.fromkeys(DETAILS, every.ours),
        "costs": [entry for entry in every.ours if entry.row.costs],
        SOURCES: every.published,
    }
    for name, (title, fields) in DETAILS.items():
        if name in names and details[name]:
            columns = list(map(board_column, fields))
            tables.append(_make_entry_table(board, title, columns, Group(details[name])))
    return tables


def wide_board_tables(board: Board) -> list[Table]:
    """Make a table with all columns for each group of rows that are ranked by one column."""
    listed, tables = board.entries, list[Table]()
    for group in group_by_ranking(board, listed):
        scored = list_scored_columns(board, group.listed)
        others = [score_column(name) for name in scored if name != group.headline]
        others += map(board_column, WIDE)
        ranking = ranking_columns(group)
        sorting = find_sorting_column(board, group, [*ranking, *others])
        columns = [*ranking, *sorting, *others]
        title = f"Leaderboard {_name_order(board, group)}"
        tables.append(_make_entry_table(board, title, columns, group))
    left = [entry.on(builtin=not entry.ranked_on_builtin) for entry in listed]
    return [*tables, *_make_score_tables(board, left)]


def _make_width_columns(listed: Sequence[Entry]) -> Iterator[EntryColumn]:
    """Make a column for each dev set and width, of the full vectors first."""

    def score(task: str, width: int, entry: Entry) -> str:
        return percent(entry.by_width.get(task, {}).get(width))

    for task in dict.fromkeys(task for entry in listed for task in entry.by_width):
        widths = {width for entry in listed for width in entry.by_width.get(task, {})}
        for width in sorted(widths, reverse=True):
            yield Column(f"{task} {width}", partial(score, task, width), align="right")


def _make_score_tables(board: Board, listed: Sequence[Entry]) -> Iterator[Table]:
    for block, group in score_blocks(board, listed):
        title = f"Test scores, {' to '.join(dict.fromkeys((block[0], block[-1])))}"
        yield _make_entry_table(board, title, list(map(score_column, block)), group)


def _name_order(board: Board, group: Group) -> str:
    """Name the column that ranks these entries, and the one that sorts them, if it is another."""
    by, sorted_by = _name_ranking(group), board.sorted_by or group.headline
    is_ranked = sorted_by == group.headline or not group.ours
    return f"by {by}" if is_ranked else f"on {by}, sorted by {sorted_by}"


def _name_ranking(group: Group) -> str:
    """Name the column that ranks these entries; dev with the set, which they share."""
    sets = {entry.dev_set for entry in group.ours}
    return " ".join((DEV, *sets)) if group.headline == DEV else group.headline


def board_document(board: Board, names: Collection[str] = (), *, wide: bool = False) -> Document:
    """Make the document of a leaderboard, with the tables of these names or a wide one.

    By default, Markdown and LaTeX have the form that papers print, and other formats the ranking;
    published rows have their scores and sources, too.
    """
    chosen = names or (RANKING, *((SCORES, SOURCES) if board.published else ()))
    there = [*DETAILS][: -1 if not board.published else None]
    others = ", ".join(name for name in (RANKING, SCORES, *there) if name not in chosen)
    hint = f"More: --show with {others} or all; --wide has all columns in one table."
    return Document(
        lambda: wide_board_tables(board) if wide else board_tables(board, chosen),
        lambda: to_csv(data_columns(board), list_all_entries(board)),
        lambda: [
            *(to_record(OUR_RECORD, row) for row in board.rows),
            *(to_record(PUBLISHED_RECORD, row) for row in board.published),
        ],
        None if names or wide else lambda: paper_board(board) or board_tables(board, [RANKING])[:1],
        hint="" if names or wide or not board.rows else hint,
    )


def _make_entry_table(
    board: Board, title: str, columns: Sequence[EntryColumn], group: Group
) -> Table:
    """Make a table of entries; columns with several evaluation identities, and those of a board
    without ranks, are not compared.
    """
    keys = key_columns(board, group)
    names = {column.name for column in keys}
    mixed = count_identities(columns, group)
    shown = [
        replace(column, compared=None) if column.name in mixed or not board.ranked else column
        for column in columns
        if column.name not in names
    ]
    for at, column in enumerate(shown):
        if column.name == "searched":
            shown.insert(at + 1, _make_differing_column(group))
            break
    standings = [entry.standing for entry in group.listed]
    below = standings == sorted(standings)  # all published entries stand below ours
    builtin = ", on built-in data" if group.builtin else ""
    table = to_table(
        [*keys, *shown],
        group_by(group.listed, lambda e: e.standing if below else e.standing == APART).values(),
        title=title if group.builtin is None else f"{title}, x 100{builtin}",
        notes=[
            *note_rows(group),
            *(note_ranking(board, group) if group.headline else ()),
            *note_fewer_seeds([column.name for column in shown], group),
            *note_identities(columns, mixed),
        ],
        legend=explain_marks(board, ranked=bool(group.headline)),
        apart=lambda entry: entry.standing,
    )
    if any(head.name == "saw" for head in table.heads):
        saw = "saw: test sentences in its corpus, its teachers' corpora and its own dev files."
        table = replace(table, notes=(*table.notes, saw))
    return table


def _make_differing_column(group: Group) -> EntryColumn:
    """Make a column of the hyperparameters that a row has not searched, but that other rows of its
    method have with other values.
    """
    known = defaultdict[tuple[str, str], set[str]](set)
    for entry in group.ours:
        for name, value in entry.row.configuration.values.items():
            known[entry.row.method, name].add(repr(value))
    differing = dict[Entry, str]()
    for entry in group.ours:
        values, searched = entry.row.configuration.values, entry.row.configuration.searched
        names = [name for name in values if name not in searched]
        several = {n: values[n] for n in names if len(known[entry.row.method, n]) > 1}
        differing[entry] = short_settings(several)
    return Column("also_differs", differing.get)


def key_columns(board: Board, group: Group) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows, from
    those of the same names in other tables too.
    """

    def name_entry(entry: Entry) -> tuple[str, ...]:
        return entry.method, entry.backbone, entry.dev_set

    names = set(map(name_entry, group.ours))
    alike = [entry for entry in Group(board.entries).ours if name_entry(entry) in names]

    def count_names(columns: Sequence[EntryColumn]) -> int:
        return len({tuple(column.cell(entry).text for column in columns) for entry in alike})

    columns: list[EntryColumn] = [
        Column("method", lambda e: Cell(e.method, mark=join_marks(e.star, e.mark)), sort="method"),
        *map(board_column, ("backbone", "year")),
    ]
    dev_set: EntryColumn = Column("dev_search", "dev_set", title="dev set", sort="dev_set")
    if count_names([dev_set]) > 1:
        columns.append(dev_set)
    for column in map(board_column, ("configuration", "evaluation")):
        if count_names([*columns, column]) > count_names(columns):
            columns.append(column)
    return columns


def find_sorting_column(
    board: Board, group: Group, shown: Sequence[EntryColumn]
) -> list[EntryColumn]:
    """Find the column that sorts the rows, if it has one and is not among those that are shown."""
    by = board.sorted_by
    if by is None or any(column.sort == by for column in shown):
        return []
    ours = [board_column(name) for name, column in OUR_COLUMNS.items() if column.sort == by]
    is_scored = any(by in entry.scores for entry in group.listed)
    return ours or [score_column(by)] * is_scored


def ranking_columns(group: Group, others: Sequence[str] = ()) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, other scores, and dev.

    Each dev set has a column of its own, because dev scores of different sets do not compare.
    """
    headline = group.headline

    def format_interval(entry: Entry) -> Cell | None:
        score = entry.scores.get(headline)
        if score is None or score.interval is None:
            return None
        cell = interval_cell(score.interval)
        chosen = CHOSEN if headline in entry.counting_choice else ""
        return replace(cell, mark=join_marks(cell.mark, chosen))

    def make_dev_column(dev_set: str) -> EntryColumn:
        return Column(
            f"{DEV} {dev_set}",
            lambda entry: entry.dev if entry.dev_set == dev_set else None,
            score_cell,
            align="right",
            sort=DEV,
        )

    sets = dict.fromkeys(entry.dev_set for entry in group.ours)
    on_dev = headline == DEV
    return [
        score_column(headline, title=_name_ranking(group) if on_dev else ""),
        Column("95 % interval", format_interval, align="right"),
        board_column("rank"),
        Column(
            "best of n",
            lambda entry: entry.scores.get(headline),
            lambda score: percent(score.best),
            align="right",
            sort="best",
        ),
        Column("n", lambda entry: entry.count_seeds(headline), align="right", sort="n"),
        board_column("chosen_by"),
        *(score_column(name) for name in others if name != headline),
        *([board_column("dev_untrained")] if on_dev else map(make_dev_column, sets)),
        board_column("gap"),
    ]
