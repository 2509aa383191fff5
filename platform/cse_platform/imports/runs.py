"""Converts runs of other trackers to trials by a mapping file; reports all problems at once."""

import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from cse_methods.data.dev_selection import dev_metric
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, STS_TASKS, TRANSFER_TASKS
from cse_platform.imports.mapping import (
    SCORED_BY,
    Logged,
    LoggedMetric,
    RunMapping,
    read_mapping,
    refuse_unknown_names,
)
from cse_platform.imports.tables import read_table, with_point
from cse_platform.imports.trials import RECORD, ImportedTrial, find_rivals, refuse
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow.logged_runs import LoggedRun, read_logged_runs
from cse_platform.stores.mlflow.tags import REHEARSAL
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.problems import did_you_mean, dotted_path, format_value, problems_in
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
_TEST_IDENTITY = canonical_hash([IMPORTED, "test"])
_STATES: dict[str, TrialState | None] = {
    **dict.fromkeys(("finished", "complete", "completed", "done", "terminated"), "COMPLETE"),
    **dict.fromkeys(("success", "succeeded", "successful", "published"), "COMPLETE"),
    **dict.fromkeys(("failed", "fail", "failure", "crashed", "killed", "error", "errored"), "FAIL"),
    **dict.fromkeys(("aborted", "cancelled", "canceled", "preempted", "timeout"), "FAIL"),
    **dict.fromkeys(("node_fail", "out_of_memory", "interrupted", "stopped"), "FAIL"),
    "pruned": "PRUNED",
    **dict.fromkeys(("running", "pending", "scheduled", "queued", "waiting", "preempting")),
    **dict.fromkeys(("in_progress", "created", "starting", "paused", "resuming")),
}
"""Our states by those of W&B, MLflow, Optuna, Ray Tune, ClearML and Slurm; None has not ended."""


def read_runs(
    source: str, mapping_file: Path, *, mlflow: bool
) -> tuple[list[ImportedTrial], str, int]:
    """Read all runs that the mapping file selects, or none, from a table or an MLflow store.

    Returns the trials, the name of the source without passwords, and the number of runs that are
    left out because they have not ended. Raises ImportRefusedError with every problem of the
    mapping file, of the table, or of the runs; StoreError if the store cannot be reached.
    """
    mapping = read_mapping(mapping_file, mlflow=mlflow)
    if mlflow:
        name, metric = mask_url(source), mapping.dev.metric
        runs = list(read_logged_runs(source, mapping.experiments, mapping.filter, metric))
    else:
        name, runs = Path(source).name, read_table(Path(source), mapping)
    refuse_unknown_names(mapping_file, mapping, runs)
    problems: list[str] = []
    trials = []
    for run in runs:
        reader = _Reader(mapping, run)
        state = reader.read_state()
        if state is not None:
            record = f"{'MLflow' if mlflow else 'table'} run {run.id}"
            trials.append(reader.read_trial(state, {RECORD: record, "imported_from": name}))
        problems += reader.problems
    way = "by its 'filter'" if mlflow else f"of {name}"
    head = f"nothing is imported; mend {mapping_file}, or leave runs out {way}:"
    refuse([*dict.fromkeys(problems)], head)
    refuse([*find_rivals(trials, {})])
    return trials, name, len(runs) - len(trials)


