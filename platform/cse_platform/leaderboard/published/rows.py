"""Published numbers: rows of the papers' tables, read from CSV files. Scores are fractions."""

import csv
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from cse_methods.errors import DataError
from cse_methods.files.text import decode_text
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
from cse_platform.sweep.shipped import SHIPPED
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES, GPU_MEMORY, TRAIN_MINUTES

PublishedSplit = Literal["test", "dev", "train"]

Apart = Literal["ensemble", "supervised", "llm", "multimodal", "transductive"]
"""What sets a row apart from rows of one encoder and unlabelled text: several encoders in testing;
labelled pairs; texts or scores of a language model; images or sound; sentences of the test sets,
without gold scores.
"""
OTHER_DATA: frozenset[Apart] = frozenset({"supervised", "llm", "multimodal"})
"""Rows with these train on data that the others do not have."""

SEEDS, SELECTED_ON, CORPUS = "seeds", "selected_on", "corpus"
HARDWARE = {
    "compcse": "NVIDIA A100 (40 GB)",
    "hicl": "NVIDIA A40 (48 GB)",
    "rankcse": "NVIDIA A100 (40 GB)",
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
    year: int | None = None
    """The year in which the method was published; None in the tables of the four papers."""
    venue: str = ""
    """Where the method was published."""
    paper_id: str = ""
    """The id of the method's paper in arXiv or the ACL Anthology."""
    trained_on: str = ""
    """The training data, in words."""
    checkpoints: str = ""
    """What the numbers are of, in words: one checkpoint, or a mean; empty if not stated."""
    apart: tuple[Apart, ...] = ()
    """Why the row is not ranked with the others."""
    reported_by: str = ""
    """Who reports the numbers, if these are not the method's authors."""
    read_in: str = ""
    """The document that the numbers were read in; it begins with its address, if that is known."""

    @property
    def shown_system(self) -> str:
        """The system, with what sets it apart in brackets: `tncse (ensemble, transductive)`."""
        return f"{self.system} ({', '.join(self.apart)})" if self.apart else self.system

    @property
    def is_own(self) -> bool:
        """Whether the method comes from this paper."""
        return self.paper == self.method

    @property
    def corpus(self) -> str | None:
        """The training corpora, joined with `+`; None if any corpus matches."""
        # The papers' tables do not state the corpus of costs.
        return self.settings.get(CORPUS, "wiki1m" if self.split == "train" else None)

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
    year: int | None = None
    venue: str = ""
    paper_id: str = ""
    trained_on: str = ""
    checkpoints: str = ""
    apart: Annotated[tuple[Apart, ...], BeforeValidator(lambda text: text.split("+"))] = Field(())
    reported_by: str = ""
    read_in: str = ""

    @model_validator(mode="after")
    def _check_task(self) -> Self:
        metrics = TASK_METRICS.get(self.task)
        if metrics is None:
            hint = did_you_mean(self.task, TASK_METRICS)
            known = f"known: {', '.join(TASK_METRICS)}"
            raise ProblemsError([Problem(("task",), f"no task {self.task!r}{hint}; {known}")])
        problems = []
        if self.metric not in metrics:
            expected = f"expected {' or '.join(metrics)} for {self.task}, got {self.metric!r}"
            problems.append(Problem(("metric",), expected + did_you_mean(self.metric, metrics)))
        if self.task not in COSTS and abs(self.value) > 100:
            text = f"expected a percentage between -100 and 100, got {self.value}"
            problems.append(Problem(("value",), text))
        if problems:
            raise ProblemsError(problems)
        return self

    @property
    def column(self) -> str:
        return self.task + ENDINGS.get(self.metric, "")

    def as_score(self, number: Decimal) -> float:
        """Convert a percentage to a fraction; costs are not changed."""
        return float(number if self.task in COSTS else number / 100)


COLUMNS = tuple(Line.model_fields)
OPTIONAL = {name for name, cell in Line.model_fields.items() if not cell.is_required()}
OF_THE_NUMBER = {"task", "metric", "value", "std"}
"""The columns in which the lines of one row differ."""


def read_rows(file: Path | Traversable) -> list[PublishedRow]:
    """Read the rows of a CSV file, in its order.

    Each line has one number, in percent as papers print it. Lines that differ only in task, metric,
    value and std form one row. Raises PublishedError, which names every problem of the file, with
    its line and column.
    """
    return [_build_row(list(lines.values())) for lines in _read_lines(file)]


def find_doubtful_numbers(file: Path) -> list[str]:
    """List the numbers of a lab's file that are likely mistakes, each with its line.

    They are scores from -1 to 1 in a file of percentages, and averages that are not the mean of
    their tasks. Raises PublishedError as `read_rows` does.
    """
    doubts = dict[int, str]()
    for lines in _read_lines(file):
        scores = {line.column: (n, line.value) for n, line in lines.items()}
        for task, (line_number, value) in scores.items():
            if task not in COSTS and abs(value) <= 1:
                doubts[line_number] = f"{task} is {value}, and the file is in percent"
        for average, tasks in ((AVG_STS, STS_TASKS), (AVG_TRANSFER, TRANSFER_TASKS)):
            if scores.keys() >= {average, *tasks}:
                line_number, value = scores[average]
                printed = [scores[task][1] for task in tasks]
                mean = sum(printed, Decimal()) / len(printed)
                if abs(value - mean) > (_unit_of(value) + min(map(_unit_of, printed))) / 2:
                    text = f"{average} is {value}, and the mean of its tasks {mean:.2f}"
                    doubts.setdefault(line_number, text)
    return [f"line {line_number}: {text}" for line_number, text in sorted(doubts.items())]


def _unit_of(number: Decimal) -> Decimal:
    """Compute the unit of the last printed digit."""
    return Decimal(1).scaleb(int(number.as_tuple().exponent))


def _read_lines(file: Path | Traversable) -> list[dict[int, Line]]:
    """Read the lines of each row, by their numbers in the file."""
    lines: list[tuple[int, Line]] = []
    problems: list[Problem] = []
    for line_number, cells in _read_cells(file):
        try:
            lines.append((line_number, Line.model_validate(cells)))
        except ValidationError as error:
            problems += [
                replace(p, origin=line_number) for p in problems_in(error, cells, model=Line)
            ]
    grouped: dict[str, dict[int, Line]] = {}
    first: dict[tuple[str, str], int] = {}
    for line_number, line in lines:
        key = line.model_dump_json(exclude=OF_THE_NUMBER)
        grouped.setdefault(key, {})[line_number] = line
        before = first.setdefault((key, line.column), line_number)
        if before != line_number:
            text = f"line {before} has {line.column} of this row already"
            problems.append(Problem(("task",), text, line_number))
    scores = [(line_number, line.value) for line_number, line in lines if line.task not in COSTS]
    if scores and all(abs(value) <= 1 for _, value in scores):
        line_number, value = scores[0]
        text = (
            f"expected percent, as papers print it, got {value}, and no value of the file is "
            "above 1; multiply them by 100"
        )
        problems.append(Problem(("value",), text, line_number))
    if problems:
        raise _make_malformed_error(file, problems)
    return list(grouped.values())


def _build_row(lines: Sequence[Line]) -> PublishedRow:
    """Build the row of lines that differ only in their numbers."""
    head = lines[0]
    stated = head.configuration if isinstance(head.configuration, dict) else {}
    wanted: dict[str, Any] | None = {n: v for n, v in stated.items() if n not in (METHOD, RERUN)}
    if head.configuration == NOTHING:
        wanted = None
    elif head.configuration is None:
        wanted = {n: text for n, text in head.settings.items() if n not in ABOUT_THE_RUN}
        for name, text in wanted.items():
            with suppress(json.JSONDecodeError):
                wanted[name] = json.loads(text)
    return PublishedRow(
        system=head.method,
        method=str(stated.get(METHOD, head.method)),
        configuration=wanted,
        scores={line.column: line.as_score(line.value) for line in lines},
        std={line.column: line.as_score(line.std) for line in lines if line.std is not None},
        sources=(f"{head.paper} {head.table}",),
        unstated=tuple(line.column for line in lines if line.metric == NOT_STATED),
        rerun=stated.get(RERUN) is True,
        **head.model_dump(exclude=OF_THE_NUMBER | {"method", "configuration"}),
    )


def _read_cells(file: Path | Traversable) -> list[tuple[int, dict[str, str]]]:
    """Read the cells of each line, with its number; empty optional cells are omitted."""
    try:
        content = decode_text(file.read_bytes(), Path(str(file)))
    except OSError as error:
        raise PublishedError(
            f"the published numbers {file} cannot be read: {error.strerror}; name a CSV file"
        ) from None
    except DataError as error:
        raise PublishedError(str(error)) from None
    reader = csv.reader(StringIO(content, newline=None), strict=True)
    try:
        listed = [(reader.line_num, [cell.strip() for cell in line]) for line in reader if line]
    except csv.Error as error:
        raise _make_malformed_error(file, [Problem((), str(error), reader.line_num)]) from None
    line_number, head = listed[0] if listed else (1, [])
    wrong = [
        *(f"the column {name!r} is missing" for name in COLUMNS if name not in {*head, *OPTIONAL}),
        *(f"the column {n!r} is there more than once" for n in COLUMNS if head.count(n) > 1),
        *(f"no such column: {n!r}{did_you_mean(n, COLUMNS)}" for n in head if n not in COLUMNS),
    ]
    problems = [Problem((), text, line_number) for text in wrong]
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


def _make_malformed_error(file: Path | Traversable, problems: Sequence[Problem]) -> PublishedError:
    lines = [f"{file} is not a file of published numbers:"]
    for problem in sorted(problems, key=lambda p: (p.origin or 0, dotted_path(p.path))):
        location = [f"line {problem.origin}"] if problem.origin else []
        location += [dotted_path(problem.path)] if problem.path else []
        prefix = f"{', '.join(location)}: " if location else ""
        lines.append(f"  {prefix}{problem.text}")
    return PublishedError("\n".join(lines))


SCORES, RECENT, ABLATIONS = "scores.csv", "recent.csv", "ablations.csv"


def published_rows(
    *,
    backbone: str | None = None,
    method: str | None = None,
    files: Iterable[str | Path] = (),
    tables: Sequence[str] = (),
    shipped: bool = True,
    ablations: bool = True,
) -> list[PublishedRow]:
    """Read the rows of the package's tables, then those of a lab's own files.

    A lab's files have the same columns as the package's. `method` is a method of ours. `tables`
    keeps only the rows of these tables, each PAPER:TABLE. Without `shipped`, the package's tables
    are left out; without `ablations` and `tables`, its ablation tables are.

    Raises PublishedError for every problem of the first invalid file, or an unknown paper or table.
    """
    names = (SCORES, RECENT, *([ABLATIONS] if ablations or tables else [])) if shipped else ()
    rows = [*_read_shipped_rows(names), *(row for file in files for row in read_rows(Path(file)))]
    if tables:
        references = [table.strip().partition(":") for table in tables]
        rows = [row for paper, _, table in references for row in rows_of_table(paper, table, rows)]
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

    Raises PublishedError, which lists those that exist, if there is no such paper or table.
    """
    of_paper = rows_of_paper(paper, rows)
    matching = [
        row for row in of_paper if _normalize_table_name(row.table) == _normalize_table_name(table)
    ]
    if not matching:
        tables = sorted({row.table for row in of_paper}, key=lambda name: (len(name), name))
        there = f"; there are {', '.join(tables)}"
        if f"{of_paper[0].paper}-{_normalize_table_name(table)}" in {
            file.stem for file in SHIPPED.glob("papers/*.yaml")
        }:
            raise PublishedError(
                f"{table} of {paper} is known, but has no numbers that a table can show{there}"
            )
        raise PublishedError(
            f"no table {table!r} of {paper} is known{there}{did_you_mean(table, tables)}"
        )
    return matching


def rows_of_paper(paper: str, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Select the rows of a paper. Raises PublishedError, which lists those known, if none is."""
    of_paper = [row for row in rows if row.paper.lower() == paper.lower()]
    if not of_paper:
        papers, name = list(dict.fromkeys(row.paper for row in rows)), paper.lower()
        having = dict.fromkeys(
            row.paper for row in rows if name in (row.method.lower(), row.system.lower())
        )
        hint = f"; known: {', '.join(papers)}"
        if having:
            hint = f"; its numbers are in those of {', '.join(having)}{hint}"
        else:
            hint += did_you_mean(paper, papers)
        raise PublishedError(f"no tables of a paper {paper!r}{hint}")
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
        fitting = (
            group
            for group in alike
            if all(row.paper != o.paper or row.configuration == o.configuration for o in group)
        )
        if (group := next(fitting, None)) is None:
            alike.append(group := [])
            groups.append(group)
        group.append(row)
    merged = []
    for group in groups:
        speaker = next((row for row in group if row.is_own), group[0])
        sources = dict.fromkeys(source for row in group for source in row.sources)
        is_alone = len(group) == 1
        merged.append(speaker if is_alone else replace(speaker, sources=tuple(sources)))
    return merged
