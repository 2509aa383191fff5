"""The lines of a leaderboard's tables, ours and published ones, and the columns that read them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any, ClassVar

from cse_methods.data.dev_selection import ByWidth
from cse_platform.leaderboard.families import (
    FAMILIES,
    BoardFamily,
    FamilyName,
    families_beside,
    family_named,
)
from cse_platform.leaderboard.published.matching import source_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import (
    BUILTIN,
    CHOICE_COUNTS,
    DEV,
    RAN_OTHER_CODE,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    TESTS_OPENED,
    Estimate,
    LeaderboardRow,
)
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.numbers import percent
from cse_platform.presentation.board_columns import (
    ALPHA,
    EXTRAPOLATED,
    EXTRAPOLATED_MEANS,
    OUR_COLUMNS,
    OUR_FIELDS,
    OVER_EXAMPLES,
    OVER_EXAMPLES_MEANS,
    PUBLISHED_COLUMNS,
    PUBLISHED_FIELDS,
    STARRED,
    join_marks,
    shown_dev_set,
)
from cse_platform.presentation.tables import Cell, Column, flatten
from cse_platform.values import group_by

CHOSEN, OPENED, PUBLISHED, ABOVE, OTHER_CODE = "△", "*", "†", "§", "¶"
TRAINING_MARKS = {TEACHER_SAW_PAIRS: "◊", SAW_TESTS: "°"}
"""Marks of how a row was trained, by their names. `released` and `transductive` have none, because
the row's name shows them.
"""
_MARKS = {
    CHOICE_COUNTS: CHOSEN, TESTS_OPENED: OPENED, RAN_OTHER_CODE: OTHER_CODE, **TRAINING_MARKS
}  # fmt: skip
LEGEND = {
    STARRED: "Starred: the configuration, or one of its trials.",
    OPENED: "Chosen after such test sets had been opened for its method and backbone.",
    OTHER_CODE: "Newer trials of its method, backbone and dev sets ran other code.",
    TRAINING_MARKS[TEACHER_SAW_PAIRS]: "According to its authors, one of its teachers learned "
    "from pairs of sentences.",
    TRAINING_MARKS[SAW_TESTS]: "Its corpus, its teachers' corpora or its own dev files contain "
    "sentences of these test sets.",
    OVER_EXAMPLES: OVER_EXAMPLES_MEANS,
    EXTRAPOLATED: EXTRAPOLATED_MEANS,
}
"""What marks mean, but for `CHOSEN`, of which it depends on the rows."""
CHOICE_MEANS = "The value that chose this row counts in its mean, so it tends to be too high"
"""What `CHOSEN` means for every row."""


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
    ranked: bool = True
    """Whether the ranks of `rows` have been computed; without them, all rows of a dev set stand in
    one table, in the order given.
    """

    @property
    def columns(self) -> BoardFamily:
        """The columns of the shown tasks."""
        return family_named(self.family, self.rows)

    @property
    def headline(self) -> str:
        """The column that rows are ranked by, published rows included."""
        ours = [row.headline for row in self.rows if row.headline]
        return next(iter((*ours, *self.columns.averages, *self.columns.columns)), DEV)

    @cached_property
    def entries(self) -> "list[Entry]":
        """Our rows and the published ones, in display order.

        Below ours stand the four papers' rows, those of recent papers by year, and those set apart.
        The marks of ours are about the shown scores alone.
        """
        headline, tests = self.headline, self.columns
        shown = {DEV, *tests.columns, *([self.sorted_by] if self.sorted_by else [])}

        def by_year(row: PublishedRow) -> tuple[bool, int, float]:
            return bool(row.apart), row.year or 0, -row.scores.get(headline, -inf)

        def lowest_last(entry: Entry) -> tuple[bool, float]:
            score = entry.scores.get(headline)
            return entry.standing == APART, -score.mean if score else inf

        printed = sorted((row for row in self.published if is_on_tests(row, tests)), key=by_year)
        listed = [*_list_ours(self, shown), *_list_published(printed, headline)]
        return sorted(listed, key=lowest_last) if self.sorted_by == headline else listed


OURS, PRINTED, APART = 0, 1, 2
"""Standings: our rows, published ones that are ranked with each other, and those that are not."""


@dataclass(frozen=True)
class PublishedScore:
    """A paper's number: what an `Estimate` has, without what papers do not print."""

    mean: float
    std: float | None
    n: None = None
    best: None = None
    interval: None = None
    identity: None = None


