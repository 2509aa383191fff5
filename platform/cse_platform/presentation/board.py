"""Lays out a leaderboard as tables, our rows and published ones: for a terminal, and in the form
that papers print.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.data.dev_selection import ByWidth
from cse_methods.names import backbone_name, task_name
from cse_platform.leaderboard.published.rows import PublishedRow, source_of
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    BUILTIN,
    CLAIMED,
    DEV,
    OWN,
    RANKING_METRICS,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    BoardFamily,
    Estimate,
    LeaderboardRow,
    is_clean,
    mean_change,
    task_of,
)
from cse_platform.leaderboard.statistics.compare import Comparison, expected_maximum
from cse_platform.numbers import percent, short_settings, signed_percent
from cse_platform.presentation.board_columns import (
    ABOVE,
    ALPHA,
    CHOSEN,
    EXTRAPOLATED,
    EXTRAPOLATED_MEANS,
    OPENED,
    OTHER_CODE,
    OUR_RECORD,
    OVER_EXAMPLES,
    OVER_EXAMPLES_MEANS,
    PAPER_RECORD,
    PUBLISHED,
    STARRED,
    TRAINING_MARKS,
    AnyRow,
    Board,
    board_column,
    data_columns,
    interval_cell,
    join_marks,
    published_cell,
    score_cell,
    short_digits,
    shown_dev_set,
)
from cse_platform.presentation.printed_names import printed_method
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


@dataclass(frozen=True)
class ShownScore:
    """A score of an entry."""

    value: float
    cell: Cell
    estimate: Estimate | None = None
    """Of which it is the mean; None if it is published."""
    builtin: bool = False
    """Whether it is on built-in data, on which no paper reports."""


@dataclass(frozen=True)
class Entry:
    """A line of the board's tables: one of our rows or a published one."""

    method: str
    """The method's name for people, or a published system's."""
    backbone: str
    headline: str
    """The column that it is ranked by: a test score, or `dev`."""
    scores: Mapping[str, ShownScore]
    """The scores by column; for our rows they include `dev`."""
    row: LeaderboardRow | None = None
    """Our row; None if it is published."""
    published: PublishedRow | None = None
    dev_set: str = ""
    """The dev set that its search climbed, and its source; empty for a published row."""
    mark: str = ""
    """The mark after the method's name."""
    by_width: ByWidth = field(default_factory=dict)
    """The dev scores at several widths, if they are shown."""

    @property
    def standing(self) -> tuple[bool, bool]:
        """Whether it is published, and whether it is set apart; equal ones are compared."""
        return self.published is not None, bool(self.published and self.published.apart)

    @property
    def ranked_on_builtin(self) -> bool:
        """Whether the headline score is on built-in data; else all test scores, else dev."""
        if self.headline in self.scores:
            return self.scores[self.headline].builtin
        tests = [score.builtin for name, score in self.scores.items() if name != DEV]
        dev = self.scores.get(DEV)
        return all(tests) if tests else dev is not None and dev.builtin

    def on(self, *, builtin: bool) -> "Entry":
        """Keep only the scores on built-in data, or only the others."""
        kept = {name: score for name, score in self.scores.items() if score.builtin is builtin}
        return replace(self, scores=kept)


EntryColumn = Column[Entry]


def describe_clean_change(rows: Sequence[LeaderboardRow], headline: str) -> Iterator[str]:
    """Describe how scores change if only clean rows are scored."""
    whole = task_of(headline)
    both = [row for row in rows if is_clean(headline) and {headline, whole} <= row.scores.keys()]
    every = [mean_change(row.scores[headline], row.scores[whole]) for row in both]
    if changes := [change for change in every if change is not None]:
        ends = dict.fromkeys(map(signed_percent, (min(changes), max(changes))))
        yield f"Against all rows, the papers' protocol, {whole} changes by {' to '.join(ends)}."


