"""Converts runs of other trackers to trials by a mapping file; reports all problems at once."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from cse_methods.data.dev_selection import dev_metric
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.exports import TableRuns, TrackioRuns
from cse_platform.imports.mapping import (
    Logged,
    LoggedMetric,
    MLflowMapping,
    RunMapping,
    config_of,
    load_mapping,
    mapping_error,
    parse_text,
    typed_values,
)
from cse_platform.imports.records import RECORD, ImportedPoint, ImportedTrial, refuse_rivals
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.logged_runs import LoggedRun, LoggedRuns, LoggedValue
from cse_platform.stores.mlflow.tags import REHEARSAL
from cse_platform.sweep.problems import Problem, did_you_mean, dotted_path, format_value
from cse_platform.sweep.yaml_file import YamlDocument
from cse_platform.tracking.events import IMPORTED

UNFINISHED = ("RUNNING", "SCHEDULED")
MAX_NAMED = 20
"""Maximum number of runs' problems in one message."""


class RunSource(Protocol):
    """The runs logged by another tracker."""

    kind: str
    """The name of the tracker, or of its file format."""

    def find_runs(self, experiments: Sequence[str], *, condition: str = "") -> Iterable[LoggedRun]:
        """Find the runs; only MLflow has experiments and filter conditions."""

    def history(self, run: str, metric: str) -> Sequence[LoggedValue]:
        """Read all values of a run's metric, in order of step and time."""


@dataclass(frozen=True)
class RunsToImport:
    sweeps: dict[str, list[ImportedTrial]]
    source: str
    """The store that they come from, without passwords."""
    total: int
    unfinished: int
    """Number of runs that are left out because they have not ended."""


def read_runs(uri: str, mapping_file: Path) -> RunsToImport:
    """Read all MLflow runs that the mapping file selects, or none; the store is only read.

    Raises ImportRefusedError with every problem of the mapping file, or of the runs; StoreError if
    the store cannot be reached.
    """
    mapping, document = load_mapping(mapping_file, MLflowMapping)
    store = LoggedRuns(uri)
    runs = list(store.find_runs(mapping.experiments, condition=mapping.filter))
    return _convert_runs(runs, store, mask_url(uri), mapping, mapping_file, document)


def read_exported_runs(
    file: Path, mapping_file: Path, source: type[TableRuns | TrackioRuns]
) -> RunsToImport:
    """Read all runs of a file that another tracker wrote, or none.

    Raises ImportRefusedError with every problem of the mapping file, or of the runs.
    """
    mapping, document = load_mapping(mapping_file, RunMapping)
    opened = source(str(file))
    return _convert_runs(
        list(opened.find_runs()), opened, file.name, mapping, mapping_file, document
    )


def _convert_runs(
    runs: Sequence[LoggedRun],
    store: RunSource,
    name: str,
    mapping: RunMapping,
    mapping_file: Path,
    document: YamlDocument,
) -> RunsToImport:
    ended = [run for run in runs if run.status not in UNFINISHED]
    if problems := list(_find_unknown_names(mapping, ended)):
        raise mapping_error(mapping_file, problems, document)
    reader = _Reader(mapping, store, name)
    trials = [trial for run in ended if (trial := reader.trial(run))]
    if reader.problems:
        way = "by its 'filter'" if isinstance(mapping, MLflowMapping) else f"of {name}"
        each = list(Counter(reader.problems))
        left = [f"and {len(each) - MAX_NAMED} more"] if len(each) > MAX_NAMED else []
        head = f"nothing is imported; mend {mapping_file}, or leave runs out {way}:"
        raise ImportRefusedError("\n  ".join([head, *each[:MAX_NAMED], *left]))
    sweeps: dict[str, list[ImportedTrial]] = defaultdict(list)
    for trial in trials:
        sweeps[mapping.sweep_of(trial.method, trial.backbone)].append(trial)
    refuse_rivals(sweeps)
    return RunsToImport(sweeps, name, len(runs), len(runs) - len(ended))


def _find_unknown_names(mapping: RunMapping, runs: Sequence[LoggedRun]) -> Iterator[Problem]:
    """Yield names in the file that no run has logged, and hyperparameters that the method lacks."""
    config = config_of(mapping.method) if isinstance(mapping.method, str) else None
    for name, param in mapping.hyperparameters.items():
        yield from _find_absent_name(
            ("hyperparameters", name), "param", param, [r.params for r in runs]
        )
        if config and name not in config.model_fields:
            text = f"{mapping.method} has no such hyperparameter"
            yield Problem(("hyperparameters", name), text + did_you_mean(name, config.model_fields))
    for key in ("method", "backbone", "seed"):
        logged = getattr(mapping, key)
        if isinstance(logged, Logged) and logged.param:
            yield from _find_absent_name(
                (key, "param"), "param", logged.param, [r.params for r in runs]
            )
        elif isinstance(logged, Logged) and logged.tag:
            yield from _find_absent_name((key, "tag"), "tag", logged.tag, [r.tags for r in runs])
    metrics = [run.metrics for run in runs]
    yield from _find_absent_name(("dev", "metric"), "metric", mapping.dev.metric, metrics)
    for task, score in mapping.scores.items():
        yield from _find_absent_name(("scores", task, "metric"), "metric", score.metric, metrics)


