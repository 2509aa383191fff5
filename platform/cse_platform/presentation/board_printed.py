"""A leaderboard in the form that papers print."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cse_methods.names import backbone_name, method_name, task_name
from cse_platform.leaderboard.families import BOARD_FAMILIES, OWN, RANKING_METRICS, task_of
from cse_platform.presentation.board_columns import short_digits
from cse_platform.presentation.board_entries import (
    PUBLISHED,
    Board,
    Entry,
    Group,
    score_blocks,
    score_column,
)
from cse_platform.presentation.board_notes import (
    MOST_NAMED,
    count_identities,
    describe_clean_change,
    explain_marks,
    note_identities,
)
from cse_platform.presentation.tables import Cell, Column, Table, to_table
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.values import group_by

_AVERAGES = {name for family in BOARD_FAMILIES.values() for name in family.averages}

_MEASURES = {
    **{"sts": "Spearman", "clean": "Spearman on clean rows"},
    **{"transfer": "accuracy", "long": "accuracy"},
}
"""The measures of families with one for all tasks."""


def paper_board(board: Board) -> list[Table]:
    """Make a table for each average, with its tasks in the papers' order, grouped by backbone.

    Scores on built-in data are in separate tables. There is none if no row has test scores.
    """
    blocks = score_blocks(board, board.entries)
    return [_make_paper_table(board, block, group) for block, group in blocks]


def _make_paper_table(board: Board, block: Sequence[str], group: Group) -> Table:
    backbones = group_by(group.listed, lambda entry: entry.backbone)
    # Rows of the same tables share a mark.
    sources = dict.fromkeys(entry.row.sources for entry in group.published)
    marks = {source: f"{PUBLISHED}{n}" for n, source in enumerate(sources, start=1)}
    named = _name_as_papers(group, marks, with_backbone=len(backbones) > 1)
    columns = [
        score_column(name, title="Avg." if name in _AVERAGES else task_name(task_of(name)))
        for name in block
    ]
    mixed = count_identities(columns, group)
    on = f", {backbone_name(*backbones)}" if len(backbones) == 1 else ""
    metric = block[0].rpartition("_")[2]
    measure = _MEASURES.get(board.family, "main score")
    measure = metric.upper() if metric in RANKING_METRICS else measure
    if board.family == OWN:  # a set without a kind is one of pairs
        kinds = group_by(block, lambda name: "main score" if ":" in name else "Spearman")
        measure = ", ".join(f"{kind} on {' and '.join(sets)}" for kind, sets in kinds.items()) + ","
    rows = [entry.row for entry in group.ours]
    listed = (f"{mark} {', '.join(sources)}" for sources, mark in marks.items())
    return to_table(
        [
            Column("method", named.get, title="Method"),
            *(replace(c, compared=None) if c.name in mixed else c for c in columns),
        ],
        backbones.values(),
        title=f"{measure} x 100{on}{', built-in data' if group.builtin else ''}",
        notes=[
            *_note_seeds(block, group),
            *_note_left_out(board),
            *([f"Published: {'; '.join(listed)}."] if marks else ()),
            *describe_clean_change(rows, board.headline),
            *note_identities(columns, mixed),
        ],
        legend=explain_marks(board),
        compare_groups=True,
        apart=lambda entry: entry.standing,
    )


def _note_seeds(block: Sequence[str], group: Group) -> Iterator[str]:
    """Note over how many seeds the printed scores are, and whose they are."""
    printed = [entry.scores[name] for entry in group.ours for name in block if name in entry.scores]
    if counts := {score.n for score in printed if score.n}:
        sources = {entry.row.dev.source for entry in group.ours}
        whose = ["ours"] if sources - UNCHECKED_DATA else []
        whose += sorted(sources & UNCHECKED_DATA)
        n = "-".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
        named = ", ".join(whose).capitalize()
        yield f"{named}: mean and standard deviation over seeds, n = {n}."


def _note_left_out(board: Board) -> Iterator[str]:
    """Name the rows that have a score on dev alone."""
    columns = {*board.columns.columns}
    if left := [row.reference for row in board.rows if columns.isdisjoint(row.scores)]:
        more = f" and {len(left) - MOST_NAMED} more" * (len(left) > MOST_NAMED)
        yield f"Left out for want of such scores: {', '.join(left[:MOST_NAMED])}{more}."


def _name_as_papers(
    group: Group, marks: Mapping[tuple[str, ...], str], *, with_backbone: bool
) -> dict[Entry, Cell]:
    """Name methods as papers do: SimCSE, or SimCSE-BERT-base beside other backbones.

    Imported and recorded rows say so in brackets. Rows of one name have the configuration in
    brackets, and of one configuration the evaluation; published ones have the paper's settings.
    `marks` are those of published rows, by source.
    """
    names, cells = dict[Entry, str](), dict[Entry, Cell]()
    for entry in group.listed:
        backbone = f"-{backbone_name(entry.backbone)}" if with_backbone else ""
        names[entry] = method_name(entry.method) + backbone
    for ours in group.ours:
        if (source := ours.row.dev.source) in UNCHECKED_DATA:
            names[ours] += f" ({source})"
    alike = Counter(names[ours] for ours in group.ours)
    for ours in group.ours:
        if alike[names[ours]] > 1:
            names[ours] += f" ({short_digits(ours.row.configuration.hash)})"
    alike = Counter(names[ours] for ours in group.ours)
    for ours in group.ours:
        score = ours.row.ranked_score
        if alike[names[ours]] > 1 and score is not None:
            names[ours] += f" (evaluation {short_digits(score.identity)})"
        cells[ours] = Cell(names[ours], mark=ours.mark)
    times = Counter((names[printed], printed.backbone) for printed in group.published)
    for printed in group.published:
        name, label = names[printed], printed.row.label
        variant = f" ({label})" if label and times[name, printed.backbone] > 1 else ""
        cells[printed] = Cell(name + variant, mark=marks[printed.row.sources])
    return cells
