"""A paper's table with ours in it, for people."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from cse_platform.leaderboard.published.paper_tables import PaperLine, PaperTable
from cse_platform.leaderboard.published.row import MINUTES
from cse_platform.leaderboard.render.board import HASH_SHOWN
from cse_platform.leaderboard.render.grid import Cell, Column, Grid, Row, Rule
from cse_platform.leaderboard.render.numbers import Scores, emphasised, printed, score


def paper_grid(table: PaperTable) -> Grid:
    """Each line as it is printed, ours below it, and a rule between backbones.

    The best and second of a column are those of a backbone, printed ones and ours together.
    """
    lines: list[Row | Rule] = []
    for _, block in groupby(table.lines, lambda line: line.backbone):
        lines += [Rule()] if lines else []
        lines += _block(list(block), table.columns)
    heads = [Column(name.replace("_", " "), "right", "at blanks") for name in table.columns]
    return Grid(
        f"{table.paper} {table.table}, x 100",
        (Column("backbone", folds="names"), Column("method", folds="names"), *heads),
        tuple(lines),
        notes=table.notes,
    ).without_empty_columns()


def _block(lines: Sequence[PaperLine], columns: Sequence[str]) -> Iterator[Row]:
    """The rows of one backbone."""
    named = [pair for line in lines for pair in _pairs(line)]
    ranked = [column for column in columns if column != MINUTES]
    cells = emphasised([scores for _, scores in named], ranked)
    for (name, _), own in zip(named, cells, strict=True):
        scores = (own.get(column, Cell()) for column in columns)
        yield Row((Cell(lines[0].backbone), Cell(name), *scores))


def _pairs(line: PaperLine) -> Iterator[tuple[str, Scores]]:
    """Names and scores: as printed, then ours."""
    printed_name = f"{line.method} ({line.label})" if line.label else line.method
    yield printed_name, printed(line.published, line.published_std)
    if line.ours:
        means = {column: estimate.mean for column, estimate in line.ours.items()}
        shown = {column: score(estimate) for column, estimate in line.ours.items()}
        yield _our_name(line), Scores(means, shown)


def _our_name(line: PaperLine) -> str:
    """With its seeds, from the least to the most of any column, and its configuration."""
    seeds = [estimate.n for estimate in line.ours.values()]
    n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
    return f"ours (n = {n}, {(line.configuration or '')[:HASH_SHOWN]})"
