"""Converts runs of other trackers to trials by a mapping file; reports all problems at once."""

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError, create_model

from cse_methods.contract import LAST_STEP
from cse_methods.data.dev_selection import dev_metric
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, STS_TASKS, TRANSFER_TASKS
from cse_platform.imports.mapping import SCORED_BY, Logged, LoggedMetric, MappingFile, RunMapping
from cse_platform.imports.tables import Row, parse_number, read_rows, with_point
from cse_platform.imports.trials import RECORD, ImportedTrial, find_rivals, refuse
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.logged_runs import read_logged_runs
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import dotted_path, format_value, problems_in
from cse_platform.sweep.yaml_file import UnreadableYamlError, read_yaml
from cse_platform.tracking.events import (
    IMPORTED,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialScore,
    TrialStarted,
    TrialState,
)

_AVERAGES = {AVG_STS: STS_TASKS, AVG_TRANSFER: TRANSFER_TASKS}
_WORDS: dict[TrialState | None, str] = {
    "COMPLETE": "finished complete completed done terminated success succeeded successful "
    "published",
    "FAIL": "failed fail failure crashed killed error errored aborted cancelled canceled preempted "
    "timeout node_fail out_of_memory interrupted stopped",
    "PRUNED": "pruned",
    None: "running pending scheduled queued waiting preempting in_progress created starting paused "
    "resuming",
}
"""The states of W&B, MLflow, Optuna, Ray Tune, ClearML and Slurm by ours; None has not ended."""
_STATES = {word: state for state, words in _WORDS.items() for word in words.split()}
_IDS = ("run_id", "id", "run", "run_name", "name")
_ABSENT = "-"
"""Stands for a text that a run lacks, which is a problem of its own."""
_LONGEST = timedelta(days=3650).total_seconds()
"""Durations above this are not durations of runs, but e.g. times since 1970."""


def read_runs(
    source: str, mapping_file: Path, *, mlflow: bool
) -> tuple[list[ImportedTrial], str, int]:
    """Read all runs that the mapping file selects, or none, from a table or an MLflow store.

    Returns the trials, the name of the source without passwords, and the number of runs that are
    left out because they have not ended. Raises ImportRefusedError with every problem of the
    mapping file, of the table, or of the runs; StoreError if the store cannot be reached.
    """
    file = MappingFile(mapping_file, mlflow=mlflow)
    mapping = file.mapping
    if mlflow:
        name, metric, written = mask_url(source), mapping.dev.metric, datetime.now(UTC)
        runs = [*read_logged_runs(source, mapping.experiments, mapping.filter, metric)]
    else:
        name, runs = Path(source).name, _group_rows(read_rows(Path(source)), mapping)
        written = datetime.fromtimestamp(Path(source).stat().st_mtime, UTC)
    columns = {column for rows in runs for _, cells in rows for column in cells}
    if runs:
        file.refuse_unknown_names(columns)
    state = None if {"state", "status"} & {*map(str.lower, columns)} else "finished"
    readers = [_Reader(mapping, rows, written) for rows in runs]
    read = [reader.read_trial(state, {"imported_from": name}) for reader in readers]
    trials = [trial for trial in read if trial]
    way = "by its 'filter'" if mlflow else f"of {name}"
    refuse(
        [*dict.fromkeys(problem for reader in readers for problem in reader.problems)],
        f"nothing was imported; correct {mapping_file}, or leave runs out {way}:",
    )
    refuse([*find_rivals(trials, {})])
    return trials, name, len(runs) - len(trials)


