"""Reads logs of training scripts in the style of Hugging Face's Trainer, one file per trial."""

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from cse_methods.data.dev_selection import DevTask, dev_metric
from cse_methods.files.digest import file_sha256
from cse_methods.settings import Settings
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.mapping import Text, parse_text, typed_values
from cse_platform.imports.records import RECORD, ImportedPoint, ImportedTrial, refuse_rivals
from cse_platform.sweep.blocks import Seed, Slug
from cse_platform.sweep.problems import did_you_mean, dotted_path, problems_in

_DICT = re.compile(r"\{[^{}]*\}")
_NOT_FINITE = re.compile(r"(?<=: )-?(?:nan|inf)\b", re.IGNORECASE)

LogEntry = dict[str, float]


def read_log(file: Path) -> list[LogEntry]:
    """Read the numbers of all dictionaries in a log. Raises ImportRefusedError if unreadable."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ImportRefusedError(f"{file} cannot be read: {error.strerror}") from None
    lines = (_extract_numbers(entry) for entry in _iter_dictionaries(text))
    return [line for line in lines if line]


def _iter_dictionaries(text: str) -> Iterator[Mapping[str, Any]]:
    state = _parse_json(text)
    if isinstance(state, dict) and isinstance(state.get("log_history"), list):
        yield from (entry for entry in state["log_history"] if isinstance(entry, dict))
        return
    for line in text.splitlines():
        whole = _parse_json(line) if line.startswith("{") else None
        if isinstance(whole, dict):
            yield whole
            continue
        for match in _DICT.finditer(line):  # a progress bar can precede it
            if isinstance(entry := _parse_literal(match[0]), dict):
                yield entry


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _parse_literal(text: str) -> Any:
    try:
        return ast.literal_eval(_NOT_FINITE.sub("'nan'", text))
    except (ValueError, SyntaxError):
        return None


def _extract_numbers(entry: Mapping[Any, Any]) -> LogEntry:
    """Extract the numbers of a dictionary; newer trainers print them as text."""
    line = {}
    for key, value in entry.items():
        try:
            line[str(key)] = float(value)
        except (TypeError, ValueError):
            continue
    return line


DEV_KEYS: dict[DevTask, str] = {
    "stsb": "eval_stsb_spearman",
    "sickr": "eval_sickr_spearman",
    "transfer_dev": "eval_avg_transfer",
}
"""Names of the dev scores in SimCSE's training script and scripts derived from it."""

SPEARMAN: tuple[DevTask, ...] = ("stsb", "sickr")


class LogSettings(Settings):
    """Settings that a log does not contain and the user provides."""

    sweep: Slug
    method: Text
    backbone: Text
    seed: Seed = 42
    values: dict[str, Any] = Field(default={}, description="hyperparameters by our names")
    dev: DevTask = "stsb"
    scale: float = Field(default=1.0, gt=0, description="what dev scores are divided by")
    steps_per_epoch: int | None = Field(default=None, ge=1)


def log_settings(values: Mapping[str, str], **given: Any) -> LogSettings:
    """Make settings from command-line options. Raises ImportRefusedError, with all problems.

    `values` are hyperparameters as text; they are converted to the method's types, if it is one of
    ours.
    """
    parsed = {name: parse_text(text) for name, text in values.items()}
    typed, problems = typed_values(given["method"], parsed)
    problem_texts = [f"--set {dotted_path(problem.path)}: {problem.text}" for problem in problems]
    try:
        settings = LogSettings(**given, values=typed)
    except ValidationError as error:
        refusals = problems_in(error, given)
        problem_texts += [f"--{dotted_path(p.path).replace('_', '-')}: {p.text}" for p in refusals]
    if problem_texts:
        raise ImportRefusedError("; ".join(problem_texts))
    return settings


@dataclass(frozen=True)
class LogsToImport:
    sweeps: dict[str, list[ImportedTrial]]
    source: str
    """A readable name of their source."""
    points: int
    repeated: int
    """Number of repeated evaluations at a step, which are dropped: the first values stay."""