def entries(board: Board) -> list[Entry]:
    """List our rows and the published ones in display order.

    Below ours stand the four papers' rows, those of recent papers by year, and those set apart.
    """
    ours = []
    for index, row in enumerate(board.rows):
        above = _mark_significant_columns(board.against[index]) if index in board.against else {}
        scores = {
            column: ShownScore(
                estimate.mean,
                replace(score_cell(estimate), mark=above.get(column, "")),
                estimate,
                source_of(estimate, row.dev) == BUILTIN,
            )
            for column, estimate in {DEV: row.dev_score, **row.scores}.items()
        }
        trained = [mark for name, mark in TRAINING_MARKS.items() if name in row.marks]
        run = (CHOSEN * row.counts_choice, OPENED * bool(row.test_opened))
        mark = join_marks(*run, OTHER_CODE * row.other_code, *trained)
        entry = Entry(row.shown_method, row.shown_backbone, row.headline or DEV, scores, row)
        by_width = board.by_width[index] if board.by_width else {}
        ours.append(replace(entry, dev_set=shown_dev_set(row), mark=mark, by_width=by_width))

    def lowest_last(entry: Entry) -> tuple[bool, float]:
        score = entry.scores.get(board.headline)
        return entry.standing[1], -score.value if score else inf

    def by_year(printed: PublishedRow) -> tuple[bool, int, float]:
        return bool(printed.apart), printed.year or 0, -printed.scores.get(board.headline, -inf)

    theirs = [
        Entry(
            printed.shown_system,
            printed.backbone,
            board.headline,
            {
                column: ShownScore(value, published_cell(column, value, printed.std.get(column)))
                for column, value in printed.scores.items()
            },
            published=printed,
        )
        for printed in sorted(board.published, key=by_year)
        if is_on_tests(printed, board.columns)
    ]
    marked = [replace(entry, mark=f"{PUBLISHED}{n}") for n, entry in enumerate(theirs, start=1)]
    if board.sorted_by == board.headline:
        return sorted([*ours, *marked], key=lowest_last)
    return [*ours, *marked]


def _mark_significant_columns(against: Comparison) -> dict[str, str]:
    """Mark the columns on which A is significantly better than B."""
    tested = [(task, task.p_holm) for task in against.tasks]
    tested += [(against.average, against.average.p)] if against.average else []
    single = 1 in (against.n_a, against.n_b)
    mark = join_marks(ABOVE, OVER_EXAMPLES if single else "")
    return {t.task: mark for t, p in tested if t.effect > 0 and p is not None and p < ALPHA}


def is_on_tests(row: PublishedRow, family: BoardFamily) -> bool:
    """Whether a published row has test scores of these tasks."""
    return row.split == "test" and not row.scores.keys().isdisjoint(family.columns)


def score_column(name: str, *, title: str = "") -> EntryColumn:
    """Make a column of scores; the best and second best are emphasised."""

    def value(entry: Entry) -> float | None:
        return entry.scores[name].value if name in entry.scores else None

    return Column(
        name,
        lambda entry: entry.scores.get(name),
        lambda score: score.cell,
        title=title,
        align="right",
        compared=value,
        sort=name,
    )


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

CHOSEN_MEANS = "The value that chose this row counts in its mean, so the mean is too high"
LEGEND = {
    STARRED: "Starred: the configuration, or one of its trials.",
    CHOSEN: f"{CHOSEN_MEANS}. Two further seeds give an honest estimate.",
    OPENED: "Chosen after such test sets had been opened for its method and backbone.",
    OTHER_CODE: "Newer trials of its method, backbone and dev sets ran other code.",
    TRAINING_MARKS[TEACHER_SAW_PAIRS]: "According to its authors, one of its teachers learned "
    "from pairs of sentences.",
    TRAINING_MARKS[SAW_TESTS]: "Its corpus, its teachers' corpora or its own dev files contain "
    "sentences of its test sets.",
    OVER_EXAMPLES: OVER_EXAMPLES_MEANS,
    EXTRAPOLATED: EXTRAPOLATED_MEANS,
}
IN_RANKINGS = {
    CHOSEN: f"{CHOSEN_MEANS}, and its interval covers less than 95 %. Two further seeds give an "
    "honest estimate."
}
"""What marks mean beside intervals."""


