"""A paper's table with our rows in it, for people and programs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cse_platform.leaderboard.published.paper_tables import PaperLine, PaperTable
from cse_platform.leaderboard.published.row import MINUTES
from cse_platform.leaderboard.render.board import ShownScore, published_cell, score_column
from cse_platform.leaderboard.render.board_data import estimate_records
from cse_platform.leaderboard.render.cells import score_cell
from cse_platform.leaderboard.row import Estimate
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.render.serialise import to_csv
from cse_platform.render.table import Column, Table, grouped, to_table

PaperCell = tuple[PaperLine, str]
"""A line of the table and the name of a column."""


@dataclass(frozen=True)
class ShownLine:
    """One row of the table for people: a line as it is printed, or ours in its place."""

    backbone: str
    method: str
    scores: Mapping[str, ShownScore]


def paper_layout(table: PaperTable) -> Table:
    """Each line as it is printed, ours below it, and a line between backbones.

    The best and second of a column are those of a backbone, printed ones and ours together.
    """
    lines = [shown for line in table.lines for shown in _shown_lines(line)]
    return to_table(
        [
            Column("backbone", lambda line: line.backbone),
            Column("method", lambda line: line.method),
            *(score_column(name, compared=name != MINUTES) for name in table.columns),
        ],
        grouped(lines, lambda line: line.backbone).values(),
        title=f"{table.paper} {table.table}, x 100",
        notes=table.notes,
        compare_groups=True,
    )


def paper_record(table: PaperTable) -> dict[str, Any]:
    """What JSON has of a paper's table."""
    names = (
        *("backbone", "method", "label", "published", "published_std"),
        *("configuration", "n", "released"),
    )
    lines = [
        {
            **{name: getattr(line, name) for name in names},
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **estimate_records(line.ours, prefix="ours"),
        }
        for line in table.lines
    ]
    return asdict(table) | {"lines": lines}


def paper_csv(table: PaperTable) -> str:
    """A line for each number that is printed or is ours."""

    def of_line(name: str) -> Column[PaperCell]:
        return Column(name, lambda cell: getattr(cell[0], name))

    def ours(name: str, value: Callable[[PaperLine, Estimate], Any]) -> Column[PaperCell]:
        def known(cell: PaperCell) -> Any:
            line, column = cell
            return value(line, line.ours[column]) if column in line.ours else None

        return Column(name, known)

    columns: list[Column[PaperCell]] = [
        Column("paper", lambda _: table.paper),
        Column("table", lambda _: table.table),
        *map(of_line, ("backbone", "method", "label")),
        Column("column", lambda cell: cell[1]),
        Column("published", lambda cell: cell[0].published.get(cell[1])),
        Column("published_std", lambda cell: cell[0].published_std.get(cell[1])),
        ours("configuration", lambda line, _: line.configuration),
        ours("n", lambda _, estimate: estimate.n),
        ours("ours", lambda _, estimate: estimate.mean),
        ours("ours_std", lambda _, estimate: estimate.std),
    ]
    lines = ((line, dict.fromkeys((*line.published, *line.ours))) for line in table.lines)
    return to_csv(columns, [(line, column) for line, shown in lines for column in shown])


def _shown_lines(line: PaperLine) -> Iterator[ShownLine]:
    printed = {
        column: ShownScore(value, published_cell(column, value, line.published_std.get(column)))
        for column, value in line.published.items()
    }
    name = f"{line.method} ({line.label})" if line.label else line.method
    yield ShownLine(line.backbone, name, printed)
    if line.ours:
        ours = {name: ShownScore(one.mean, score_cell(one)) for name, one in line.ours.items()}
        yield ShownLine(line.backbone, _our_name(line), ours)


def _our_name(line: PaperLine) -> str:
    """With its seeds, from the fewest to the most of any column, and its configuration."""
    seeds = [estimate.n for estimate in line.ours.values()]
    n = "-".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
    begins = f"released, not ours ({line.released}, " if line.released else "ours ("
    return f"{begins}n = {n}, {(line.configuration or '')[:HASH_DIGITS]})"