class _Reader:
    """Converts one run, and collects its problems."""

    def __init__(self, mapping: RunMapping, run: LoggedRun) -> None:
        self._mapping, self._run = mapping, run
        self.problems: list[str] = []

    def read_state(self) -> TrialState | None:
        """Translate its state; None if it has not ended."""
        logged = self._mapping.state
        text = self._run.status
        if logged is not None:
            text = self._read_text(logged.model_copy(update={"names": {}}))
            text = logged.names.get(text, text)
        if text.strip().lower() not in _STATES:
            way = "translate it by state: {param: …, names: {…: finished}}"
            self._add_problem(f"its state is {format_value(text)}, which is not known; {way}")
        return _STATES.get(text.strip().lower())

    def read_trial(self, state: TrialState, provenance: dict[str, str]) -> ImportedTrial:
        """Convert it to the events of a trial, which mean nothing if there are problems."""
        mapping, run = self._mapping, self._run
        self.problems += run.problems
        if REHEARSAL in run.tags:
            self._add_problem("a rehearsal, made by cse-sweep --smoke: it means nothing")
        method, backbone = self._read_text(mapping.method), self._read_text(mapping.backbone)
        values, seed = self._read_values(method, state), self._read_seed()
        name, dev = dev_metric(mapping.dev.set), mapping.dev.set
        configuration = canonical_hash([IMPORTED, method, backbone, values, dev, mapping.sweep])
        # Trials of different methods or backbones are different sweeps.
        read = ((mapping.method, method), (mapping.backbone, backbone))
        varying = [_make_name(text) for source, text in read if source != text]
        of = {
            "sweep": _shorten("-".join([mapping.sweep, *varying]), 100),
            "trial": canonical_hash([IMPORTED, configuration, seed]),
        }
        # Its identity makes a sweep's imports of one dev task comparable with each other alone.
        identity = canonical_hash([IMPORTED, "dev", dev, mapping.sweep])
        started = TrialStarted(
            **of,
            time=run.started,
            number=0,
            role="search",
            search_number=None,
            seed=seed,
            method=method,
            revision=0,
            backbone=backbone,
            configuration=configuration,
            values=values,
            searched=tuple(k for k, v in mapping.hyperparameters.items() if isinstance(v, str)),
            dev={"checkpoint": dev, "search": dev, "identity": identity}
            | {"source": IMPORTED, "corpus": IMPORTED},
        )
        curve = {each.step: each for each in run.curve if math.isfinite(each.value)}
        points = []
        for step, each in curve.items():
            value = self._convert_to_fraction(mapping.dev, each.value)
            metrics = {name: value}
            points.append(TrialPoint(**of, time=each.time, step=step, value=value, metrics=metrics))
        # The earliest of the best trained steps counts. Without steps there is no curve.
        best = max((p for p in points if p.step), key=lambda p: (p.value, -p.step), default=None)
        if best is None and mapping.step is None and points:
            best, points = points[-1], []
        ended = run.ended or max((point.time for point in points), default=run.started)
        error = f"its state is {run.status}" if state == "FAIL" else None
        if state == "COMPLETE" and best is None:
            state, error = "FAIL", f"it has no {mapping.dev.metric} that is a number"
        scores = {
            task: self._convert_to_fraction(score, value)
            for task, score in mapping.scores.items()
            if state != "FAIL" and math.isfinite(value := run.metrics.get(score.metric, math.nan))
        }
        finished = TrialFinished(
            **of,
            time=ended,
            state=state,
            best_step=best.step if best and points else None,
            best_value=best.value if best else None,
            best_metrics=best.metrics if best else {},
            error=error,
            wall_seconds=(ended - run.started).total_seconds(),
            provenance=provenance
            | {"user": run.user}
            | ({"test_scores": IMPORTED} if scores else {}),
        )
        evaluated = _make_evaluation(finished, scores) if scores else None
        return ImportedTrial(run.label, started, tuple(points), finished, evaluated)

    def _add_problem(self, text: str) -> None:
        self.problems.append(f"{self._run.label}: {text}")

    def _read_text(self, source: str | Logged) -> str:
        """Return a fixed value of the mapping, or what the run logged as a param or tag."""
        if isinstance(source, str):
            return source
        logged = self._run.params if source.param else self._run.tags
        value = logged.get(source.param or source.tag or "")
        if value is None:
            self._add_problem(f"it has no {source.place}")
        elif source.names and value not in source.names:
            got = format_value(value)
            self._add_problem(f"{source.place} is {got}, which 'names' does not translate")
        return source.names.get(value or "", value or "-")

    def _read_seed(self) -> int:
        if isinstance(self._mapping.seed, int):
            return self._mapping.seed
        before = len(self.problems)
        text = self._read_text(self._mapping.seed)
        if len(self.problems) > before:
            return 0
        try:  # a column with gaps has 42.0
            number = float(with_point(text))
            if number.is_integer() and 0 <= number < 2**32:
                return int(number)
        except ValueError:
            pass
        self._add_problem(f"its seed must be a whole number from 0, got {format_value(text)}")
        return 0

    def _read_values(self, method: str, state: TrialState) -> dict[str, Any]:
        """Read the hyperparameters, in the types of the method's settings if it is installed.

        A run that failed may lack some.
        """
        try:
            fields = get_method(method).config.model_fields
        except UnknownMethodError:
            fields = None
        values: dict[str, Any] = {}
        for name, param in self._mapping.hyperparameters.items():
            given = param if isinstance(param, str) else param.value
            if isinstance(param, str):
                if param not in self._run.params and state == "FAIL":
                    continue
                if param not in self._run.params:
                    self._add_problem(f"it has no param {param!r} ({name})")
                    continue
                given = _parse_text(self._run.params[param])
            if fields is None:
                values[name] = given
            elif name not in fields:
                hint = did_you_mean(name, fields)
                self._add_problem(f"{name}: {method} has no such hyperparameter{hint}")
            else:
                kind: Any = Annotated[fields[name].annotation, fields[name]]  # with its bounds
                adapter = TypeAdapter[Any](kind)
                try:
                    try:
                        value = adapter.validate_python(given)
                    except ValidationError:
                        value = adapter.validate_python(_parse_text(with_point(str(given))))
                    values[name] = adapter.dump_python(value, mode="json")
                except ValidationError as error:
                    for problem in problems_in(error, given):
                        path = dotted_path((name, *problem.path))
                        self._add_problem(f"{path}: {problem.text}")
        return values

    def _convert_to_fraction(self, measured: LoggedMetric, value: float) -> float:
        if abs(fraction := value / measured.scale) > 1:
            hint = "; is it a percentage (scale: 100)?" if measured.scale == 1 else ""
            text = f"{measured.metric} is {fraction:g}, not between -1 and 1{hint}"
            self._add_problem(text)
        return fraction


def _make_name(text: str) -> str:
    """Make a part of a sweep's name of a text; unlike texts have unlike names."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", text)
    return name if name == text else f"{_shorten(name, 40)}-{canonical_hash(text)[:6]}"


def _shorten(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 7]}-{canonical_hash(name)[:6]}"


def _parse_text(text: str) -> Any:
    """Parse a text as a YAML number, boolean, list or null; otherwise return the text."""
    try:
        source = read_yaml("null" if text == "None" else text)
    except UnreadableYamlError:
        return text
    return text if source.problems else source.data


def _make_evaluation(finished: TrialFinished, scores: dict[str, float]) -> TrialEvaluated:
    means = {
        average: sum(scores[task] for task in tasks) / len(tasks)
        for average, tasks in _AVERAGES.items()
        if scores.keys() >= set(tasks)
    }
    return TrialEvaluated(
        time=finished.time,
        sweep=finished.sweep,
        trial=finished.trial,
        tasks=tuple(sorted(scores)),
        settings=IMPORTED,
        source=IMPORTED,
        scores=tuple(
            TrialScore(
                task=task,
                split="test",
                metric=SCORED_BY[task],
                value=value,
                identity=_TEST_IDENTITY,
            )
            for task, value in (means | scores).items()
        ),
        similarities=(),
        identities={_TEST_IDENTITY: {"source": IMPORTED}},
        seconds={},
    )
