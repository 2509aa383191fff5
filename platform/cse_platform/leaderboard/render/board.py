"""The content of a leaderboard: our rows and published ones, and which scores are comparable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from cse_platform.leaderboard.published.papers import source_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import (
    BUILTIN,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    BoardFamily,
    Estimate,
    FamilyName,
    LeaderboardRow,
    family_named,
    is_clean,
    is_own,
    task_of,
)
from cse_platform.leaderboard.statistics.results import Comparison, Interval
from cse_platform.render.formats import HASH_DIGITS, percent, signed_percent
from cse_platform.render.table import Cell, Column, Order
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
OVER_PAIRS_MEANS = "Over the pairs of a single seed: how other seeds would do is not known."


COST_HEADS = {
    TRAIN_MINUTES: "train minutes",
    EPOCH_MINUTES: "epoch minutes",
    SPEED: "sentences per second",
    GPU_MEMORY: "GPU memory",
    HOST_MEMORY: "host memory",
}
EXTRAPOLATED = "~"
EXTRAPOLATED_MEANS = "Extrapolated: a trial trained through less than one epoch."


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


DEV = "dev"
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
    sorted_by: str = DEV
    """The column that `rows` are sorted by. If it is the headline, published rows are sorted in
    among them, else they come below.
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


@dataclass(frozen=True)
class ShownScore:
    """A score of an entry."""

    value: float
    cell: Cell
    identity: str | None = None
    """The evaluation identity; scores with the same one are comparable. None if published."""
    builtin: bool = False
    """Whether it is on built-in data, on which no paper reports."""


@dataclass(frozen=True)
class Entry:
    """A line of the board's tables: one of our rows or a published one."""

    headline: str
    """The column that it is ranked by: a test score, or `dev`."""
    scores: Mapping[str, ShownScore]
    """The scores by column; for our rows they include `dev`."""
    row: LeaderboardRow | None = None
    published: PublishedRow | None = None
    mark: str = ""
    """The mark after the method's name."""

    @property
    def content(self) -> LeaderboardRow | PublishedRow:
        """Our row, or the published one."""
        row = self.row or self.published
        assert row is not None
        return row

    @property
    def ranked_on_builtin(self) -> bool:
        """Whether the headline score, or dev if there is none, is on built-in data."""
        ranked = self.scores.get(self.headline) or self.scores.get(DEV)
        return ranked is not None and ranked.builtin

    def on(self, *, builtin: bool) -> "Entry":
        """Keep only the scores on built-in data, or only the others."""
        kept = {name: score for name, score in self.scores.items() if score.builtin is builtin}
        return replace(self, scores=kept)


def shown_dev_set(row: LeaderboardRow) -> str:
    """Name the dev set that the search climbed, and its source.

    For a lab's own files and imported rows, the identity is added to distinguish them.
    """
    is_ambiguous = row.dev.source in (OWN_FILE, IMPORTED)
    return (
        f"{row.dev.search} ({row.dev.source}{f' {row.dev.identity[:HASH_DIGITS]}' * is_ambiguous})"
    )


def describe_clean_change(rows: Sequence[LeaderboardRow], headline: str) -> Iterator[str]:
    """Describe how scores and ranks change if only clean rows are scored.

    Ranks are by the means, among rows whose scores are comparable in both protocols.
    """
    whole = task_of(headline)
    if not is_clean(headline):
        return
    if lacking := sum(headline not in row.scores for row in rows):
        yield (
            f"{lacking} of {len(rows)} rows have no clean scores; `cse-evaluate TRIAL "
            "--tasks sts` computes those of a trial."
        )
    both = [row for row in rows if {headline, whole} <= row.scores.keys()]
    if not both:
        return
    changes = [row.scores[headline].mean - row.scores[whole].mean for row in both]
    ends = dict.fromkeys(map(signed_percent, (min(changes), max(changes))))
    kept, all_rows = (_rank_by_mean(both, column, headline, whole) for column in (headline, whole))
    moved = [
        f"{row.shown_method} {before} to {now}"
        for row, before, now in zip(both, all_rows, kept, strict=True)
        if before != now
    ]
    ranks = (
        f"{len(moved)} of {len(both)} ranks change: {', '.join(moved)}"
        if moved
        else "no rank changes"
    )
    yield (
        f"Against all rows, the papers' protocol, {whole} changes by {' to '.join(ends)}; {ranks}."
    )