def board_tables(board: Board, names: Collection[str] = TABLES) -> list[Table]:
    """Make the tables of these names, of `TABLES`.

    Rows that are ranked by different columns are in separate tables, and so are scores on built-in
    data; published rows appear only beside scores on real data.
    """
    listed, tables = entries(board), list[Table]()
    if RANKING in names:
        for headline, builtin, group in _group_by_ranking(board, listed):
            if any(entry.row for entry in group):  # published rows have only their scores
                ranked = [entry for entry in group if entry.row or headline in entry.scores]
                title = f"Ranking {_name_order(board, headline, ranked)}"
                others = _list_scored_columns(board, ranked) if board.family == OWN else []
                columns = ranking_columns(headline, ranked, others)
                tables.append(_make_entry_table(board, title, columns, ranked, builtin=builtin))
    if SCORES in names:
        tables += _make_score_tables(board, listed)
    if WIDTHS in names and (group := [entry for entry in listed if entry.by_width]):
        title = "Dev scores of the first coordinates alone, Spearman x 100"
        tables.append(_make_entry_table(board, title, list(_make_width_columns(group)), group))
    for name, (title, shown) in DETAILS.items():
        group = [entry for entry in listed if (entry.published if name == SOURCES else entry.row)]
        if name == "costs":
            group = [entry for entry in group if entry.row and entry.row.costs]
        if group and name in names:
            tables.append(_make_entry_table(board, title, shown_columns(shown), group))
    return tables


def wide_board_tables(board: Board) -> list[Table]:
    """Make a table with all columns for each group of rows that are ranked by one column."""
    listed, tables = entries(board), list[Table]()
    for headline, builtin, group in _group_by_ranking(board, listed):
        others = [name for name in _list_scored_columns(board, group) if name != headline]
        columns = [*map(score_column, others), *shown_columns(WIDE)]
        columns = [*ranking_columns(headline, group), *columns]
        title = f"Leaderboard {_name_order(board, headline, group)}"
        tables.append(_make_entry_table(board, title, columns, group, builtin=builtin))
    left = [entry.on(builtin=not entry.ranked_on_builtin) for entry in listed]
    return [*tables, *_make_score_tables(board, left)]


def _make_width_columns(group: Sequence[Entry]) -> Iterator[EntryColumn]:
    """Make a column for each dev set and width, of the full vectors first."""

    def score(task: str, width: int, entry: Entry) -> str:
        return percent(entry.by_width.get(task, {}).get(width))

    for task in dict.fromkeys(task for entry in group for task in entry.by_width):
        widths = {width for entry in group for width in entry.by_width.get(task, {})}
        for width in sorted(widths, reverse=True):
            yield Column(f"{task} {width}", partial(score, task, width), align="right")


def _make_score_tables(board: Board, listed: Sequence[Entry]) -> Iterator[Table]:
    for block, scored, builtin in score_blocks(board, listed):
        title = f"Test scores, {' to '.join(dict.fromkeys((block[0], block[-1])))}"
        yield _make_entry_table(
            board, title, list(map(score_column, block)), scored, builtin=builtin
        )


def _name_order(board: Board, headline: str, group: Sequence[Entry]) -> str:
    """Name the column that ranks these entries, and the one that sorts them, if it is another."""
    by, sorted_by = _name_ranking(headline, group), board.sorted_by or headline
    is_ranked = sorted_by == headline or not any(entry.row for entry in group)
    return f"by {by}" if is_ranked else f"on {by}, sorted by {sorted_by}"


def board_document(board: Board, names: Collection[str] = (), *, wide: bool = False) -> Document:
    """Make the document of a leaderboard, with the tables of these names or a wide one.

    By default, Markdown and LaTeX have the form that papers print, and other formats the ranking;
    published rows have their scores and sources, too.
    """
    rows: list[AnyRow] = [*board.rows, *board.published]
    chosen = names or (RANKING, *((SCORES, SOURCES) if board.published else ()))
    there = [*DETAILS][: -1 if not board.published else None]
    others = ", ".join(name for name in (RANKING, SCORES, *there) if name not in chosen)
    hint = f"More: --show with {others} or all; --wide has all columns in one table."
    return Document(
        lambda: wide_board_tables(board) if wide else board_tables(board, chosen),
        lambda: to_csv(data_columns(board), rows),
        lambda: [
            *(to_record(OUR_RECORD, row) for row in board.rows),
            *(to_record(PAPER_RECORD, row) for row in board.published),
        ],
        None if names or wide else lambda: paper_board(board),
        hint="" if names or wide or not board.rows else hint,
    )