@dataclass(frozen=True, eq=False)
class Entry(ABC):
    """A line of the board's tables."""

    columns: ClassVar[Mapping[str, Column[Any]]]
    """What `row` can show, by name."""

    row: LeaderboardRow | PublishedRow
    method: str
    """The method's name for people, or a published system's."""
    backbone: str
    headline: str
    """The column that it is ranked by: a test score, or `dev`."""
    scores: Mapping[str, Estimate | PublishedScore]
    """The scores by column; those of our rows include `dev`."""
    builtin: Collection[str] = ()
    """The columns of `scores` on built-in data, on which no paper reports."""
    above: Mapping[str, str] = field(default_factory=dict)
    """The marks of scores that are significantly above those of the reference row, by column."""
    counting_choice: Collection[str] = ()
    """The columns of scores in which a value counts that chose the row, so that they are too high.
    """
    dev_set: str = ""
    """The dev set that its search climbed, and its source; empty for a published row."""
    dev: Estimate | None = None
    """The score on it; None for a published row."""
    by_width: ByWidth = field(default_factory=dict)
    """The dev scores at several widths, if they are shown."""
    mark: str = ""
    """The mark after the method's name."""
    star: str = ""
    """The mark of a starred row, which the papers' form leaves out."""
    standing: int = OURS
    """`OURS`, `PRINTED` or `APART`; entries are compared with others of their standing."""

    @abstractmethod
    def count_seeds(self, column: str) -> str:
        """Count the seeds with a score, as `2 of 3` if others have none; empty if published."""

    @property
    def ranked_on_builtin(self) -> bool:
        """Whether the headline score is on built-in data; else all test scores, else dev."""
        if self.headline in self.scores:
            return self.headline in self.builtin
        tests = self.scores.keys() - {DEV}
        return tests <= set(self.builtin) if tests else DEV in self.builtin

    def on(self, *, builtin: bool) -> "Entry":
        """Keep only the scores on built-in data, or only the others."""
        kept = {name: s for name, s in self.scores.items() if (name in self.builtin) is builtin}
        return replace(self, scores=kept)


@dataclass(frozen=True, eq=False)
class OurEntry(Entry):
    """One of our rows."""

    row: LeaderboardRow
    columns = OUR_COLUMNS

    def count_seeds(self, column: str) -> str:
        score = self.row.scores.get(column) if column in self.scores else None
        if score is None:
            return str(self.row.n)
        n, expected = score.n, len(self.row.seeds_for(score))
        return str(n) if n == expected else f"{n} of {expected}"


@dataclass(frozen=True, eq=False)
class PublishedEntry(Entry):
    """A row of a paper's table."""

    row: PublishedRow
    columns = PUBLISHED_COLUMNS

    def count_seeds(self, column: str) -> str:
        return ""


def list_all_entries(board: Board) -> list[Entry]:
    """List our rows, then all published ones, as they are given."""
    return [*_list_ours(board), *_list_published(board.published, board.headline)]


def _list_ours(board: Board, shown: Collection[str] = ()) -> Iterator[Entry]:
    """List our rows, whose marks are about the `shown` columns; by default about all."""
    for index, row in enumerate(board.rows):
        scores = {DEV: row.dev_score, **row.scores}
        told = shown or scores
        counting_choice = {n for n in scores if n in told and row.counts_choice_in(scores[n])}
        row = row.seen_on(shown) if shown else row
        main = (board.ranked and row.headline) or DEV
        sorting = board.sorted_by if board.sorted_by in told else main
        if sorting in told and sorting not in counting_choice:  # then cells are marked, not the row
            told = {name for name in told if name not in counting_choice}
        cautions = row.cautions(scores[name] for name in scores if name in told)
        yield OurEntry(
            row,
            row.shown_method,
            row.shown_backbone,
            main,
            scores,
            {name for name, score in scores.items() if source_of(score, row.dev) == BUILTIN},
            _mark_significant_columns(board.against[index]) if index in board.against else {},
            counting_choice,
            dev_set=shown_dev_set(row),
            dev=row.dev_score,
            by_width=board.by_width[index] if board.by_width else {},
            mark=mark_cautions(cautions),
            star=STARRED * row.starred,
        )


def mark_cautions(cautions: Collection[str]) -> str:
    """Build the mark after a row's name of what a reader must know of it."""
    return join_marks(*(mark for name, mark in _MARKS.items() if name in cautions))


def _list_published(rows: Sequence[PublishedRow], headline: str) -> Iterator[Entry]:
    for n, row in enumerate(rows, start=1):
        scores = {
            column: PublishedScore(value, row.std.get(column))
            for column, value in row.scores.items()
        }
        yield PublishedEntry(
            row,
            row.shown_system,
            row.backbone,
            headline,
            scores,
            mark=f"{PUBLISHED}{n}",
            standing=APART if row.apart else PRINTED,
        )


def _mark_significant_columns(against: Comparison) -> dict[str, str]:
    """Mark the columns on which A is significantly better than B."""
    tested = [(task, task.p_holm) for task in against.tasks]
    tested += [(against.average, against.average.p)] if against.average else []
    return {
        t.task: join_marks(ABOVE, OVER_EXAMPLES if 1 in (t.n_a, t.n_b) else "")
        for t, p in tested
        if t.effect > 0 and p is not None and p < ALPHA
    }


def is_on_tests(row: PublishedRow, family: BoardFamily) -> bool:
    """Whether a published row has test scores of these tasks."""
    return row.split == "test" and not row.scores.keys().isdisjoint(family.columns)


