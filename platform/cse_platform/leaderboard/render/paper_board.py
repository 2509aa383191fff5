"""A leaderboard as papers print it: a name, the tasks, their average, for Markdown and LaTeX."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cse_methods.names import backbone_name, method_name, task_name
from cse_platform.leaderboard.render.board import (
    PUBLISHED,
    Board,
    Entry,
    entries,
    score_column,
    short_hash,
)
from cse_platform.leaderboard.render.board_tables import (
    LEGEND,
    above_means,
    board_tables,
    is_published,
    mixed_identities,
    score_blocks,
)
from cse_platform.leaderboard.row import BOARD_FAMILIES, RANKING_METRICS
from cse_platform.render.table import Cell, Column, Table, grouped, to_table

_AVERAGES = {name for family in BOARD_FAMILIES.values() for name in family.averages}
_MEASURES = {"sts": "Spearman", "transfer": "accuracy", "long": "accuracy"}


def paper_board(board: Board) -> list[Table]:
    """A table for each average, with its tasks in the papers' order; a line between backbones.

    Scores on built-in data are in tables of their own. Where nothing has test scores, the rows are
    ranked on dev.
    """
    blocks = score_blocks(board, entries(board))
    found = [_table(board, block, scored, builtin=builtin) for block, scored, builtin in blocks]
    return found or board_tables(board, wide=False)[:1]


def _table(board: Board, block: Sequence[str], scored: Sequence[Entry], *, builtin: bool) -> Table:
    one_backbone = len({_backbone(entry) for entry in scored}) == 1
    names = [_name(entry, one_backbone) for entry in scored if entry.row]
    repeated = len(names) > len(set(names))
    printed = Counter((_name(one, one_backbone), _backbone(one)) for one in scored if one.published)
    marks = _source_marks(scored)

    def named(entry: Entry) -> Cell:
        name, row = _name(entry, one_backbone), entry.published
        if row is None:
            told = f" ({short_hash(entry.row)})" if entry.row and repeated else ""
            return Cell(name + told, mark=entry.mark)
        is_variant = printed[name, row.backbone] > 1 and row.label
        return Cell(f"{name} ({row.label})" if is_variant else name, mark=marks[row.sources])

    columns = [score_column(column, title=_title(column)) for column in block]
    mixed = mixed_identities(columns, scored)
    on = f", {backbone_name(_backbone(scored[0]))}" if one_backbone else ""
    return to_table(
        [
            Column("method", named, lambda cell: cell, title="Method"),
            *(replace(one, compared=None) if one.name in mixed else one for one in columns),
        ],
        grouped(scored, _backbone).values(),
        title=f"{_measure(board, block)} x 100{on}{', built-in data' if builtin else ''}",
        notes=[*_seeds(scored), *_sources(marks), *mixed.values()],
        legend=LEGEND | above_means(board),
        compare_groups=True,
        apart=is_published,
    )


def _measure(board: Board, block: Sequence[str]) -> str:
    metric = block[0].rpartition("_")[2]
    return metric.upper() if metric in RANKING_METRICS else _MEASURES[board.family]


def _name(entry: Entry, one_backbone: bool) -> str:
    """As papers write it: SimCSE, or SimCSE-BERT-base beside other backbones."""
    row = entry.published
    method = method_name(row.system if row else entry.row.shown_method if entry.row else "")
    return method if one_backbone else f"{method}-{backbone_name(_backbone(entry))}"


def _backbone(entry: Entry) -> str:
    if entry.row:
        return entry.row.shown_backbone
    return entry.published.backbone if entry.published else ""


def _title(column: str) -> str:
    if column in _AVERAGES:
        return "Avg."
    task, _, metric = column.rpartition("_")
    return task_name(task if metric in RANKING_METRICS else column)


def _seeds(scored: Sequence[Entry]) -> Iterator[str]:
    counts = sorted({entry.row.n for entry in scored if entry.row})
    if counts:
        n = "-".join(dict.fromkeys((str(counts[0]), str(counts[-1]))))
        yield f"Ours: mean and standard deviation over seeds, n = {n}."


def _source_marks(scored: Sequence[Entry]) -> dict[tuple[str, ...], str]:
    """A mark for the sources of published rows: rows of one table share it."""
    sources = dict.fromkeys(entry.published.sources for entry in scored if entry.published)
    return {source: f"{PUBLISHED}{n}" for n, source in enumerate(sources, start=1)}


def _sources(marks: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    if marks:
        told = (f"{mark} {', '.join(sources)}" for sources, mark in marks.items())
        yield f"Published: {'; '.join(told)}."
