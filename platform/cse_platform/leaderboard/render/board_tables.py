"""Lays out a leaderboard as tables: for a terminal, and in the form that papers print."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.names import backbone_name, method_name, task_name
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    BUILTIN,
    RANKING_METRICS,
    SAW_TESTS,
    TEACHER_SAW_PAIRS,
    LeaderboardRow,
    task_of,
)
from cse_platform.leaderboard.render.board import (
    ABOVE,
    ALPHA,
    DEV,
    EXTRAPOLATED,
    EXTRAPOLATED_MEANS,
    OPENED,
    OTHER_CODE,
    OVER_PAIRS,
    OVER_PAIRS_MEANS,
    PUBLISHED,
    STARRED,
    TRAINING_MARKS,
    Board,
    Entry,
    describe_clean_change,
    entries,
    estimates,
    identities,
    interval_cell,
    join_marks,
    score_cell,
    score_column,
    short_hash,
    shown_dev_set,
)
from cse_platform.leaderboard.render.columns import BEST, BY_NAME, ORDERS, BoardColumn
from cse_platform.render.formats import percent, signed_percent
from cse_platform.render.table import Cell, Column, Order, Table, group_by, to_table
from cse_platform.tracking.history import COSTS

EntryColumn = Column[Entry]

SHOWN_GROUPS: dict[str, tuple[str, ...]] = {
    "Hyperparameters": ("configuration", "keys", "code", "searched"),
    "Sweeps": ("sweep", "dev_search", "corpus", "seen", "tags", "notes"),
    "Runs": ("trials", "gpu_hours", "wall_seconds", "finished", "machines"),
    "Costs of a trial": tuple(COSTS),
    "Sources of published rows": ("settings", "sources"),
}
"""Names of the columns of the tables below the scores, by title."""
WIDE = (
    *("configuration", "keys", "sweep", "dev_search", "corpus", "seen", "code", "searched"),
    *("trials", "gpu_hours", "wall_seconds", *COSTS, "finished", "machines", "tags", "notes"),
    *("settings", "sources"),
)
"""The same columns for a wide table."""

LEGEND = {
    STARRED: "Starred: the configuration, or one of its trials.",
    OPENED: "Its first trial started after such test sets were opened for its method and backbone.",
    OTHER_CODE: "Newer trials of its method, backbone and dev sets ran by other code.",
    TRAINING_MARKS[TEACHER_SAW_PAIRS]: "A teacher of it learned from pairs of sentences that go "
    "together, as its authors say.",
    TRAINING_MARKS[SAW_TESTS]: "Sentences of its test sets stand in its corpus, its teachers' or "
    "its own dev files: `saw` counts them.",
    OVER_PAIRS: OVER_PAIRS_MEANS,
    EXTRAPOLATED: EXTRAPOLATED_MEANS,
}


def board_tables(board: Board, *, wide: bool) -> list[Table]:
    """Make the tables of a leaderboard.

    Rows that are ranked by different columns are in separate tables, and so are scores on built-in
    data; published rows appear only beside scores on real data. A wide table has all columns for a
    group of rows. Otherwise, there is one table each for the ranking, the scores by task, the
    hyperparameters, the sweeps, the runs, the costs of a trial and the sources.
    """
    return list(_make_wide_tables(board) if wide else _make_short_tables(board))


def _make_wide_tables(board: Board) -> Iterator[Table]:
    listed = entries(board)
    for headline, builtin, group in _group_by_ranking(listed):
        others = [name for name in _list_scored_columns(board, group) if name != headline]
        columns = [
            *ranking_columns(headline, group),
            *map(score_column, others),
            *shown_columns(WIDE),
        ]
        title = (
            f"Leaderboard {_describe_order(board, headline, group)}, x 100{_describe_data(builtin)}"
        )
        yield _make_entry_table(board, title, columns, group)
    yield from _make_score_tables(
        board, [entry.on(builtin=not entry.ranked_on_builtin) for entry in listed]
    )


def _make_short_tables(board: Board) -> Iterator[Table]:
    listed = entries(board)
    for headline, builtin, group in _group_by_ranking(listed):
        if any(entry.row for entry in group):  # published rows have only their scores
            ranked = [entry for entry in group if entry.row or headline in entry.scores]
            title = (
                f"Ranking {_describe_order(board, headline, group)}, x 100{_describe_data(builtin)}"
            )
            yield _make_entry_table(board, title, ranking_columns(headline, ranked), ranked)
    yield from _make_score_tables(board, listed)
    ours = [entry for entry in listed if entry.row]
    costly = [entry for entry in ours if entry.row and entry.row.costs]
    theirs = [entry for entry in listed if entry.published]
    groups = {"Costs of a trial": costly, "Sources of published rows": theirs}
    for title, names in SHOWN_GROUPS.items():
        if group := groups.get(title, ours):
            yield _make_entry_table(board, title, shown_columns(names), group)


def _make_score_tables(board: Board, listed: Sequence[Entry]) -> Iterator[Table]:
    """Make tables of the test scores; each has an average and its tasks."""
    for block, scored, builtin in score_blocks(board, listed):
        span = " to ".join(dict.fromkeys((block[0], block[-1])))
        columns = list(map(score_column, block))
        yield _make_entry_table(
            board, f"Test scores, {span}, x 100{_describe_data(builtin)}", columns, scored
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
        for block in _split_by_average(board, _list_scored_columns(board, group)):
            yield (
                block,
                [entry for entry in group if not entry.scores.keys().isdisjoint(block)],
                builtin,
            )


def _group_by_ranking(listed: Sequence[Entry]) -> Iterator[tuple[str, bool, list[Entry]]]:
    """Group the entries that belong in one table, with the column that ranks them.

    That column is dev if no entry of the group has a headline score.
    """
    groups = group_by(listed, lambda entry: (entry.headline, entry.ranked_on_builtin))
    for (headline, builtin), group in groups.items():
        has_scores = any(headline in entry.scores for entry in group)
        yield (
            headline if has_scores else DEV,
            builtin,
            [entry.on(builtin=builtin) for entry in group],
        )


def _list_scored_columns(board: Board, listed: Sequence[Entry]) -> list[str]:
    """List the columns of the shown tasks in which an entry has a score."""
    columns = board.columns.columns
    return [name for name in columns if any(name in entry.scores for entry in listed)]


def _split_by_average(board: Board, columns: Sequence[str]) -> Iterator[list[str]]:
    """Split columns into blocks that each end with an average."""
    block: list[str] = []
    for name in columns:
        block.append(name)
        if name in board.columns.averages:
            yield block
            block = []
    if block:
        yield block


def _describe_order(board: Board, headline: str, group: Sequence[Entry]) -> str:
    """Name the column that ranks the rows, and the one that sorts ours if it differs."""
    if board.sorted_by == headline or not any(entry.row for entry in group):
        return f"by {headline}"
    return f"on {headline}, in order of {board.sorted_by}"


def _describe_data(builtin: bool) -> str:
    return ", on built-in data" if builtin else ""


def _make_entry_table(
    board: Board, title: str, columns: Sequence[EntryColumn], listed: Sequence[Entry]
) -> Table:
    """Make a table of entries; columns with several evaluation identities are not compared."""
    keys = key_columns(listed)
    names = {column.name for column in keys}
    mixed = mixed_identities(columns, listed)
    shown = [
        replace(column, compared=None) if column.name in mixed else column
        for column in columns
        if column.name not in names
    ]
    ours = [entry for entry in listed if entry.row]
    apart = all(entry.published for entry in listed[len(ours) :])
    ranks = any(column.name == "rank" for column in shown)
    return to_table(
        [*keys, *shown],
        [ours, listed[len(ours) :]] if apart else [listed],
        title=title,
        notes=[
            *_note_published_rows(listed, ranks=ranks),
            *(_note_averages([e.row for e in listed if e.row], board.headline) if ranks else ()),
            *(_note_unranked([entry.row for entry in listed if entry.row]) if ranks else ()),
            *(_note_poolers([entry.row for entry in listed if entry.row]) if ranks else ()),
            *(_note_clean_change(board, listed) if ranks else ()),
            *mixed.values(),
        ],
        legend=LEGEND | above_means(board),
        apart=is_published,
    )


def is_published(entry: Entry) -> bool:
    """Whether an entry is a paper's; the best of ours and of theirs are emphasised separately."""
    return entry.published is not None