def _find_absent_name(
    path: tuple[str, ...], kind: str, name: str, logged: Sequence[Mapping[str, Any]]
) -> Iterator[Problem]:
    known = sorted({key for values in logged for key in values})
    if logged and name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
        yield Problem(path, f"no run has a {kind} {name!r}{hint}")


class _Reader:
    def __init__(self, mapping: RunMapping, store: RunSource, source: str) -> None:
        self._mapping, self._store, self._source = mapping, store, source
        self.problems: list[str] = []

    def trial(self, run: LoggedRun) -> ImportedTrial | None:
        """Convert a run to a trial; if that fails, add its problems and return None."""
        before = len(self.problems)
        if REHEARSAL in run.tags:
            self._add_problem(run, "a rehearsal, made by cse-sweep --smoke: it means nothing")
        method = self._read_text(run, self._mapping.method)
        points, final = self._read_curve(run)
        backbone, seed = self._read_text(run, self._mapping.backbone), self._read_seed(run)
        values = self._read_values(run, method)
        scores = {
            task: self._convert_to_fraction(run, score, run.metrics[score.metric])
            for task, score in self._mapping.scores.items()
            if score.metric in run.metrics
        }
        if len(self.problems) > before:
            return None
        ended = run.ended or max((point.time for point in points), default=run.started)
        trial = ImportedTrial(
            name=_format_name(run),
            sweep_name=self._mapping.sweep,
            method=method,
            backbone=backbone,
            values=values,
            searched=tuple(self._mapping.hyperparameters),
            seed=seed,
            dev=self._mapping.dev.set,
            state="COMPLETE",
            started=run.started,
            finished=ended,
            provenance={
                RECORD: f"{self._store.kind} run {run.id}",
                "imported_from": self._source,
                "user": run.user,
                **({"test_scores": IMPORTED} if scores else {}),
            },
            points=points,
            final=final,
            scores=scores,
            wall_seconds=(ended - run.started).total_seconds(),
        )
        if error := _explain_failure(run, trial, self._store.kind, self._mapping.dev.metric):
            return replace(trial, state="FAIL", error=error, scores={})
        return trial

    def _add_problem(self, run: LoggedRun, text: str) -> None:
        self.problems.append(f"{_format_name(run)}: {text}")

    def _read_text(self, run: LoggedRun, source: str | Logged) -> str:
        """Return a fixed value of the mapping, or what the run logged as a param or tag."""
        if isinstance(source, str):
            return source
        logged = run.params if source.param else run.tags
        value = logged.get(source.param or source.tag or "")
        if value is None:
            self._add_problem(run, f"it has no {source.place}")
        elif source.names and value not in source.names:
            got = format_value(value)
            self._add_problem(run, f"{source.place} is {got}, which 'names' does not translate")
        return source.names.get(value or "", value or "")

    def _read_seed(self, run: LoggedRun) -> int:
        if isinstance(self._mapping.seed, int):
            return self._mapping.seed
        value = parse_text(self._read_text(run, self._mapping.seed))
        if not isinstance(value, int) or not 0 <= value < 2**32:
            got = format_value(value)
            self._add_problem(run, f"its seed must be a whole number from 0, got {got}")
            return 0
        return value

    def _read_values(self, run: LoggedRun, method: str) -> dict[str, Any]:
        given = {}
        for name, param in self._mapping.hyperparameters.items():
            if param in run.params:
                given[name] = parse_text(run.params[param])
            else:
                self._add_problem(run, f"it has no param {param!r} ({name})")
        values, problems = typed_values(method, given)
        for problem in problems:
            self._add_problem(run, f"{dotted_path(problem.path)}: {problem.text}")
        return values

    def _read_curve(self, run: LoggedRun) -> tuple[tuple[ImportedPoint, ...], dict[str, float]]:
        """Read the dev curve, or only the last value if the values were logged without steps."""
        dev, name = self._mapping.dev, dev_metric(self._mapping.dev.set)
        if dev.metric not in run.metrics:
            return (), {}
        # Of several values at one step the last one counts, as in MLflow.
        by_step = {value.step: value for value in self._store.history(run.id, dev.metric)}
        points = tuple(
            ImportedPoint(
                value.step, value.time, {name: self._convert_to_fraction(run, dev, value.value)}
            )
            for value in by_step.values()
        )
        return (points, {}) if any(point.step for point in points) else ((), points[-1].metrics)

    def _convert_to_fraction(self, run: LoggedRun, measured: LoggedMetric, value: float) -> float:
        if abs(fraction := value / measured.scale) > 1:
            hint = "; is it a percentage (scale: 100)?" if measured.scale == 1 else ""
            self._add_problem(run, f"{measured.metric} is {fraction:g}, not between -1 and 1{hint}")
        return fraction


def _explain_failure(run: LoggedRun, trial: ImportedTrial, kind: str, metric: str) -> str | None:
    if run.status != "FINISHED":
        return f"{run.status} in {kind}"
    if not math.isfinite(trial.best[1].get(dev_metric(trial.dev), math.nan)):
        return f"it has no {metric} that is a number"
    return None


def _format_name(run: LoggedRun) -> str:
    return f"run {run.name} ({run.id[:8]})"
