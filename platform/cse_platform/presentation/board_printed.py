"""A leaderboard in the form that papers print."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from cse_methods.names import backbone_name, method_name, task_name
from cse_platform.leaderboard.records import BOARD_FAMILIES, RANKING_METRICS, task_of
from cse_platform.presentation.board_columns import short_digits
from cse_platform.presentation.board_entries import (
    PUBLISHED,
    Board,
    Entry,
    Group,
    list_entries,
    score_blocks,
    score_column,
)
from cse_platform.presentation.board_notes import (
    count_identities,
    describe_clean_change,
    explain_marks,
)
from cse_platform.presentation.tables import Cell, Column, Table, to_table
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
    blocks = score_blocks(board, list_entries(board))
    return [_make_paper_table(board, block, group) for block, group in blocks]


def _make_paper_table(board: Board, block: Sequence[str], group: Group) -> Table:
    one_backbone = len({entry.backbone for entry in group.listed}) == 1

    def name_entry(entry: Entry) -> str:
        """Name a method as papers do: SimCSE, or SimCSE-BERT-base beside other backbones."""
        method = method_name(entry.method)
        return method if one_backbone else f"{method}-{backbone_name(entry.backbone)}"

    named = dict[Entry, Cell]()
    repeated = len({name_entry(entry) for entry in group.ours}) < len(group.ours)
    for entry in group.ours:
        digits = f" ({short_digits(entry.row.configuration.hash)})" if repeated else ""
        named[entry] = Cell(name_entry(entry) + digits, mark=entry.mark)
    # Rows of the same tables share a mark.
    sources = dict.fromkeys(printed.row.sources for printed in group.published)
    marks = {source: f"{PUBLISHED}{n}" for n, source in enumerate(sources, start=1)}
    times = Counter((name_entry(printed), printed.backbone) for printed in group.published)
    for printed in group.published:
        name, row = name_entry(printed), printed.row
        label = f" ({row.label})" if row.label and times[name, row.backbone] > 1 else ""
        named[printed] = Cell(name + label, mark=marks[row.sources])
    columns = [
        score_column(name, title="Avg." if name in _AVERAGES else task_name(task_of(name)))
        for name in block
    ]
    mixed = count_identities(columns, group)
    on = f", {backbone_name(group.listed[0].backbone)}" if one_backbone else ""
    metric = block[0].rpartition("_")[2]
    measure = _MEASURES.get(board.family, "main score")
    measure = metric.upper() if metric in RANKING_METRICS else measure
    rows = [entry.row for entry in group.ours]
    counts = sorted({row.n for row in rows})
    n = "-".join(dict.fromkeys(map(str, (*counts[:1], *counts[-1:]))))
    listed = (f"{mark} {', '.join(sources)}" for sources, mark in marks.items())
    only = "; only rows with the same one are comparable."
    return to_table(
        [
            Column("method", named.get, title="Method"),
            *(replace(c, compared=None) if c.name in mixed else c for c in columns),
        ],
        group_by(group.listed, lambda entry: entry.backbone).values(),
        title=f"{measure} x 100{on}{', built-in data' if group.builtin else ''}",
        notes=[
            *([f"Ours: mean and standard deviation over seeds, n = {n}."] if counts else ()),
            *([f"Published: {'; '.join(listed)}."] if marks else ()),
            *describe_clean_change(rows, board.headline),
            *(f"{name}: {n} evaluation identities" + only for name, n in mixed.items()),
        ],
        legend=explain_marks(board),
        compare_groups=True,
        apart=lambda entry: entry.standing,
    )