def _group_rows(rows: Sequence[Row], mapping: RunMapping) -> list[list[Row]]:
    """Group the rows of a table by run: equal rows or, with steps, those that agree in identity.

    Where steps of dev points repeat, the runs are several, and columns of ids tell them apart: such
    a column whose ids are all different numbers the rows, unless there is no other.
    """

    def repeats(column: str, rows: Sequence[Row]) -> bool:
        return len({cells.get(column) for _, cells in rows}) < len(rows)

    def group_equal(rows: Sequence[Row], columns: Iterable[str]) -> list[list[Row]]:
        groups: dict[tuple[str | None, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(map(row[1].get, columns)), []).append(row)
        return [*groups.values()]

    columns = {column for _, cells in rows for column in cells}
    if mapping.step is None:
        return [equal[:1] for equal in group_equal(rows, columns)]
    ids = [column for column in columns if column.lower() in _IDS]
    runs = []
    for group in group_equal(rows, mapping.identifying_columns):
        if repeats(mapping.step.param, [row for row in group if mapping.dev.metric in row[1]]):
            runs += group_equal(group, [column for column in ids if repeats(column, group)] or ids)
        else:
            runs.append(group)
    return runs


class _Reader:
    """Converts the rows of one run to a trial, and collects their problems."""

    def __init__(self, mapping: RunMapping, rows: Sequence[Row], written: datetime) -> None:
        self._mapping, self._rows = mapping, rows
        self._cells = {column: text for _, row in rows for column, text in row.items()}
        self._by_name = {column.lower(): text for column, text in self._cells.items()}
        name = self._by_name.get("name", self._by_name.get("run_name"))
        self._label = f"{rows[0][0]} ({name})" if name and not mapping.experiments else rows[0][0]
        runtime = parse_number(self._by_name.get("runtime", "")) or 0.0
        self._runtime = timedelta(seconds=runtime if 0 < runtime <= _LONGEST else 0)
        self._started = _parse_time(self._by_name.get("created")) or written - self._runtime
        self.problems: list[str] = []

    def read_trial(self, state: str | None, provenance: dict[str, str]) -> ImportedTrial | None:
        """Convert the run to the events of a trial; None if it has not ended.

        `state` is that of all runs if none has one. If there are problems, the events mean nothing.
        """
        status = state or self._by_name.get("state", self._by_name.get("status", ""))
        if logged := self._mapping.state:
            status = self._cells.get(self._mapping.column_of(logged), "")
            status = logged.names.get(status, status)
        word = status.strip().lower().partition(" by ")[0]  # Slurm's CANCELLED by a user
        outcome = _STATES.get(word)
        if word not in _STATES:
            way = "translate it by state: {param: …, names: {…: finished}}"
            self._add_problem(f"its state is {format_value(status)}, which is not known; {way}")
        if outcome is None:
            return None
        started = self._read_start(failed=outcome == "FAIL")
        points = self._read_points(started)
        # The earliest of the best trained steps counts. Without steps there is no curve.
        best = max((p for p in points if p.step), key=lambda p: (p.value, -p.step), default=None)
        if best is None and self._mapping.step is None and points:
            best, points = points[-1], []
        error = f"its state is {status}" if outcome == "FAIL" else None
        if outcome == "COMPLETE" and best is None:
            outcome, error = "FAIL", f"it has no {self._mapping.dev.metric} that is a number"
        scores = {}
        for task, metric in self._mapping.scores.items() if outcome != "FAIL" else ():
            if (value := self._read_fraction(self._label, self._cells, metric)) is not None:
                scores[task] = value
        last = max((point.time for point in points), default=self._started)
        ended = self._started + self._runtime if self._runtime else last
        facts = {RECORD: self._find_record(), "user": self._by_name.get("user", "")}
        finished = TrialFinished(
            sweep=started.sweep,
            trial=started.trial,
            time=ended,
            state=outcome,
            best_step=best.step if best and points else None,
            best_value=best.value if best else None,
            best_metrics=best.metrics if best else {},
            error=error,
            wall_seconds=(ended - self._started).total_seconds() or None,  # not known
            provenance=provenance | facts | ({"test_scores": IMPORTED} if scores else {}),
        )
        evaluated = _make_evaluation(finished, scores) if scores else None
        return ImportedTrial(self._label, started, tuple(points), finished, evaluated)

    def _read_start(self, *, failed: bool) -> TrialStarted:
        mapping, dev = self._mapping, self._mapping.dev.set
        method, backbone = self._read_text(mapping.method), self._read_text(mapping.backbone)
        text = self._read_text(mapping.seed)
        seed = parse_number(text, thousands=True)  # a column with gaps has 42.0
        if seed is None or not seed.is_integer() or not 0 <= seed < 2**32:
            got = format_value(text)
            if text != _ABSENT:
                self._add_problem(f"its seed must be a whole number from 0, got {got}")
            seed = 0
        values = self._read_values(method, failed=failed)
        configuration = canonical_hash([IMPORTED, method, backbone, values, dev, mapping.sweep])
        # Trials of different methods or backbones are different sweeps.
        read = {method: mapping.method, backbone: mapping.backbone}
        varying = [_make_slug(text, 40) for text in read if mapping.column_of(read[text])]
        # Its identity makes a sweep's imports of one dev task comparable with each other alone.
        identity = canonical_hash([IMPORTED, "dev", dev, mapping.sweep])
        return TrialStarted(
            sweep=_make_slug("-".join([mapping.sweep, *varying]), 100),
            trial=canonical_hash([IMPORTED, configuration, int(seed)]),
            time=self._started,
            number=0,
            role="search",
            search_number=None,
            seed=int(seed),
            method=method,
            revision=0,
            backbone=backbone,
            configuration=configuration,
            values=values,
            searched=tuple(n for n, p in mapping.hyperparameters.items() if mapping.column_of(p)),
            dev={"checkpoint": dev, "search": dev, "identity": identity}
            | {"source": IMPORTED, "corpus": IMPORTED},
        )

    def _read_points(self, started: TrialStarted) -> list[TrialPoint]:
        """Read the dev points; the first one at a step counts."""
        column = "step" if self._mapping.experiments else ""
        times = 1.0
        if self._mapping.step:
            column, times = self._mapping.step.param, self._mapping.step.times
        points: dict[int, TrialPoint] = {}
        for label, row in self._rows:
            value = self._read_fraction(label, row, self._mapping.dev)
            if value is None:
                continue
            text = row.get(column, "") if column else "0"
            number = parse_number(text, thousands=True)
            step = math.nan if number is None else number * times
            if not 0 <= step <= LAST_STEP or (times == 1 and step % 1):
                hint = "; of epochs, write times: the steps in one" if times == 1 else ""
                got = f"{column} is {format_value(text)}"
                self.problems.append(f"{label}: {got}, not a step from 0{hint}")
                continue
            point = TrialPoint(
                sweep=started.sweep,
                trial=started.trial,
                time=_parse_time(row.get("logged")) or self._started,
                step=round(step),
                value=value,
                metrics={dev_metric(self._mapping.dev.set): value},
            )
            points.setdefault(point.step, point)
        return [*points.values()]

    def _find_record(self) -> str:
        """Name the run, not by all cells: a table that gets a column has the same runs."""
        if self._mapping.experiments:
            return f"MLflow run {self._cells['run_id']}"
        read = {*self._mapping.identifying_columns, self._mapping.dev.metric}
        read |= {self._mapping.step.param} if self._mapping.step else set()
        rows = {tuple(sorted((c, t) for c, t in row.items() if c in read)) for _, row in self._rows}
        return f"table run {canonical_hash(sorted(rows))}"

    def _add_problem(self, text: str) -> None:
        self.problems.append(f"{self._label}: {text}")

    def _read_text(self, source: Logged[Any]) -> str:
        """Return the text of a cell or the one value of all runs; if neither is there, report it
        and return `_ABSENT`.
        """
        column = self._mapping.column_of(source)
        text = self._cells.get(column) if column else str(source.value)
        if text is None:
            self._add_problem(f"it has no {column}")
        elif source.names and text not in source.names:
            got = format_value(text)
            self._add_problem(f"{column} is {got}, which 'names' does not translate")
        return source.names.get(text or "", text or _ABSENT)

    def _read_values(self, method: str, *, failed: bool) -> dict[str, Any]:
        """Read the hyperparameters, in the types of the method's settings if it is installed.

        Those of other methods are read as YAML. A run that failed may lack some.
        """
        values: dict[str, Any] = {}
        for name, source in self._mapping.hyperparameters.items():
            column = self._mapping.column_of(source)
            if not column:
                values[name] = source.value
            elif (text := self._cells.get(column)) is not None:
                text = values[name] = source.names.get(text, text)
                with suppress(UnreadableYamlError):
                    parsed = read_yaml("null" if text == "None" else with_point(text))
                    values[name] = text if parsed.problems else parsed.data
            elif not failed:
                way = f"if it is the same in all runs, write {name}: {{value: …}}"
                self._add_problem(f"it has no {column} ({name}); {way}")
        try:
            config = get_method(method).config
        except UnknownMethodError:
            return values
        fields: Any = {n: (f.annotation, f) for n, f in config.model_fields.items() if n in values}
        model: type[Settings] = create_model("Values", __base__=Settings, **fields)
        try:
            return model.model_validate(values).model_dump(mode="json")
        except ValidationError as error:
            for problem in problems_in(error, values, model=config):
                self._add_problem(f"{dotted_path(problem.path)}: {problem.text}")
            return values

    def _read_fraction(
        self, label: str, cells: dict[str, str], measured: LoggedMetric
    ) -> float | None:
        """Read a score; None if there is none, or it is not finite."""
        text = cells.get(self._mapping.column_of(measured), "")
        number = parse_number(text)
        if number is None:
            got = format_value(text)
            self.problems.append(f"{label}: {measured.metric} is {got}, not a number")
        if number is None or not math.isfinite(number):
            return None
        if abs(fraction := number / measured.scale) > 1:
            hint = "; is it a percentage (scale: 100)?" if measured.scale == 1 else ""
            text = f"{measured.metric} is {fraction:g}, not between -1 and 1{hint}"
            self.problems.append(f"{label}: {text}")
            return None
        return fraction


def _make_slug(text: str, most: int) -> str:
    """Make a sweep's name, or a part of one, of a text; unlike texts have unlike names."""
    slug = re.sub(r"[^A-Za-z0-9_.-]", "-", text)
    is_slug = slug == text and len(text) <= most
    return text if is_slug else f"{slug[: most - 7]}-{canonical_hash(text)[:6]}"


def _parse_time(text: str | None) -> datetime | None:
    """Parse a time, or milliseconds since 1970; UTC if it has no time zone."""
    import pandas as pd

    if not text:
        return None
    number = int(text) * 1_000_000 if text.isdecimal() else text  # pandas counts nanoseconds
    time = pd.to_datetime(number, utc=True, errors="coerce")
    if isinstance(time, pd.Timestamp) and 1970 <= time.year < 2200:  # others mark a gap
        return datetime.fromtimestamp(time.timestamp(), UTC)
    return None


def _make_evaluation(finished: TrialFinished, scores: dict[str, float]) -> TrialEvaluated:
    means = {
        average: sum(scores[task] for task in tasks) / len(tasks)
        for average, tasks in _AVERAGES.items()
        if scores.keys() >= set(tasks)
    }
    identity = canonical_hash([IMPORTED, "test"])
    return TrialEvaluated(
        time=finished.time,
        sweep=finished.sweep,
        trial=finished.trial,
        tasks=tuple(sorted(scores)),
        settings=IMPORTED,
        source=IMPORTED,
        scores=tuple(
            TrialScore(
                task=task, split="test", metric=SCORED_BY[task], value=value, identity=identity
            )
            for task, value in (means | scores).items()
        ),
        similarities=(),
        identities={identity: {"source": IMPORTED}},
        seconds={},
    )