def mixed_identities(columns: Sequence[EntryColumn], listed: Sequence[Entry]) -> dict[str, str]:
    """Find score columns whose scores are not comparable. Returns a note for each."""
    several = "evaluation identities; compare rows of one (--format json has them)."
    return {
        column.name: f"{column.name}: {len(ids)} {several}"
        for column in columns
        if column.compared and len(ids := identities(listed, column.name)) > 1
    }


def above_means(board: Board) -> dict[str, str]:
    """Explain the mark of significance, if rows are compared with a reference row."""
    if not board.against:
        return {}
    reference = next(iter(board.against.values())).b  # the same for all rows
    return {ABOVE: f"Above {reference} with p < {ALPHA}, after Holm's correction over the tasks."}


def _note_published_rows(listed: Sequence[Entry], *, ranks: bool) -> Iterator[str]:
    if any(entry.published for entry in listed):
        yield f"{PUBLISHED} Published, not ours; the number leads to its source."
    if any(entry.row and entry.row.released for entry in listed):
        yield (
            "(released): its authors' encoder, scored here and not trained; its backbone is the "
            "one that it was trained from."
        )
    if any(entry.row and TRANSDUCTIVE in entry.row.corpus for entry in listed):
        yield (
            f"{TRANSDUCTIVE.strip()}: trained on the texts of test sets, without gold scores; its "
            "scores stand beside no others."
        )
    if ranks and any(entry.row and entry.row.gap for entry in listed):
        yield "paper: ours minus the published number, which lies inside our interval or outside."


