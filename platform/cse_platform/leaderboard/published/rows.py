"""Published numbers: rows of the papers' tables, read from CSV files. Scores are fractions."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from cse_methods.settings import Settings
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import PublishedError
from cse_platform.leaderboard.filters import backbones_in
from cse_platform.sweep.problems import (
    Problem,
    ProblemsError,
    did_you_mean,
    dotted_path,
    format_value,
    problems_in,
)
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES, GPU_MEMORY, TRAIN_MINUTES

PublishedSplit = Literal["test", "dev", "train"]

SEEDS, SELECTED_ON, CORPUS = "seeds", "selected_on", "corpus"
CORPUS_OF_COSTS = "wiki1m"
"""The corpus behind published costs, which the papers' tables do not state."""
HARDWARE = {
    "compcse": "an NVIDIA A100 (40 GB)",
    "hicl": "an NVIDIA A40 (48 GB)",
    "rankcse": "an NVIDIA A100 (40 GB)",
}
"""The hardware that the costs of a paper were measured on."""
ABOUT_THE_RUN = frozenset({SEEDS, SELECTED_ON, CORPUS})
"""Settings that are not hyperparameters: the number of seeds behind the number, the dev set that
selected it, and the training corpora joined with `+`.
"""


@dataclass(frozen=True)
class PublishedRow:
    """A row of a paper's table: one system on one backbone."""

    paper: str
    table: str
    backbone: str
    system: str
    """The system, as the paper names it."""
    method: str
    """Our name of the method, if we have it; else the system."""
    settings: dict[str, str]
    """The settings in the words of the paper."""
    configuration: dict[str, Any] | None
    """The values that our configuration must have to match this row: by name, a value or `{"not":
    VALUE}`. It has `backbone` if ours starts from another backbone than the row's. None if nothing
    of ours corresponds.
    """
    split: PublishedSplit
    scores: dict[str, float]
    """The numbers by column: fractions, but those of `COSTS` in their own units."""
    std: dict[str, float]
    """The standard deviations over seeds, by column, where the table prints them."""
    sources: tuple[str, ...]
    """Paper and table, e.g. `rankcse table2`; several if papers repeat the row."""
    unstated: tuple[str, ...] = ()
    """Columns whose metric the paper does not state."""
    rerun: bool = False
    """Whether the paper ran another paper's method itself, instead of citing its numbers."""

    @property
    def own(self) -> bool:
        """Whether the method comes from this paper."""
        return self.paper == self.method

    @property
    def corpus(self) -> str | None:
        """The training corpora, joined with `+`; None if any corpus matches."""
        return self.settings.get(CORPUS, CORPUS_OF_COSTS if self.split == "train" else None)

    @property
    def seeds(self) -> int | None:
        """The number of seeds behind the numbers; None if the table does not say."""
        return int(self.settings[SEEDS]) if SEEDS in self.settings else None

    @property
    def label(self) -> str:
        """The settings, as the paper words them."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


NOTHING = "-"
"""The `configuration` of a row to which nothing of ours corresponds."""
NOT = "not"
BACKBONE = "backbone"
METHOD, RERUN = "method", "rerun"
"""Keys of a `configuration` that describe the row itself, not our hyperparameters."""
NOT_STATED = "not stated"

TASK_METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*STS_TASKS, AVG_STS), ("spearman", "kendall", "ndcg")),
    **dict.fromkeys((*TRANSFER_TASKS, AVG_TRANSFER), ("accuracy",)),
    **dict.fromkeys(LONG_TASKS, ("accuracy", NOT_STATED)),
    **dict.fromkeys((TRAIN_MINUTES, EPOCH_MINUTES), ("minutes",)),
    GPU_MEMORY: ("gib",),
}
"""The metrics of each task; columns of the first one have no suffix."""
ENDINGS = {"kendall": "_kcc", "ndcg": "_ndcg"}


def _parse_number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise ValueError(f"expected a number as the paper prints it, e.g. 80.36, got {text!r}")
    return number


def _parse_settings(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    settings = {name.strip(): value.strip() for name, _, value in parts}
    if not all(name and value for name, value in settings.items()) or len(settings) < len(parts):
        raise ValueError(f"expected NAME=VALUE;NAME=VALUE, each name once, got {text!r}")
    if not settings.get(SEEDS, "1").isdecimal():
        raise ValueError(f"expected a whole number of seeds, got {format_value(settings[SEEDS])}")
    return settings


def _parse_configuration(text: str) -> Any:
    if text == NOTHING:
        return text
    try:
        configuration = json.loads(text)
    except json.JSONDecodeError:
        configuration = None
    if not isinstance(configuration, dict):
        raise ValueError(
            'expected a JSON object such as {"rank_loss": "listnet"}, or - where nothing of ours '
            f"corresponds, got {format_value(text)}"
        )
    if not isinstance(configuration.get(RERUN, True), bool):
        raise ValueError(
            f"expected true or false for {RERUN}, got {format_value(configuration[RERUN])}"
        )
    for name, value in configuration.items():
        if isinstance(value, dict) and value.keys() != {NOT}:
            raise ValueError(
                f'expected a value or {{"not": VALUE}} for {name}, got {format_value(value)}'
            )
    return configuration


Name = Annotated[str, Field(min_length=1)]
Number = Annotated[Decimal, BeforeValidator(_parse_number)]


class Line(Settings):
    """One line of the CSV file: one number of a paper's table."""

    paper: Name
    table: Name
    backbone: Name
    method: Name
    settings: Annotated[dict[str, str], BeforeValidator(_parse_settings)] = Field({})
    task: Name
    split: PublishedSplit
    metric: Name
    value: Number
    std: Annotated[Number, Field(ge=0)] | None = None
    configuration: Annotated[
        dict[str, Any] | Literal["-"] | None, BeforeValidator(_parse_configuration)
    ] = None
    """None: the settings name our hyperparameters and their values."""

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        if problems := [*_find_problems(self)]:
            raise ProblemsError(problems)
        return self

    @property
    def column(self) -> str:
        """The leaderboard column of the number."""
        return self.task + ENDINGS.get(self.metric, "")

    @property
    def wanted(self) -> dict[str, Any] | None:
        """The required values of our configuration, as in `PublishedRow.configuration`."""
        if self.configuration == NOTHING:
            return None
        if isinstance(self.configuration, dict):
            of_the_row = (METHOD, RERUN)
            return {name: v for name, v in self.configuration.items() if name not in of_the_row}
        hyperparameters = self.settings.items()
        return {name: _parse_scalar(v) for name, v in hyperparameters if name not in ABOUT_THE_RUN}

    @property
    def our_method(self) -> str:
        """The required method of our configuration."""
        return str(self._stated_configuration.get(METHOD, self.method))

    @property
    def rerun(self) -> bool:
        """Whether the paper ran another paper's method itself."""
        return self._stated_configuration.get(RERUN) is True

    @property
    def _stated_configuration(self) -> dict[str, Any]:
        return self.configuration if isinstance(self.configuration, dict) else {}

    def as_score(self, number: Decimal) -> float:
        """Convert a percentage to a fraction; costs are not changed."""
        return float(number if self.task in COSTS else number / 100)