def read_logs(files: Sequence[Path], settings: LogSettings) -> LogsToImport:
    """Read logs, all or none: standard output of trainings, JSON lines or `trainer_state.json`.

    Raises ImportRefusedError with every file that is not a valid trial and why, or with rival
    trials.
    """
    trials, problems, evaluations = [], [], 0
    for file in files:
        try:
            lines = read_log(file)
            trials.append(_make_trial(file, lines, settings))
            evaluations += sum(DEV_KEYS[settings.dev] in line for line in lines)
        except ImportRefusedError as error:
            problems.append(str(error))
    if problems:
        raise ImportRefusedError("\n  ".join(["nothing is imported:", *problems]))
    sweeps = {settings.sweep: trials}
    refuse_rivals(sweeps)
    source = files[0].name if len(files) == 1 else f"{len(files)} logs"
    points = sum(len(trial.points) for trial in trials)
    return LogsToImport(sweeps, source, points, evaluations - points)


def _make_trial(file: Path, lines: Sequence[LogEntry], settings: LogSettings) -> ImportedTrial:
    points = _collect_points(file, lines, settings)
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    runtime = next((line["train_runtime"] for line in lines if "train_runtime" in line), None)
    trial = ImportedTrial(
        name=str(file),
        sweep_name=settings.sweep,
        method=settings.method,
        backbone=settings.backbone,
        values=settings.values,
        searched=(),
        seed=settings.seed,
        dev=settings.dev,
        state="COMPLETE",
        # A log has no times: the training ended when the file was last modified.
        started=written - timedelta(seconds=runtime or 0),
        finished=written,
        points=tuple(ImportedPoint(step, written, metrics) for step, metrics in points.items()),
        provenance={RECORD: f"log {file_sha256(file)}", "imported_from": file.name},
        wall_seconds=runtime,
    )
    if not trial.best[1]:
        key = DEV_KEYS[settings.dev]
        raise ImportRefusedError(f"{file} has no {key} after step 0 that is a number")
    return trial


def _collect_points(
    file: Path, lines: Sequence[LogEntry], settings: LogSettings
) -> dict[int, LogEntry]:
    """Collect the dev scores by step, each with the last training loss logged before it."""
    key = DEV_KEYS[settings.dev]
    tasks = ("transfer_dev",) if settings.dev == "transfer_dev" else SPEARMAN
    points: dict[int, LogEntry] = {}
    loss: LogEntry = {}
    for line in lines:
        if "loss" in line:
            loss = {"train/loss": line["loss"]}
        if key not in line:
            continue
        scores = {
            dev_metric(task): _convert_to_fraction(file, name, line[name], settings.scale)
            for task in tasks
            if (name := DEV_KEYS[task]) in line
        }
        points.setdefault(_find_step(file, line, settings.steps_per_epoch), scores | loss)
    if not points:
        raise ImportRefusedError(f"{file} has no {key!r}{_describe_keys(lines, key)}")
    return points


def _describe_keys(lines: Sequence[LogEntry], key: str) -> str:
    keys = sorted({name for line in lines for name in line})
    if not keys:
        return ", nor any other dictionary of numbers"
    return f"{did_you_mean(key, keys)}; it has {', '.join(keys)} (--dev names another dev set)"


def _convert_to_fraction(file: Path, name: str, value: float, scale: float) -> float:
    if abs(fraction := value / scale) > 1:
        hint = "; for percentages, write --scale 100" if scale == 1 else ""
        raise ImportRefusedError(f"{file}: {name} is {fraction:g}, not between -1 and 1{hint}")
    return fraction


def _find_step(file: Path, line: LogEntry, steps_per_epoch: int | None) -> int:
    if math.isfinite(step := line.get("step", math.nan)):
        return int(step)
    if not math.isfinite(epoch := line.get("epoch", math.nan)):
        raise ImportRefusedError(f"{file}: an evaluation has neither 'step' nor 'epoch'")
    if steps_per_epoch is None:
        raise ImportRefusedError(
            f"{file} counts in epochs; write --steps-per-epoch N, the optimiser steps of one "
            "(sentences / batch size)"
        )
    return round(epoch * steps_per_epoch)