def _rank_by_mean(rows: Sequence[LeaderboardRow], column: str, *by: str) -> list[int]:
    """Rank each row on a column, among the rows with equal identities on all columns in `by`."""
    groups = [tuple(row.scores[name].identity for name in by) for row in rows]
    means = [row.scores[column].mean for row in rows]
    ranked = list(zip(groups, means, strict=True))
    return [1 + sum(g == group and m > mean for g, m in ranked) for group, mean in ranked]


def estimates(row: LeaderboardRow) -> dict[str, Estimate]:
    """Return the scores of a row by column, including `dev`."""
    return {DEV: row.dev_score, **row.scores}


def entries(board: Board) -> list[Entry]:
    """List our rows and the published ones in display order."""
    ours = [_make_our_entry(row, board.against.get(index)) for index, row in enumerate(board.rows)]

    def lowest_last(entry: Entry) -> float:
        score = entry.scores.get(board.headline)
        return -score.value if score else inf

    on_tests = [row for row in board.published if is_on_tests(row, board.columns)]
    theirs = sorted(
        (_make_published_entry(row, board.headline) for row in on_tests), key=lowest_last
    )
    marked = [replace(entry, mark=f"{PUBLISHED}{n}") for n, entry in enumerate(theirs, start=1)]
    if board.sorted_by == board.headline:
        return sorted([*ours, *marked], key=lowest_last)
    return [*ours, *marked]


def is_on_tests(row: PublishedRow, family: BoardFamily) -> bool:
    """Whether a published row has test scores of these tasks."""
    return row.split == "test" and not row.scores.keys().isdisjoint(family.columns)


def identities(listed: Sequence[Entry], column: str) -> set[str]:
    """Collect the evaluation identities of our scores in a column."""
    scores = [entry.scores[column] for entry in listed if column in entry.scores]
    return {score.identity for score in scores if score.identity is not None}


def published_cell(column: str, value: float, std: float | None) -> Cell:
    """Format a number of a paper: a fraction as a percentage, a cost in its own unit."""
    if column in COSTS:
        return Cell(f"{value:g}")
    return Cell(percent(value), spread=percent(std))


def score_column(name: str, *, title: str = "", compared: bool = True) -> Column[Any]:
    """Make a column of scores; if `compared`, the best and second best are emphasised."""

    def score(row: Any) -> ShownScore | None:
        shown: ShownScore | None = row.scores.get(name)
        return shown

    def value(row: Any) -> float | None:
        return shown.value if (shown := score(row)) else None

    return Column(
        name,
        score,
        lambda score: score.cell,
        title=title,
        align="right",
        compared=value if compared else None,
        order=None if is_own(name) and name != DEV else Order(name, value),
    )


def short_hash(row: LeaderboardRow) -> str:
    """Return the first digits of the configuration's hash."""
    return row.configuration.hash[:HASH_DIGITS]


def _make_our_entry(row: LeaderboardRow, against: Comparison | None) -> Entry:
    above = _mark_significant_columns(against) if against else {}
    scores = {
        column: ShownScore(
            estimate.mean,
            replace(score_cell(estimate), mark=above.get(column, "")),
            estimate.identity,
            source_of(estimate, row.dev) == BUILTIN,
        )
        for column, estimate in estimates(row).items()
    }
    opened = OPENED if row.test_opened else ""
    trained = [mark for name, mark in TRAINING_MARKS.items() if name in row.marks]
    mark = join_marks(opened, OTHER_CODE if row.other_code else "", *trained)
    return Entry(row.headline or DEV, scores, row=row, mark=mark)


def _make_published_entry(row: PublishedRow, headline: str) -> Entry:
    scores = {
        column: ShownScore(value, published_cell(column, value, row.std.get(column)))
        for column, value in row.scores.items()
    }
    return Entry(headline, scores, published=row)


def _mark_significant_columns(against: Comparison) -> dict[str, str]:
    """Mark the columns on which A is significantly better than B."""
    columns = {
        task.task
        for task in against.tasks
        if task.effect > 0 and task.p_holm is not None and task.p_holm < ALPHA
    }
    average = against.average
    if average is not None and average.effect > 0 and average.p is not None and average.p < ALPHA:
        columns.add(average.task)
    single = 1 in (against.n_a, against.n_b)
    return dict.fromkeys(columns, join_marks(ABOVE, OVER_PAIRS if single else ""))