def score_blocks(
    board: Board, listed: Sequence[Entry]
) -> Iterator[tuple[list[str], list[Entry], bool]]:
    """Split the scores into blocks: an average with its tasks, and the entries that have any of
    them.

    The third value says whether the scores are on built-in data.
    """
    for builtin in (False, True):
        group = [entry.on(builtin=builtin) for entry in listed]
        blocks: list[list[str]] = [[]]
        for name in _list_scored_columns(board, group):
            blocks[-1].append(name)
            if name in board.columns.averages:
                blocks.append([])
        for block in filter(None, blocks):
            scored = [entry for entry in group if not entry.scores.keys().isdisjoint(block)]
            yield block, scored, builtin


def _group_by_ranking(
    board: Board, listed: Sequence[Entry]
) -> Iterator[tuple[str, bool, list[Entry]]]:
    """Group the entries that belong in one table, with the column that ranks them.

    If no entry of the group has a headline score, that column is the first test score of any, else
    dev; each dev set then has a table of its own.
    """
    groups = group_by(listed, lambda entry: (entry.headline, entry.ranked_on_builtin))
    for (headline, builtin), group in groups.items():
        kept = [entry.on(builtin=builtin) for entry in group]
        scored = _list_scored_columns(board, kept)
        if scored:
            yield headline if headline in scored else scored[0], builtin, kept
            continue
        of_sets = group_by(kept, lambda entry: entry.dev_set)
        yield from ((DEV, builtin, of_set) for of_set in of_sets.values())


def _list_scored_columns(board: Board, listed: Sequence[Entry]) -> list[str]:
    """List the columns of the shown tasks in which an entry has a score."""
    columns = board.columns.columns
    return [name for name in columns if any(name in entry.scores for entry in listed)]


def _make_entry_table(
    board: Board,
    title: str,
    columns: Sequence[EntryColumn],
    listed: Sequence[Entry],
    *,
    builtin: bool | None = None,
) -> Table:
    """Make a table of entries; columns with several evaluation identities are not compared.

    `builtin` says whether scores are on built-in data; None for a table without scores.
    """
    keys = key_columns(listed)
    names = {column.name for column in keys}
    mixed = mixed_identities(columns, listed)
    shown = [
        replace(column, compared=None) if column.name in mixed else column
        for column in columns
        if column.name not in names
    ]
    for at, column in enumerate(shown):
        if column.name == "searched":
            shown.insert(at + 1, _make_differing_column(listed))
            break
    ours = [entry for entry in listed if entry.row]
    below = all(entry.published for entry in listed[len(ours) :])
    by = columns[0].name if any(column.name == "rank" for column in shown) else None
    hint = "compare only rows with the same one (JSON shows it)."
    table = to_table(
        [*keys, *shown],
        group_by(listed, lambda entry: entry.standing if below else entry.standing[1]).values(),
        title=title + ("" if builtin is None else ", x 100" + ", on built-in data" * builtin),
        notes=[
            *_note_rows(board, listed, by),
            *(f"{name}: {n} evaluation identities; {hint}" for name, n in mixed.items()),
        ],
        legend=LEGEND | (IN_RANKINGS if by else {}) | above_means(board),
        apart=lambda entry: entry.standing,
    )
    if any(head.name == "saw" for head in table.heads):
        saw = "saw: test sentences in its corpus, its teachers' corpora and its own dev files."
        table = replace(table, notes=(*table.notes, saw))
    return table


def _make_differing_column(listed: Sequence[Entry]) -> EntryColumn:
    """Make a column of the hyperparameters that a row has not searched, but that other rows of its
    method have with other values.
    """
    known = defaultdict[tuple[str, str], set[str]](set)
    for row in (entry.row for entry in listed if entry.row):
        for name, value in row.configuration.values.items():
            known[row.method, name].add(repr(value))

    def format_differing(entry: Entry) -> str | None:
        if (row := entry.row) is None:
            return None
        values, searched = row.configuration.values, row.configuration.searched
        names = [name for name in values if name not in searched]
        return short_settings({n: values[n] for n in names if len(known[row.method, n]) > 1})

    return Column("also_differs", format_differing)


def mixed_identities(columns: Sequence[EntryColumn], listed: Sequence[Entry]) -> dict[str, int]:
    """Count the evaluation identities of each score column that has several."""
    counts = {}
    for name in (column.name for column in columns if column.compared):
        scores = [entry.scores[name].estimate for entry in listed if name in entry.scores]
        ids = {score.identity for score in scores if score is not None}
        if len(ids) > 1:
            counts[name] = len(ids)
    return counts