def _note_clean_change(board: Board, listed: Sequence[Entry]) -> Iterator[str]:
    yield from describe_clean_change([e.row for e in listed if e.row], board.headline)


def _note_averages(rows: Sequence[LeaderboardRow], headline: str) -> Iterator[str]:
    """Compare each average of seeds with the mean score of the same seeds."""
    for row in rows:
        if row.averages is None:
            continue
        gains = []
        if row.averages.dev_mean is not None:
            gains.append(f"dev {signed_percent(row.dev_score.mean - row.averages.dev_mean)}")
        if (mean := _find_mean_of_seeds(row, row.averages.keys, rows, headline)) is not None:
            gains.append(f"{headline} {signed_percent(row.scores[headline].mean - mean)}")
        against = f"; {', '.join(gains)} against the mean of their scores" if gains else ""
        yield f"{row.shown_method} on {row.shown_backbone}: one model, weights averaged{against}."


def _find_mean_of_seeds(
    average: LeaderboardRow, keys: Sequence[str], rows: Sequence[LeaderboardRow], column: str
) -> float | None:
    """Find the mean score of these trials; None if one of them has no comparable score."""
    score = average.scores.get(column)
    for row in rows:
        seeds = [seed for seed, key in row.keys.items() if key in keys]
        other = row.scores.get(column)
        if score and other and len(seeds) == len(keys) and score.identity == other.identity:
            values = [other.values[seed] for seed in seeds if seed in other.values]
            return fmean(values) if len(values) == len(keys) else None
    return None


