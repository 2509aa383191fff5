"""Reads tables in the layout of results from elsewhere, which docs/importing.md describes."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, cast

from pydantic import ValidationError, create_model

from cse_methods.data.dev_selection import DEV_TASKS, dev_metric
from cse_methods.errors import UnknownMethodError
from cse_methods.files.cells import NO_TEXTS, parse_number
from cse_methods.registry import get_method
from cse_methods.reports import LAST_STEP
from cse_methods.settings import Settings
from cse_platform.numbers import format_count
from cse_platform.sweep.problems import (
    decimal_hint,
    did_you_mean,
    dotted_path,
    format_value,
    problems_in,
)
from cse_platform.tracking.events import TASK_METRICS, TrialState
from cse_platform.tracking.our_names import find_task, refuse_other_spelling
from cse_platform.tracking.recorded_runs import AVERAGE_ROUNDING, average_families
from cse_platform.values import map_leaves

NO_STEP = -1
"""Stands for the step of the only point of a run without steps."""
_WRONG = object()
"""Stands for a cell that is refused."""
_NAMES = "run, method, backbone, seed, state, started, finished, step"
_FORMS = "dev.NAME, test.TASK, param.NAME and train.NAME"

_Row = tuple[str, dict[str, Any]]
"""A row's place and run, for messages, and its cells by column."""


@dataclass(frozen=True)
class ImportedRun:
    """A run from elsewhere, as its rows tell it."""

    label: str
    """Its first row and its name, for messages."""
    name: str
    facts: Mapping[str, Any]
    """What does not depend on the step, by column; times can be missing."""
    state: TrialState
    values: dict[str, Any]
    """Its hyperparameters."""
    points: dict[int, dict[str, float]]
    """The metrics of its dev points by step, that which the search climbed first."""
    scores: dict[str, float]
    """Its test scores by task."""