def above_means(board: Board) -> dict[str, str]:
    """Explain the mark of significance, if rows are compared with a reference row."""
    if not board.against:
        return {}
    reference = next(iter(board.against.values())).b  # the same for all rows
    return {ABOVE: f"Above {reference} with p < {ALPHA}, after Holm's correction over the tasks."}


def _note_rows(board: Board, listed: Sequence[Entry], headline: str | None) -> Iterator[str]:
    """Note what kinds of rows there are and, if they are ranked by a column, what limits that."""
    rows = [entry.row for entry in listed if entry.row]
    if len(rows) < len(listed):
        yield f"{PUBLISHED} Published, not ours; the number leads to its source."
    encoders = [row.released for row in rows if row.released]
    if any(entry.standing[1] for entry in listed) or any(encoder.apart for encoder in encoders):
        yield (
            "(ensemble), (supervised), (llm), (multimodal), (transductive): of several encoders, "
            "or trained on labelled pairs, on what a language model wrote, on images or sound, or "
            "on sentences of test sets. Published rows with these are not ranked with the others."
        )
    if encoders:
        yield (
            "(released): its authors' encoder, scored here and not trained; its backbone is the "
            "one that it started from."
        )
    if any(TRANSDUCTIVE in row.corpus for row in rows):
        yield (
            f"{TRANSDUCTIVE.strip()}: trained on the texts of test sets, without gold scores; "
            "its scores are not comparable with others."
        )
    if headline is None:
        return
    if names := dict.fromkeys(
        row.shown_method for row in rows for s in row.scores.values() if s.source == CLAIMED
    ):
        yield f"Claimed, from files of results of another revision: scores of {', '.join(names)}."
    yield from _note_choices(rows)
    if any(row.gap for row in rows):
        yield (
            "paper: ours minus the published number, and whether the published one lies inside "
            "our interval."
        )
    yield from _note_ties(rows)
    if board.family == OWN and len(board.columns.columns) > 1:
        yield "Each own test set has a column; sort by another one to rank by it."
    ranked = [row for row in rows if (row.headline or DEV) == headline]
    scored = [(row, score) for row in ranked if (score := row.ranked_score) is not None]
    alike = Counter(
        score.identity
        for row in board.rows
        if (row.headline or DEV) == headline and (score := row.ranked_score) is not None
    )
    alone = [alike[s.identity] == 1 for r, s in scored if r.rank is not None and r.rank.among == 1]
    counted = {
        "with a single seed and no stored scores of its pairs": sum(
            r.rank is None and s.n == 1 for r, s in scored
        ),
        "comparable with these alone": alone.count(False),
        "scored in a way that no other row was": alone.count(True),
        "without this score": len(ranked) - len(scored),
    }
    why = [f"{n} {reason}" for reason, n in counted.items() if n]
    if why and len(ranked) > 1:  # a board of one row needs no note
        yield f"Not ranked: {', '.join(why)}."
    by_pooler: dict[str, dict[str, None]] = {}
    for row in rows:
        if pooler := row.configuration.values.get("pooler"):
            by_pooler.setdefault(pooler, {})[row.shown_method] = None
    if len(by_pooler) > 1:
        poolers = "; ".join(f"{pooler}: {', '.join(of)}" for pooler, of in by_pooler.items())
        yield f"The rows use different poolers ({poolers})."
    yield from describe_clean_change(rows, board.headline)
    lacking = sum(board.headline not in row.scores for row in rows)
    if is_clean(board.headline) and lacking:
        yield (
            f"{lacking} of {len(rows)} rows have no clean scores; cse-evaluate TRIAL --tasks sts "
            "computes those of a trial."
        )