def _find_problems(line: Line) -> list[Problem]:
    metrics = TASK_METRICS.get(line.task)
    if metrics is None:
        hint = did_you_mean(line.task, TASK_METRICS)
        known = f"known: {', '.join(TASK_METRICS)}"
        return [Problem(("task",), f"no task {line.task!r}{hint}; {known}")]
    problems = []
    if line.metric not in metrics:
        expected = f"expected {' or '.join(metrics)} for {line.task}, got {line.metric!r}"
        problems.append(Problem(("metric",), expected + did_you_mean(line.metric, metrics)))
    if line.task not in COSTS and abs(line.value) > 100:
        text = f"expected a percentage between -100 and 100, got {line.value}"
        problems.append(Problem(("value",), text))
    return problems


def _parse_scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


COLUMNS = tuple(Line.model_fields)
OPTIONAL = {name for name, cell in Line.model_fields.items() if not cell.is_required()}

Cells = dict[str, str]
Placed = tuple[int, Line]
"""A line, with its number in the file in front."""


def read_rows(file: Path | Traversable) -> list[PublishedRow]:
    """Read the rows of a CSV file, in its order.

    Each line has one number, in percent as papers print it. Lines that differ only in task, metric,
    value and std form one row.

    Raises:
        PublishedError: names every problem of the file, with its line and column.
    """
    lines: list[Placed] = []
    problems: list[Problem] = []
    for line_number, cells in _read_cells(file):
        try:
            lines.append((line_number, Line.model_validate(cells)))
        except ValidationError as error:
            problems += [
                replace(p, place=line_number) for p in problems_in(error, cells, model=Line)
            ]
    problems += [*_find_repeated_cells(lines), *_find_fractions(lines)]
    if problems:
        raise _make_malformed_error(file, problems)
    grouped: dict[str, list[Line]] = {}
    for _, line in lines:
        grouped.setdefault(_make_row_key(line), []).append(line)
    return [_build_row(group) for group in grouped.values()]