class Layout:
    """What a table in the layout holds, and everything that is wrong with it.

    Args:
        columns: the names of its columns.
        rows: its rows, each with its place for messages.
    """

    def __init__(self, columns: Sequence[Any], rows: Iterable[tuple[str, Sequence[Any]]]) -> None:
        self.runs = list[ImportedRun]()
        """The runs with which nothing is wrong."""
        self.left_out = Counter[str]()
        """How many runs are left out, by the reason."""
        self._refused = defaultdict[str, list[str]](list)
        self._readers = {c: reader for c in columns if (reader := self._find_reader(c))}
        if len(self._readers) < len(columns) and not self._refused:
            self._note_refusal("", f"two columns have one name: {', '.join(map(str, columns))}")
        dev = (c.removeprefix("dev.") for c in self._readers if c.startswith("dev."))
        self.climbed = next(dev, "")
        """The dev set that the search climbed: that of the first dev score."""
        runs = defaultdict[str, list[_Row]](list)
        for label, cells in rows:
            cleaned = zip(columns, map(_clean_cell, cells), strict=False)
            row = {c: cell for c, cell in cleaned if cell is not None and c in self._readers}
            if row:
                name = self._read_cell(label, "run", row.pop("run", None))
                runs[name if isinstance(name, str) else ""].append((f"{label} ({name})", row))
        if not runs:
            self._note_refusal("", "there are no rows with runs")
        for name, run in runs.items():
            states = [row["state"] for _, row in run if "state" in row]
            if states and all(state == "running" for state in states):
                self.left_out["still running"] += 1
            elif name:
                self._read_run(name, run)

    @property
    def problems(self) -> list[str]:
        """What is refused, one line for the same problem of several rows."""
        return [
            ", ".join([*filter(None, labels[:1]), text])
            + f" (and {format_count(len(labels) - 1, 'more row')})"
            * (len(labels) > 1 and any(labels))
            for text, labels in self._refused.items()
        ]

    def _note_refusal(self, label: str, text: str) -> None:
        self._refused[text].append(label)

    def _find_reader(self, column: Any) -> Callable[[Any], Any] | None:
        """Find what reads the cells of a column; refuse one that the layout does not have."""
        kind, dot, name = str(column).partition(".")
        known = [*_NAMES.split(", "), *(f"dev.{task}" for task in DEV_TASKS)]
        known += [f"test.{task}" for task in TASK_METRICS]
        is_known = (
            bool(name) == bool(dot)
            and name == name.strip()
            and (kind != "test" or name in TASK_METRICS)
        )
        if kind == "dev":  # a search that climbs a test set has no dev score
            is_known = re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII) is not None and (
                name in DEV_TASKS or find_task(name) is None
            )
        if isinstance(column, str) and is_known and kind + dot in _READERS:
            return _READERS[kind + dot]
        hint = did_you_mean(f"{kind}{dot}{find_task(name) or name}", known)
        hint = hint or f"; leave it out, or rename it to one of {_NAMES}, {_FORMS}"
        if re.fullmatch(r"|Unnamed: \d+|__index_level_\d+__", str(column)):
            hint = "; it is the index of a frame: write the file with index=False"
        self._note_refusal("", f"no column {format_value(column)} is known{hint}")
        return None

    def _read_cell(self, label: str, column: str, cell: Any) -> Any:
        try:
            return _READERS[re.sub(r"\..*", ".", column, flags=re.DOTALL)](cell)
        except ValueError as problem:
            self._note_refusal(label, f"{column}: {problem}")
            return _WRONG

    def _read_run(self, name: str, cells: Sequence[_Row]) -> None:
        """Add the run that rows tell, or refuse what is wrong with it."""
        before = sum(map(len, self._refused.values()))
        rows = [(at, {c: self._read_cell(at, c, cell) for c, cell in r.items()}) for at, r in cells]
        first, facts = rows[0][0], dict[str, Any]()
        for label, row in rows:
            for column, value in row.items():
                if column == "step" or column.startswith(("dev.", "train.")):
                    continue
                if facts.setdefault(column, value) != value:
                    self._note_refusal(
                        label, f"{column}: {first}, of the same run, has another value"
                    )
        state = facts.get("state")
        if state == "FAIL" and not facts.keys() >= {"method", "backbone", "seed"}:
            self.left_out["failed without method, backbone or seed"] += 1
            return
        for column in ("method", "backbone", "seed", "state"):
            if column not in facts:
                self._note_refusal(
                    first, f"{column}: it is missing; a run needs it unless its state is failed"
                )
        points = self._read_points(rows)
        if not self.climbed:
            self._note_refusal(
                "", "no column dev.NAME, which names the dev set that the search climbed"
            )
        elif state in ("COMPLETE", "PRUNED") and not points.keys() - {0}:
            text = "there is no dev score of a trained step; without one, a run is failed"
            self._note_refusal(first, f"dev.{self.climbed}: {text}")
        started, finished = facts.get("started"), facts.get("finished")
        if isinstance(started, datetime) and isinstance(finished, datetime) and finished < started:
            self._note_refusal(first, f"finished: {finished} is before the start, {started}")
        values, scores = self._read_values(first, facts), self._read_scores(first, facts)
        if sum(map(len, self._refused.values())) == before:
            state = cast(TrialState, state)
            self.runs.append(ImportedRun(first, name, facts, state, values, points, scores))

    def _read_points(self, rows: Sequence[_Row]) -> dict[int, dict[str, float]]:
        climbed = f"dev.{self.climbed}"
        points, labels = dict[Any, dict[str, float]](), dict[Any, str]()
        for label, row in rows:
            if climbed not in row:
                if "step" in row or any(column.startswith("dev.") for column in row):
                    way_out = f"leave such rows out: frame.dropna(subset={[climbed]})"
                    self._note_refusal(label, f"{climbed}: a dev point lacks this score; {way_out}")
                continue
            metrics = {dev_metric(self.climbed): row[climbed]}
            for column, value in row.items():
                kind, _, name = column.partition(".")
                if kind in ("dev", "train"):
                    metrics[dev_metric(name) if kind == "dev" else f"train/{name}"] = value
            step = row.get("step", NO_STEP)
            if step in points and step is not _WRONG:
                text, keys = "step: {} has this step, too", "['run', 'step']"
                if "step" not in self._readers:
                    text, keys = "run: {} is of this run, too", "'run'"
                way_out = f"keep one: frame.drop_duplicates({keys})"
                self._note_refusal(label, f"{text.format(labels[step])}; {way_out}")
            points[step], labels[step] = metrics, label
        if NO_STEP in points and len(points) > 1:
            self._note_refusal(
                labels[NO_STEP], "step: it is missing; other rows of the run have one"
            )
        return points if _WRONG in points else dict(sorted(points.items()))

    def _read_values(self, label: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Read the hyperparameters, in the types of the method's settings if it is installed."""
        params = {c.removeprefix("param."): v for c, v in facts.items() if c.startswith("param.")}
        values = {name: value for name, value in params.items() if value is not _WRONG}
        method = facts.get("method")
        try:
            config = get_method(method if isinstance(method, str) else "").config
        except UnknownMethodError:
            return values
        fields: Any = {n: (f.annotation, f) for n, f in config.model_fields.items() if n in values}
        model: type[Settings] = create_model("Values", __base__=Settings, **fields)
        try:
            return model.model_validate(values).model_dump(mode="json")
        except ValidationError as error:
            for problem in problems_in(error, values, model=config):
                self._note_refusal(label, f"param.{dotted_path(problem.path)}: {problem.text}")
            return values

    def _read_scores(self, label: str, facts: Mapping[str, Any]) -> dict[str, float]:
        """Read the test scores, and add or check the averages of families of tasks."""
        scores = {c.removeprefix("test."): v for c, v in facts.items() if c.startswith("test.")}
        if scores and facts.get("state") in ("FAIL", "PRUNED"):
            columns = ", ".join(f"test.{task}" for task in sorted(scores))
            text = "only complete runs have test scores; leave them empty"
            self._note_refusal(label, f"{columns}: {text}")
        if _WRONG not in scores.values():
            for average, mean in average_families(scores).items():
                if abs(scores.setdefault(average, mean) - mean) > AVERAGE_ROUNDING:
                    text = f"{scores[average]} is not the mean of its tasks, {mean:.4f}"
                    self._note_refusal(label, f"test.{average}: {text}")
        return scores


def _clean_cell(cell: Any) -> Any:
    """Return a value of Python for one of NumPy or pandas; None if it is missing."""
    import numpy as np
    import pandas as pd

    cell = cell.tolist() if isinstance(cell, np.generic | np.ndarray) else cell
    cell = float(cell) if isinstance(cell, Decimal) else cell
    if isinstance(cell, str):
        return None if cell.strip().lower() in ("", "nan") else cell
    is_missing = type(cell) is object or (pd.api.types.is_scalar(cell) and pd.isna(cell))
    return None if is_missing else cell  # an object is that of a key that JSON lacks


def _read_name(cell: Any) -> str:
    if cell is None:
        raise ValueError("it is missing; each row names its run (frame.reset_index() of an index)")
    whole = isinstance(cell, float) and cell.is_integer()  # of a column with gaps
    return _read_label(str(int(cell)) if whole or type(cell) is int else cell)


def _read_label(cell: Any) -> str:
    label = _read_text(cell)
    if label in NO_TEXTS or label != label.strip():
        raise ValueError(f"expected a name without blanks around it, got {format_value(cell)}")
    return label


def _read_known_label(cell: Any, column: str) -> str:
    """Read the name of a method or backbone, which may be new, but no other spelling of ours."""
    label = _read_label(cell)
    refuse_other_spelling(column, label)
    return label


def _read_text(cell: Any) -> str:
    if not isinstance(cell, str) or re.search("[\0\ud800-\udfff]", cell):
        raise ValueError(f"expected text, got {format_value(cell)}")
    return cell


def _read_state(cell: Any) -> TrialState | None:
    """Read the state of a run; None if it has not ended."""
    states: Any = {"complete": "COMPLETE", "failed": "FAIL", "pruned": "PRUNED", "running": None}
    if cell not in list(states):
        raise ValueError(f"expected one of {', '.join(states)}, got {format_value(cell)}")
    return cast(TrialState | None, states[cell])


def _read_time(cell: Any) -> datetime:
    with suppress(ValueError):
        cell = datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    if not isinstance(cell, datetime):
        way_out = "pandas reads others: pd.to_datetime(…, format=…, utc=True), or unit='s'"
        got = format_value(cell)
        raise ValueError(f"expected a time such as 2024-03-05T12:00:00+01:00, got {got}; {way_out}")
    if cell.tzinfo is None:
        way_out = "end it with Z or an offset; in pandas: .dt.tz_localize('Europe/Berlin')"
        raise ValueError(f"{cell} has no time zone; {way_out}")
    if not 2000 <= cell.year < 2100:
        raise ValueError(f"{cell} is not of this century; is it read in another unit, or order?")
    return datetime.fromtimestamp(cell.timestamp(), UTC)


def _parse_text(cell: Any) -> Any:
    """Read the number, truth or JSON that a text is; return it as it is if it is none."""
    if isinstance(cell, str):
        text = lower if (lower := cell.strip().lower()) in ("true", "false") else cell
        with suppress(ValueError, RecursionError):
            parsed = json.loads(text)
            return cell if parsed is None or isinstance(parsed, str) else parsed
        number = float(lower) if lower in ("inf", "-inf") else parse_number(cell)
        if number is not None and not re.match(r"\s*[+-]?0[0-9]", cell):  # 007 is an id
            return number
    return cell


def _read_number(
    cell: Any, wanted: str = "a finite number", low: float = -1e300, high: float = 1e300
) -> float:
    number, (wanted, _, way_out) = _parse_text(cell), wanted.partition(";")
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not low <= number <= high or ("whole" in wanted and number % 1):
        hint = decimal_hint(str(cell).strip()) if "whole" not in wanted else ""
        if way_out and not hint and number not in (math.inf, -math.inf):
            hint = f";{way_out}"
        raise ValueError(f"expected {wanted}, got {format_value(cell)}{hint}")
    return int(number) if "whole" in wanted else float(number)


def _read_param(cell: Any) -> Any:
    """Read a value of JSON. Floats that agree to 12 digits are one, and 64.0 is 64."""

    def read_leaf(leaf: Any) -> Any:
        if isinstance(leaf, float):
            leaf = float(f"{_read_number(leaf):.12g}")
            return int(leaf) if leaf.is_integer() and abs(leaf) < 2**53 else leaf
        if leaf is None or isinstance(leaf, int):
            return leaf
        number = parse_number(_read_text(leaf).rstrip("% ").replace(",", ".", 1))
        if number is not None and re.search("[,%]", leaf):
            raise ValueError(f"expected a number such as 0.5, or text, got {format_value(leaf)}")
        return leaf

    return map_leaves(_parse_text(cell), read_leaf)


_WHOLE = "a whole number from 0"
_SCORE = partial(
    _read_number, wanted="a score from -1 to 1; divide percentages by 100", low=-1, high=1
)
_STEP = f"{_WHOLE}; leave such rows out, or multiply epochs by the steps in one"
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **{"run": _read_name, "state": _read_state},
    **{column: partial(_read_known_label, column=column) for column in ("method", "backbone")},
    "seed": partial(_read_number, wanted=_WHOLE, low=0, high=2**32 - 1),
    **{"started": _read_time, "finished": _read_time},
    "step": partial(_read_number, wanted=_STEP, low=0, high=LAST_STEP),
    **{"dev.": _SCORE, "test.": _SCORE, "param.": _read_param},
    "train.": _read_number,
}