def _note_choices(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Name the numbers that each row is the best of; that of a single one needs no note."""
    by_kind = group_by(
        (row for row in rows if row.best_of > 1), lambda row: row.dev_score.counts_choice
    )
    for counts_choice, some in by_kind.items():
        named = ", ".join(f"{row.shown_method} (best of {row.best_of})" for row in some)
        if counts_choice:
            yield f"Chosen by values that count here: {named}."
        else:
            most = max(row.best_of for row in some)
            yield (
                f"Chosen on dev by the mean over further seeds: {named}. If {most} configurations "
                "were equal, the mean of the best would be "
                f"{expected_maximum(most):.1f} standard errors too high on dev."
            )
    if untested := [r for r in rows if r.counts_choice and not r.dev_score.counts_choice]:
        names = ", ".join(dict.fromkeys(row.shown_method for row in untested))
        yield (
            f"The further seeds of {names} lack test scores, so the seed that chose it counts on "
            "test; cse-evaluate scores the others."
        )


def _note_ties(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Name the rows that may each be the best, as seeds and pairs leave their order open."""
    first = [row for row in rows if row.rank and row.rank.best == 1 < row.rank.worst]
    for tied in group_by(
        first, lambda row: row.ranked_score and row.ranked_score.identity
    ).values():
        names = dict.fromkeys(row.shown_method for row in tied)
        named = ", ".join(names) if len(names) == len(tied) < 5 else f"{len(tied)} rows"
        if len(tied) > 1:
            yield f"Tied for first: {named}. With other seeds, any of them may be the best."


def shown_columns(names: Sequence[str]) -> list[EntryColumn]:
    """Make the columns of these names for people."""

    def show(column: Column[Any]) -> EntryColumn:
        return Column(
            column.name,
            lambda entry: column.read_shown(entry.row or entry.published),
            column.format,
            column.head.name,
            column.align,
            sort=column.sort,
        )

    return [show(board_column(name)) for name in names]


def key_columns(listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows."""
    ours = [entry for entry in listed if entry.row]

    def name_method(entry: Entry) -> Cell:
        star = STARRED if entry.row and entry.row.starred else ""  # not in the papers' form
        return Cell(entry.method, mark=join_marks(star, entry.mark))

    def count_names(columns: Sequence[EntryColumn]) -> int:
        return len({tuple(column.cell(entry).text for column in columns) for entry in ours})

    dev_set: EntryColumn = Column("dev_search", "dev_set", title="dev set", sort="dev_set")
    method = Column("method", name_method, sort="method")
    columns = [method, *shown_columns(["backbone", "year"])]
    if count_names([dev_set]) > 1:
        columns.append(dev_set)
    for column in shown_columns(["configuration", "evaluation"]):
        if count_names([*columns, column]) > count_names(columns):
            columns.append(column)
    return columns


def _name_ranking(headline: str, listed: Sequence[Entry]) -> str:
    """Name the column that ranks these entries; dev with the set, which they share."""
    sets = {entry.dev_set for entry in listed if entry.dev_set}
    return " ".join((DEV, *sets)) if headline == DEV else headline


def ranking_columns(
    headline: str, listed: Sequence[Entry], others: Sequence[str] = ()
) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, other scores, and dev.

    Each dev set has a column of its own, because dev scores of different sets do not compare.
    """

    def read(entry: Entry) -> Estimate | None:
        return entry.scores[headline].estimate if headline in entry.scores else None

    def format_interval(entry: Entry) -> Cell | None:
        row, score = entry.row, read(entry)
        if row is None or score is None or score.interval is None:
            return None
        cell = interval_cell(score.interval)
        return replace(cell, mark=join_marks(cell.mark, CHOSEN * row.counts_choice_in(score)))

    def make_dev_column(dev_set: str) -> EntryColumn:
        return Column(
            f"{DEV} {dev_set}",
            lambda entry: entry.row.dev_score if entry.row and entry.dev_set == dev_set else None,
            score_cell,
            align="right",
            sort=DEV,
        )

    def count_seeds(entry: Entry) -> str | None:
        """Count the seeds with a headline score, as `2 of 3` if others have none."""
        if (row := entry.row) is None:
            return None
        score = read(entry)
        return f"{score.n} of {row.n}" if score and score.n != row.n else str(row.n)

    sets = dict.fromkeys(entry.dev_set for entry in listed if entry.dev_set)
    dev = shown_columns(["dev_untrained"])
    if headline != DEV:
        dev = list(map(make_dev_column, sets))
    return [
        score_column(headline, title=_name_ranking(headline, listed) if headline == DEV else ""),
        Column("95 % interval", format_interval, align="right"),
        *shown_columns(["rank"]),
        Column("best of n", read, lambda score: percent(score.best), align="right", sort="best"),
        Column("n", count_seeds, align="right", sort="n"),
        *shown_columns(["chosen_by"] * any(e.row and e.row.chosen_by for e in listed)),
        *(score_column(name) for name in others if name != headline),
        *dev,
        *shown_columns(["gap"]),
    ]


_AVERAGES = {name for family in BOARD_FAMILIES.values() for name in family.averages}

_MEASURES = {
    **{"sts": "Spearman", "clean": "Spearman on clean rows"},
    **{"transfer": "accuracy", "long": "accuracy"},
}
"""The measures of families with one for all tasks."""


def paper_board(board: Board) -> list[Table]:
    """Make a table for each average, with its tasks in the papers' order, grouped by backbone.

    Scores on built-in data are in separate tables. If no row has test scores, the ranking on dev is
    returned.
    """
    blocks = score_blocks(board, entries(board))
    tables = [
        _make_paper_table(board, block, scored, builtin=builtin)
        for block, scored, builtin in blocks
    ]
    return tables or board_tables(board, [RANKING])[:1]


def _make_paper_table(
    board: Board, block: Sequence[str], scored: Sequence[Entry], *, builtin: bool
) -> Table:
    one_backbone = len({entry.backbone for entry in scored}) == 1

    def name_entry(entry: Entry) -> str:
        """Name a method as papers do: SimCSE, or SimCSE-BERT-base beside other backbones."""
        method = printed_method(entry.method)
        return method if one_backbone else f"{method}-{backbone_name(entry.backbone)}"

    names = [name_entry(entry) for entry in scored if entry.row]
    repeated = len(names) > len(set(names))
    printed = Counter((name_entry(e), e.backbone) for e in scored if e.published)
    # Rows of the same tables share a mark.
    sources = dict.fromkeys(entry.published.sources for entry in scored if entry.published)
    marks = {source: f"{PUBLISHED}{n}" for n, source in enumerate(sources, start=1)}

    def named(entry: Entry) -> Cell:
        name, row = name_entry(entry), entry.published
        if row is None:
            hash_ = entry.row.configuration.hash if entry.row else ""
            suffix = f" ({short_digits(hash_)})" if repeated else ""
            return Cell(name + suffix, mark=entry.mark)
        is_variant = printed[name, row.backbone] > 1 and row.label
        return Cell(f"{name} ({row.label})" if is_variant else name, mark=marks[row.sources])

    columns = [
        score_column(name, title="Avg." if name in _AVERAGES else task_name(task_of(name)))
        for name in block
    ]
    mixed = mixed_identities(columns, scored)
    on = f", {backbone_name(scored[0].backbone)}" if one_backbone else ""
    metric = block[0].rpartition("_")[2]
    measure = _MEASURES.get(board.family, "main score")
    other_kinds = [name for name in block if ":" in name]  # the others are correlations of pairs
    if board.family == OWN and len(other_kinds) < len(block):
        listed_kinds = f", main score of {', '.join(other_kinds)}," * bool(other_kinds)
        measure = f"Spearman{listed_kinds}"
    measure = metric.upper() if metric in RANKING_METRICS else measure
    rows = [entry.row for entry in scored if entry.row]
    counts = sorted({row.n for row in rows})
    n = "-".join(dict.fromkeys(map(str, (*counts[:1], *counts[-1:]))))
    listed = (f"{mark} {', '.join(sources)}" for sources, mark in marks.items())
    only = "; only rows with the same one are comparable."
    return to_table(
        [
            Column("method", named, title="Method"),
            *(replace(c, compared=None) if c.name in mixed else c for c in columns),
        ],
        group_by(scored, lambda entry: entry.backbone).values(),
        title=f"{measure} x 100{on}{', built-in data' if builtin else ''}",
        notes=[
            *([f"Ours: mean and standard deviation over seeds, n = {n}."] if counts else ()),
            *([f"Published: {'; '.join(listed)}."] if marks else ()),
            *describe_clean_change(rows, board.headline),
            *(f"{name}: {n} evaluation identities" + only for name, n in mixed.items()),
        ],
        legend=LEGEND | above_means(board),
        compare_groups=True,
        apart=lambda entry: entry.standing,
    )
