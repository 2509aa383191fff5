"""Reads CSV files of published numbers; a file is refused with every problem that it has.

`README.md` beside this file says what the columns are.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable
from io import StringIO
from pathlib import Path

from pydantic import ValidationError

from cse_platform.errors import PublishedError
from cse_platform.leaderboard.published.line import NOT_STATED, Line
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.sweep.reading.problems import Problem, did_you_mean, dotted_path
from cse_platform.sweep.reading.pydantic_errors import problems_in
from cse_platform.tracking.effort import COSTS

COLUMNS = tuple(Line.model_fields)
OPTIONAL = {name for name, cell in Line.model_fields.items() if not cell.is_required()}

Cells = dict[str, str]
Placed = tuple[int, Line]
"""A line and its number in the file."""


def read_rows(file: Path | Traversable) -> list[PublishedRow]:
    """The rows of a CSV file, in its order.

    Lines that differ in nothing but task, metric, value and std are one row. Each line has one
    number, in percent as papers print it.

    Raises:
        PublishedError: names every problem of the file, with its line and column.
    """
    lines: list[Placed] = []
    problems: list[Problem] = []
    for place, cells in _cells(file):
        try:
            lines.append((place, Line.model_validate(cells)))
        except ValidationError as error:
            problems += [replace(p, place=place) for p in problems_in(error, cells, model=Line)]
    problems += [*_repeated(lines), *_fractions(lines)]
    if problems:
        raise _malformed(file, problems)
    return _rows([line for _, line in lines])


def _cells(file: Path | Traversable) -> list[tuple[int, Cells]]:
    """Each line's number and its cells; empty optional ones are left out."""
    reader = csv.reader(StringIO(_text(file)), strict=True)
    try:
        listed = [(reader.line_num, [cell.strip() for cell in line]) for line in reader if line]
    except csv.Error as error:
        raise _malformed(file, [Problem((), str(error), reader.line_num)]) from None
    place, head = listed[0] if listed else (1, [])
    problems = [Problem((), text, place) for text in _head_problems(head)]
    for place, line in listed[1:]:
        if len(line) != len(head):
            text = f"expected {len(head)} cells, as the head has, got {len(line)}"
            problems.append(Problem((), text, place))
    if problems:
        raise _malformed(file, problems)
    return [
        (place, {k: v for k, v in zip(head, line, strict=True) if v or k not in OPTIONAL})
        for place, line in listed[1:]
    ]


def _text(file: Path | Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PublishedError(
            f"the published numbers {file} cannot be read: {error.strerror}; name a CSV file"
        ) from None
    except UnicodeDecodeError as error:
        raise _malformed(file, [Problem((), f"byte {error.start} is not UTF-8 text")]) from None


def _head_problems(head: Sequence[str]) -> Iterator[str]:
    for name in COLUMNS:
        if name not in head and name not in OPTIONAL:
            yield f"the column {name!r} is missing"
        if head.count(name) > 1:
            yield f"the column {name!r} is there more than once"
    for name in head:
        if name not in COLUMNS:
            yield f"no such column: {name!r}{did_you_mean(name, COLUMNS)}"


def _repeated(lines: Sequence[Placed]) -> Iterator[Problem]:
    first: dict[tuple[str, str], int] = {}
    for place, line in lines:
        before = first.setdefault((_row_of(line), line.column), place)
        if before != place:
            yield Problem(("task",), f"line {before} has {line.column} of this row already", place)


def _fractions(lines: Sequence[Placed]) -> Iterator[Problem]:
    scores = [(place, line.value) for place, line in lines if line.task not in COSTS]
    if scores and all(abs(value) <= 1 for _, value in scores):
        place, value = scores[0]
        yield Problem(
            ("value",),
            f"expected percent, as papers print it, got {value}, and no value of the file is "
            "above 1; multiply them by 100",
            place,
        )


def _row_of(line: Line) -> str:
    return line.model_dump_json(exclude={"task", "metric", "value", "std"})


def _rows(lines: Sequence[Line]) -> list[PublishedRow]:
    grouped: dict[str, list[Line]] = {}
    for line in lines:
        grouped.setdefault(_row_of(line), []).append(line)
    return [_row(group) for group in grouped.values()]


def _row(lines: Sequence[Line]) -> PublishedRow:
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


def _malformed(file: Path | Traversable, problems: Sequence[Problem]) -> PublishedError:
    lines = [f"{file} is not a file of published numbers:"]
    for problem in sorted(problems, key=lambda p: (p.place or 0, dotted_path(p.path))):
        where = [f"line {problem.place}"] if problem.place else []
        where += [dotted_path(problem.path)] if problem.path else []
        lines.append(f"  {', '.join(where)}: {problem.text}" if where else f"  {problem.text}")
    return PublishedError("\n".join(lines))