def _note_poolers(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Note which rows use which pooler, if they differ, as this may explain differences."""
    by_pooler: dict[str, dict[str, None]] = {}
    for row in rows:
        if pooler := row.configuration.values.get("pooler"):
            by_pooler.setdefault(pooler, {})[row.shown_method] = None
    if len(by_pooler) > 1:
        listed = "; ".join(f"{pooler}: {', '.join(of)}" for pooler, of in by_pooler.items())
        yield f"Poolers differ ({listed}), and with them how texts become vectors."


def _note_unranked(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Note how many rows have no rank, and why; a board of one row needs no note."""
    single = sum(
        row.rank is None and row.ranked_score is not None and row.ranked_score.n == 1
        for row in rows
    )
    alone = sum(row.rank is not None and row.rank.among == 1 for row in rows)
    without = sum(row.ranked_score is None for row in rows)
    counted = {
        "of one seed without stored cosines": single,
        "with no other ranked row of its evaluation identity": alone,
        "without this score": without,
    }
    why = [f"{n} {reason}" for reason, n in counted.items() if n]
    if why and len(rows) > 1:
        yield f"Not ranked: {', '.join(why)}."


def shown_columns(names: Sequence[str]) -> list[EntryColumn]:
    """Make the columns of these names for people."""
    return [_show_column(BY_NAME[name]) for name in names]


def _show_column(column: BoardColumn) -> EntryColumn:
    read = column.shown or column.value
    return Column(
        column.name,
        lambda entry: read(entry.content),
        column.format,
        column.head.name,
        column.align,
        order=column.order,
    )


def key_columns(listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of method and backbone, and others needed to distinguish our rows."""
    ours = [entry for entry in listed if entry.row]
    method = Column("method", _format_method, order=ORDERS["method"])
    dev_set = replace(
        BY_NAME["dev_search"],
        shown=lambda row: shown_dev_set(row) if isinstance(row, LeaderboardRow) else None,
    )
    columns = {
        column.name: column
        for column in (
            method,
            *shown_columns(["backbone"]),
            _show_column(dev_set),
            *shown_columns(["configuration", "evaluation"]),
        )
    }

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(columns[name].cell(entry).text for name in names) for entry in ours})

    names = ["method", "backbone"]
    if distinct(["dev_search"]) > 1:
        names.append("dev_search")
    for name in ("configuration", "evaluation"):
        if distinct(names) < distinct([*names, name]):
            names.append(name)
    return [columns[name] for name in names]


def _format_method(entry: Entry) -> Cell:
    row = entry.published
    star = STARRED if entry.row and entry.row.starred else ""  # not in tables in the papers' form
    name = row.system if row else entry.row.shown_method if entry.row else ""
    return Cell(name, mark=join_marks(star, entry.mark))


def ranking_columns(headline: str, listed: Sequence[Entry]) -> list[EntryColumn]:
    """Make the columns of the headline's score, its interval, its rank, and dev."""
    rows = [entry.row for entry in listed if entry.row]
    if headline == DEV:
        dev = shown_columns(["dev_untrained"])
    else:
        dev = [_make_dev_column(rows, builtin=builtin) for builtin in (False, True)]
    return [
        score_column(headline, title=_format_dev_title(rows) if headline == DEV else ""),
        _make_headline_column("95 % interval", headline, "interval", interval_cell),
        *shown_columns(["rank"]),
        _make_headline_column("best of n", headline, "best", percent, order=BEST),
        Column(
            "n",
            lambda entry: _format_seed_count(entry.row, headline) if entry.row else None,
            align="right",
            order=ORDERS["n"],
        ),
        *dev,
        *shown_columns(["gap"]),
    ]


def _make_headline_column(
    name: str,
    headline: str,
    part: str,
    format: Callable[[Any], Cell | str],
    *,
    order: Order[LeaderboardRow] | None = None,
) -> EntryColumn:
    """Make a column of a part of the headline's estimate."""

    def read(entry: Entry) -> Any:
        return getattr(estimates(entry.row).get(headline), part, None) if entry.row else None

    return Column(name, read, format, name, "right", order=order)


def _make_dev_column(rows: Sequence[LeaderboardRow], *, builtin: bool) -> EntryColumn:
    """Make a column of dev scores, on built-in dev sets or on the others."""

    def is_there(row: LeaderboardRow) -> bool:
        return (row.dev.source == BUILTIN) is builtin

    return Column(
        _format_dev_title([row for row in rows if is_there(row)]),
        lambda entry: entry.row.dev_score if entry.row and is_there(entry.row) else None,
        score_cell,
        align="right",
        order=ORDERS[DEV],
    )


def _format_dev_title(rows: Sequence[LeaderboardRow]) -> str:
    """Format the title of the dev column, with the dev set or source that all rows share."""
    for known in ({shown_dev_set(row) for row in rows}, {f"({row.dev.source})" for row in rows}):
        if len(known) == 1:
            return f"{DEV} {known.pop()}"
    return DEV


def _format_seed_count(row: LeaderboardRow, headline: str) -> str:
    """Format the number of seeds with a headline score, as `2 of 3` if others have none."""
    estimate = estimates(row).get(headline)
    scored = estimate.n if estimate else row.n
    return str(row.n) if scored == row.n else f"{scored} of {row.n}"


_AVERAGES = {name for family in BOARD_FAMILIES.values() for name in family.averages}
_MEASURES = {
    **{"sts": "Spearman", "clean": "Spearman on clean rows", "own": "Spearman"},
    **{"transfer": "accuracy", "long": "accuracy"},
}


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
    return tables or board_tables(board, wide=False)[:1]


def _make_paper_table(
    board: Board, block: Sequence[str], scored: Sequence[Entry], *, builtin: bool
) -> Table:
    one_backbone = len({_read_backbone(entry) for entry in scored}) == 1
    names = [_format_method_name(entry, one_backbone) for entry in scored if entry.row]
    repeated = len(names) > len(set(names))
    printed = Counter(
        (_format_method_name(column, one_backbone), _read_backbone(column))
        for column in scored
        if column.published
    )
    # Rows of the same tables share a mark.
    sources = dict.fromkeys(entry.published.sources for entry in scored if entry.published)
    marks = {source: f"{PUBLISHED}{n}" for n, source in enumerate(sources, start=1)}

    def named(entry: Entry) -> Cell:
        name, row = _format_method_name(entry, one_backbone), entry.published
        if row is None:
            suffix = f" ({short_hash(entry.row)})" if entry.row and repeated else ""
            return Cell(name + suffix, mark=entry.mark)
        is_variant = printed[name, row.backbone] > 1 and row.label
        return Cell(f"{name} ({row.label})" if is_variant else name, mark=marks[row.sources])

    columns = [score_column(column, title=_format_column_title(column)) for column in block]
    mixed = mixed_identities(columns, scored)
    on = f", {backbone_name(_read_backbone(scored[0]))}" if one_backbone else ""
    return to_table(
        [
            Column("method", named, title="Method"),
            *(replace(c, compared=None) if c.name in mixed else c for c in columns),
        ],
        group_by(scored, _read_backbone).values(),
        title=f"{_name_measure(board, block)} x 100{on}{', built-in data' if builtin else ''}",
        notes=[
            *_note_seeds(scored),
            *_note_averages([entry.row for entry in scored if entry.row], board.headline),
            *_note_sources(marks),
            *_note_clean_change(board, scored),
            *mixed.values(),
        ],
        legend=LEGEND | above_means(board),
        compare_groups=True,
        apart=is_published,
    )


def _name_measure(board: Board, block: Sequence[str]) -> str:
    metric = block[0].rpartition("_")[2]
    return metric.upper() if metric in RANKING_METRICS else _MEASURES[board.family]


def _format_method_name(entry: Entry, one_backbone: bool) -> str:
    """Format a method as papers do: SimCSE, or SimCSE-BERT-base beside other backbones."""
    row = entry.published
    method = method_name(row.system if row else entry.row.shown_method if entry.row else "")
    return method if one_backbone else f"{method}-{backbone_name(_read_backbone(entry))}"


def _read_backbone(entry: Entry) -> str:
    if entry.row:
        return entry.row.shown_backbone
    return entry.published.backbone if entry.published else ""


def _format_column_title(column: str) -> str:
    if column in _AVERAGES:
        return "Avg."
    return task_name(task_of(column))


def _note_seeds(scored: Sequence[Entry]) -> Iterator[str]:
    counts = sorted({entry.row.n for entry in scored if entry.row and not entry.row.averages})
    if counts:
        n = "-".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))
        yield f"Ours: mean and standard deviation over seeds, n = {n}."


def _note_sources(marks: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    if marks:
        listed = (f"{mark} {', '.join(sources)}" for sources, mark in marks.items())
        yield f"Published: {'; '.join(listed)}."
