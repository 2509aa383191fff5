"""What a leaderboard shows: our rows, published ones, and which of them can be compared."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import inf

from cse_platform.leaderboard.published.match import source_of
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.query.trials.test_access import BUILTIN
from cse_platform.leaderboard.render.grid import Cell
from cse_platform.leaderboard.render.numbers import (
    ALPHA,
    OVER_PAIRS,
    Scores,
    emphasised,
    marks,
    printed,
    score,
)
from cse_platform.leaderboard.row import FAMILIES, Estimate, Family, FamilyName, LeaderboardRow
from cse_platform.leaderboard.statistics.results import Comparison

DEV = "dev"
HASH_SHOWN = 8
OPENED, PUBLISHED, ABOVE = "*", "†", "§"


@dataclass(frozen=True)
class Board:
    """A leaderboard, in the order in which its rows shall stand."""

    rows: Sequence[LeaderboardRow]
    published: Sequence[PublishedRow] = ()
    """Those on test sets are shown."""
    family: FamilyName = "sts"
    """Of the tasks that are shown."""
    sorted_by: str = DEV
    """The column that `rows` are sorted by. Published rows stand among them where it is the
    headline, and below them otherwise."""
    against: Mapping[int, Comparison] = field(default_factory=dict)
    """By place in `rows`: that row against one and the same other, for significance marks."""

    @property
    def columns(self) -> Family:
        """Of the tasks that are shown."""
        return FAMILIES[self.family]

    @property
    def headline(self) -> str:
        """The column that rows are ranked by, which published ones have too."""
        ours = [row.headline for row in self.rows if row.headline]
        return (*ours, *self.columns.averages, *self.columns.columns)[0]


@dataclass(frozen=True)
class Entry:
    """One line of every table that it is in."""

    key: Mapping[str, Cell]
    """What names it, by the head of its column; of a published row method and backbone only."""
    headline: str
    """A column, or `dev`."""
    scores: Scores
    """`dev` among the columns of ours."""
    builtin: AbstractSet[str] = frozenset()
    """Columns whose scores are on built-in data, which no paper has."""
    identities: Mapping[str, str] = field(default_factory=dict)
    row: LeaderboardRow | None = None
    published: PublishedRow | None = None

    @property
    def ranked_on_builtin(self) -> bool:
        """Whether the headline's score, or dev where there is none, is on built-in data."""
        return (self.headline if self.headline in self.scores.values else DEV) in self.builtin

    def on(self, *, builtin: bool) -> "Entry":
        """The same entry with its scores on built-in data alone, or with the others alone."""

        def kept(column: str) -> bool:
            return (column in self.builtin) is builtin

        values = {column: one for column, one in self.scores.values.items() if kept(column)}
        cells = {column: cell for column, cell in self.scores.cells.items() if kept(column)}
        named = {column: one for column, one in self.identities.items() if kept(column)}
        return replace(self, scores=Scores(values, cells), identities=named)


def dev_set(row: LeaderboardRow) -> str:
    """What the search climbed, and where it is from."""
    return f"{row.dev.search} ({row.dev.source})"


def scores_of(row: LeaderboardRow) -> dict[str, Estimate]:
    """By column, `dev` among them."""
    return {DEV: row.dev_score, **row.scores}


def key_columns(listed: Sequence[Entry]) -> list[str]:
    """Method and backbone, and what else it takes to tell these rows of ours apart."""
    ours = [entry.key for entry in listed if entry.row]

    def told_apart(names: Sequence[str]) -> int:
        return len({tuple(key[name].text for name in names) for key in ours})

    names = ["method", "backbone"]
    if told_apart(["dev set"]) > 1:
        names.append("dev set")
    for name in ("configuration", "evaluation"):
        if told_apart(names) < told_apart([*names, name]):
            names.append(name)
    return names


def entries(board: Board) -> list[Entry]:
    """Ours and published ones, in the order in which they stand."""
    ours = [_ours(row, board.against.get(place)) for place, row in enumerate(board.rows)]

    def lowest_last(entry: Entry) -> float:
        return -entry.scores.values.get(board.headline, -inf)

    theirs = sorted(
        (_theirs(row, board.headline) for row in board.published if _on_tests(row, board.columns)),
        key=lowest_last,
    )
    numbered = [_marked(entry, number) for number, entry in enumerate(theirs, start=1)]
    return (
        sorted(ours + numbered, key=lowest_last)
        if board.sorted_by == board.headline
        else ours + numbered
    )


def with_emphasis(listed: Sequence[Entry], columns: Iterable[str]) -> list[Entry]:
    """The same entries, with the best and second of each column.

    A column whose scores are of several identities has neither.
    """
    comparable = [column for column in columns if len(identities(listed, column)) < 2]
    cells = emphasised([entry.scores for entry in listed], comparable)
    return [
        replace(entry, scores=replace(entry.scores, cells=own))
        for entry, own in zip(listed, cells, strict=True)
    ]


def identities(listed: Sequence[Entry], column: str) -> set[str]:
    """Of our scores in a column: only equal ones can be compared."""
    return {entry.identities[column] for entry in listed if column in entry.identities}


def _ours(row: LeaderboardRow, against: Comparison | None) -> Entry:
    scores, ranked = scores_of(row), row.ranked_score
    above = _above(against) if against else {}
    return Entry(
        key={
            "method": Cell(row.method, mark=OPENED if row.test_opened else ""),
            "backbone": Cell(row.backbone),
            "dev set": Cell(dev_set(row)),
            "configuration": Cell(row.configuration.hash[:HASH_SHOWN]),
            "evaluation": Cell(ranked.identity[:HASH_SHOWN] if ranked else ""),
        },
        headline=row.headline or DEV,
        scores=Scores(
            {column: estimate.mean for column, estimate in scores.items()},
            {
                column: replace(score(estimate), mark=above.get(column, ""))
                for column, estimate in scores.items()
            },
        ),
        builtin={
            column for column, estimate in scores.items() if source_of(estimate, row.dev) == BUILTIN
        },
        identities={column: estimate.identity for column, estimate in scores.items()},
        row=row,
    )


def _above(against: Comparison) -> dict[str, str]:
    """Marks of the columns on which A is above B beyond chance, as far as its seeds can tell."""
    found = {
        task.task
        for task in against.tasks
        if task.effect > 0 and task.p_holm is not None and task.p_holm < ALPHA
    }
    whole = against.average
    if whole is not None and whole.effect > 0 and whole.p is not None and whole.p < ALPHA:
        found.add(whole.task)
    single = 1 in (against.n_a, against.n_b)
    return dict.fromkeys(found, marks(ABOVE, OVER_PAIRS if single else ""))


def _on_tests(row: PublishedRow, family: Family) -> bool:
    return row.split == "test" and not row.scores.keys().isdisjoint(family.columns)


def _theirs(row: PublishedRow, headline: str) -> Entry:
    return Entry(
        key={"method": Cell(row.system), "backbone": Cell(row.backbone)},
        headline=headline,
        scores=printed(row.scores, row.std),
        published=row,
    )


def _marked(entry: Entry, number: int) -> Entry:
    method = replace(entry.key["method"], mark=f"{PUBLISHED}{number}")
    return replace(entry, key={**entry.key, "method": method})