def _read_cells(file: Path | Traversable) -> list[tuple[int, Cells]]:
    """Read the cells of each line, with its number; empty optional cells are omitted."""
    reader = csv.reader(StringIO(_read_text(file)), strict=True)
    try:
        listed = [(reader.line_num, [cell.strip() for cell in line]) for line in reader if line]
    except csv.Error as error:
        raise _make_malformed_error(file, [Problem((), str(error), reader.line_num)]) from None
    line_number, head = listed[0] if listed else (1, [])
    problems = [Problem((), text, line_number) for text in _find_head_problems(head)]
    for line_number, line in listed[1:]:
        if len(line) != len(head):
            text = f"expected {len(head)} cells, as the head has, got {len(line)}"
            problems.append(Problem((), text, line_number))
    if problems:
        raise _make_malformed_error(file, problems)
    return [
        (line_number, {k: v for k, v in zip(head, line, strict=True) if v or k not in OPTIONAL})
        for line_number, line in listed[1:]
    ]


def _read_text(file: Path | Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PublishedError(
            f"the published numbers {file} cannot be read: {error.strerror}; name a CSV file"
        ) from None
    except UnicodeDecodeError as error:
        raise _make_malformed_error(
            file, [Problem((), f"byte {error.start} is not UTF-8 text")]
        ) from None


def _find_head_problems(head: Sequence[str]) -> Iterator[str]:
    for name in COLUMNS:
        if name not in head and name not in OPTIONAL:
            yield f"the column {name!r} is missing"
        if head.count(name) > 1:
            yield f"the column {name!r} is there more than once"
    for name in head:
        if name not in COLUMNS:
            yield f"no such column: {name!r}{did_you_mean(name, COLUMNS)}"


def _find_repeated_cells(lines: Sequence[Placed]) -> Iterator[Problem]:
    """Find columns that a row has twice."""
    first: dict[tuple[str, str], int] = {}
    for line_number, line in lines:
        before = first.setdefault((_make_row_key(line), line.column), line_number)
        if before != line_number:
            yield Problem(
                ("task",), f"line {before} has {line.column} of this row already", line_number
            )


def _find_fractions(lines: Sequence[Placed]) -> Iterator[Problem]:
    """Report a file that has fractions where percentages are expected."""
    scores = [(line_number, line.value) for line_number, line in lines if line.task not in COSTS]
    if scores and all(abs(value) <= 1 for _, value in scores):
        line_number, value = scores[0]
        yield Problem(
            ("value",),
            f"expected percent, as papers print it, got {value}, and no value of the file is "
            "above 1; multiply them by 100",
            line_number,
        )


def _make_row_key(line: Line) -> str:
    """Return a key that is equal for the lines of one row."""
    return line.model_dump_json(exclude={"task", "metric", "value", "std"})


def _build_row(lines: Sequence[Line]) -> PublishedRow:
    first = lines[0]
    return PublishedRow(
        paper=first.paper,
        table=first.table,
        backbone=first.backbone,
        system=first.method,
        method=first.our_method,
        settings=first.settings,
        configuration=first.wanted,
        split=first.split,
        scores={line.column: line.as_score(line.value) for line in lines},
        std={line.column: line.as_score(line.std) for line in lines if line.std is not None},
        sources=(f"{first.paper} {first.table}",),
        unstated=tuple(line.column for line in lines if line.metric == NOT_STATED),
        rerun=first.rerun,
    )


def _make_malformed_error(file: Path | Traversable, problems: Sequence[Problem]) -> PublishedError:
    lines = [f"{file} is not a file of published numbers:"]
    for problem in sorted(problems, key=lambda p: (p.place or 0, dotted_path(p.path))):
        where = [f"line {problem.place}"] if problem.place else []
        where += [dotted_path(problem.path)] if problem.path else []
        lines.append(f"  {', '.join(where)}: {problem.text}" if where else f"  {problem.text}")
    return PublishedError("\n".join(lines))


SCORES, ABLATIONS = "scores.csv", "ablations.csv"


def published_rows(
    *,
    backbone: str | None = None,
    method: str | None = None,
    files: Iterable[str | Path] = (),
    tables: Sequence[str] = (),
    ablations: bool = True,
) -> list[PublishedRow]:
    """Read the rows of the package's tables, then those of a lab's own files.

    A lab's files have the same columns as the package's. `method` is a method of ours. `tables`
    keeps only the rows of these tables, each PAPER:TABLE. Without `ablations` and `tables`, the
    package's ablation tables are left out.

    Raises:
        PublishedError: names every problem of the first invalid file; or there is no such paper or
            table.
    """
    shipped = (SCORES, ABLATIONS) if ablations or tables else (SCORES,)
    rows = [*_read_shipped_rows(shipped), *(row for file in files for row in read_rows(Path(file)))]
    if tables:
        asked = [table.strip().partition(":") for table in tables]
        rows = [row for paper, _, table in asked for row in rows_of_table(paper, table, rows)]
    return [
        row
        for row in rows
        if (backbone is None or row.backbone in backbones_in(backbone))
        and (method is None or row.method == method)
    ]


@cache
def _read_shipped_rows(tables: tuple[str, ...]) -> tuple[PublishedRow, ...]:
    folder = resources(__package__)
    return tuple(row for name in tables for row in read_rows(folder / name))


def rows_of_table(paper: str, table: str, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Select the rows of a paper's table, by its name or its bare number.

    Raises:
        PublishedError: if there is no such paper or table; lists those that exist.
    """
    of_paper = rows_of_paper(paper, rows)
    matching = [
        row for row in of_paper if _normalize_table_name(row.table) == _normalize_table_name(table)
    ]
    if not matching:
        tables = list(dict.fromkeys(row.table for row in of_paper))
        raise PublishedError(
            f"no table {table!r} of {paper} is known{did_you_mean(table, tables)}; "
            f"there are {', '.join(tables)}"
        )
    return matching


def rows_of_paper(paper: str, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Select the rows of a paper.

    Raises:
        PublishedError: if there is no such paper; lists those that exist.
    """
    of_paper = [row for row in rows if row.paper.lower() == paper.lower()]
    if not of_paper:
        papers = list(dict.fromkeys(row.paper for row in rows))
        known = f"known: {', '.join(papers)}"
        raise PublishedError(
            f"no tables of a paper {paper!r}{did_you_mean(paper, papers)}; {known}"
        )
    return of_paper


def _normalize_table_name(table: str) -> str:
    name = "".join(table.split()).lower()
    return f"table{name}" if name.isdecimal() else name


def merge_repeated_rows(rows: Iterable[PublishedRow]) -> list[PublishedRow]:
    """Merge the rows that papers repeat into one with all its sources.

    Rows are repeats if their method, system, backbone, split and all scores are equal, and they are
    of different papers or have equal configurations. The merged row is that of the method's own
    paper, else the first.
    """
    groups: list[list[PublishedRow]] = []
    of_key: dict[object, list[list[PublishedRow]]] = {}
    for row in rows:
        key = (row.method, row.system, row.backbone, row.split, tuple(sorted(row.scores.items())))
        alike = of_key.setdefault(key, [])
        joined = next(
            (
                group
                for group in alike
                if all(
                    row.paper != other.paper or row.configuration == other.configuration
                    for other in group
                )
            ),
            None,
        )
        if joined is None:
            alike.append(joined := [])
            groups.append(joined)
        joined.append(row)
    return [_merge_group(group) for group in groups]


def _merge_group(group: Sequence[PublishedRow]) -> PublishedRow:
    speaker = next((row for row in group if row.own), group[0])
    sources = dict.fromkeys(source for row in group for source in row.sources)
    return replace(speaker, sources=tuple(sources))