@dataclass(frozen=True)
class Group:
    """The entries of one table, in display order."""

    listed: Sequence[Entry]
    headline: str = ""
    """The column that ranks them; empty if none does."""
    builtin: bool | None = None
    """Whether their scores are on built-in data; None for a table without scores."""

    @cached_property
    def ours(self) -> list[OurEntry]:
        """Those of our rows."""
        return [entry for entry in self.listed if isinstance(entry, OurEntry)]

    @cached_property
    def published(self) -> list[PublishedEntry]:
        """Those of published rows."""
        return [entry for entry in self.listed if isinstance(entry, PublishedEntry)]


def group_by_ranking(board: Board, listed: Sequence[Entry]) -> Iterator[Group]:
    """Group the entries that belong in one table, with the column that ranks them.

    If no entry of the group has a headline score, that column is the first test score of any, best
    first. Entries without any test score are ranked on dev; each dev set has a table of its own.
    """
    groups = group_by(listed, lambda entry: (entry.headline, entry.ranked_on_builtin))
    for (headline, builtin), group in groups.items():
        kept = [entry.on(builtin=builtin) for entry in group]
        columns = list_scored_columns(board, kept)
        if headline in columns or not board.ranked:
            yield Group(kept, headline, builtin)
            continue
        unscored = [entry for entry in kept if entry.scores.keys().isdisjoint(columns)]
        if columns:
            scored = [entry for entry in kept if not entry.scores.keys().isdisjoint(columns)]
            yield Group(_sort_by(columns[0], scored, board), columns[0], builtin)
        of_sets = group_by(unscored, lambda entry: entry.dev_set)
        yield from (Group(of_set, DEV, builtin) for of_set in of_sets.values())


def _sort_by(column: str, listed: Sequence[Entry], board: Board) -> Sequence[Entry]:
    """Sort entries by a score, the highest first, unless the board is sorted by a column."""
    if board.sorted_by is not None:
        return listed
    return sorted(listed, key=lambda e: -e.scores[column].mean if column in e.scores else inf)


def score_blocks(board: Board, listed: Sequence[Entry]) -> Iterator[tuple[list[str], Group]]:
    """Split the scores into blocks: an average with its tasks, and the entries that have any of
    them.
    """
    for builtin in (False, True):
        kept = [entry.on(builtin=builtin) for entry in listed]
        blocks: list[list[str]] = [[]]
        for name in list_scored_columns(board, kept):
            blocks[-1].append(name)
            if name in board.columns.averages:
                blocks.append([])
        for block in filter(None, blocks):
            scored = [entry for entry in kept if not entry.scores.keys().isdisjoint(block)]
            yield block, Group(scored, builtin=builtin)


def list_scored_columns(board: Board, listed: Sequence[Entry]) -> list[str]:
    """List the columns of the shown tasks in which an entry has a score."""
    columns = board.columns.columns
    return [name for name in columns if any(name in entry.scores for entry in listed)]


EntryColumn = Column[Entry]
_ABSENT = Column[Any]("", lambda _: None)


def board_column(name: str) -> EntryColumn:
    """Make a column of what entries can show; those that lack it have no value."""
    return replace(
        OUR_COLUMNS.get(name) or PUBLISHED_COLUMNS[name],
        value=lambda entry: entry.columns.get(name, _ABSENT).read(entry.row),
        shown=lambda entry: entry.columns.get(name, _ABSENT).read_shown(entry.row),
    )


def score_column(name: str, *, title: str = "") -> EntryColumn:
    """Make a column of scores; the best and second best are emphasised."""

    def make_cell(entry: Entry) -> Cell | None:
        if (score := entry.scores.get(name)) is None:
            return None
        chosen = CHOSEN * (name in entry.counting_choice and CHOSEN not in entry.mark)
        mark = join_marks(entry.above.get(name, ""), chosen)
        return Cell(percent(score.mean), spread=percent(score.std), mark=mark)

    def read_mean(entry: Entry) -> float | None:
        return entry.scores[name].mean if name in entry.scores else None

    return Column(name, make_cell, title=title, align="right", compared=read_mean, sort=name)


def data_columns(board: Board) -> list[EntryColumn]:
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
        for column in _make_data_columns(name)
    ]
    fields = (*OUR_FIELDS, *(PUBLISHED_FIELDS if board.published else ()))
    return [*map(board_column, dict.fromkeys(field.name for field in flatten(fields))), *scores]


def _make_data_columns(name: str) -> Iterator[EntryColumn]:
    """Make the columns of a score: mean, n, std and the interval, over examples if n is 1."""

    parts: dict[str, Callable[[Estimate | PublishedScore], float | None]] = {
        "": lambda score: score.mean,
        "_n": lambda score: score.n,
        "_std": lambda score: score.std,
        "_low": lambda score: score.interval.low if score.interval else None,
        "_high": lambda score: score.interval.high if score.interval else None,
    }

    def read(entry: Entry, part: Callable[[Estimate | PublishedScore], float | None]) -> Any:
        return part(entry.scores[name]) if name in entry.scores else None

    for ending, part in parts.items():
        yield Column(name + ending, partial(read, part=part))
