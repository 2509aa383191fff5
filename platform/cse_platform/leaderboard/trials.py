"""Queries of trials: summaries, dev curves, durations, kept models and test access."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, Text, cast, func, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.records import TrialSummary
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import MODEL_DIGITS

ANY_SPACE = Space({})
"""The space of a sweep whose file is not read or unknown: summaries then have the values that the
first sweep with the configuration searched.
"""


_SUMMARY: dict[str, Any] = {
    "id": TrialRecord.id,
    "number": SweepTrialRecord.number,
    "key": TrialRecord.key,
    "state": TrialRecord.state,
    "seed": TrialRecord.seed,
    "role": SweepTrialRecord.role,
    "configuration": ConfigurationRecord.hash,
    "value": TrialRecord.best_value,
    "step": TrialRecord.best_step,
    "started": TrialRecord.started,
    "finished": TrialRecord.finished,
    "sweep": SweepRecord.name,
    "method": GroupRecord.method,
    "backbone": GroupRecord.backbone,
    "model": TrialRecord.model,
    "error": TrialRecord.error,
    "averages": ConfigurationRecord.averages,
    "all_values": ConfigurationRecord.values,
    "searched": ConfigurationRecord.searched,
}
"""Columns that `summarize` reads, by label."""


def _of_points(quantity: Any) -> ScalarSelect[Any]:
    """Select an aggregate over the dev points of a trial."""
    query = select(quantity).where(DevPointRecord.trial_id == TrialRecord.id)
    return query.correlate(TrialRecord).scalar_subquery()


BEST_SCORE = func.coalesce(TrialRecord.best_value, _of_points(func.max(DevPointRecord.value)))
"""The dev score of the best checkpoint; for a running trial, the best so far."""
LAST_STEP = _of_points(func.max(DevPointRecord.step))
FIRST_REPORTED = _of_points(func.min(DevPointRecord.reported_at))


def select_trials(*columns: Any) -> Select[Any]:
    """Select columns of trials, of their links to sweeps and of their configurations.

    A trial appears once for each sweep that holds it.
    """
    return (
        select(*columns)
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
    )


def select_summaries(**columns: Any) -> Select[Any]:
    """Select trials in all their sweeps, to be filtered further; `summarize` reads the result rows.

    `columns` add fields of `TrialSummary` by name, or replace the values of fields.
    """
    labelled = (column.label(name) for name, column in (_SUMMARY | columns).items())
    return select_trials(*labelled).join(SweepTrialRecord.sweep).join(ConfigurationRecord.group)


def summarize(
    line: Row[Any], space: Space = ANY_SPACE, *, searched_only: bool = True
) -> TrialSummary:
    """Turn a result row of `select_summaries` into a summary.

    Its hyperparameters are the active searched ones, or all active ones if not `searched_only`.
    """
    fields = dict(line._mapping)
    del fields["id"]
    values, searched = fields.pop("all_values"), fields.pop("searched")
    fields["averages"] = len(fields["averages"] or ())
    if not searched_only:
        taken = drop_inactive_values(space, values)
    elif len(space):
        taken = space.active(values)
    else:
        taken = {name: values[name] for name in searched if name in values}
    if "best_metrics" in fields:
        metrics = fields["best_metrics"] or {}
        fields["best_metrics"] = {name: v for name, v in metrics.items() if v is not None}
    return TrialSummary(**fields, values=taken)


def drop_inactive_values(space: Space, values: dict[str, Any]) -> dict[str, Any]:
    """Drop the values of inactive hyperparameters; the order is kept."""
    return {
        name: value
        for name, value in values.items()
        if name not in space or space.is_active(name, values)
    }


def find_summaries(session: Session, *conditions: ColumnElement[bool]) -> list[TrialSummary]:
    """Find the trials that meet these conditions, each in the first sweep that holds it."""
    query = select_summaries().where(_is_first_place(), *conditions)
    return [summarize(line) for line in session.execute(query.order_by(TrialRecord.id))]


def configuration_values(session: Session, key: str) -> dict[str, Any] | None:
    """Read all hyperparameters of the trial of a full key; None if it is not stored."""
    query = select(ConfigurationRecord.values).join(ConfigurationRecord.seeds)
    return session.scalar(query.where(TrialRecord.key == key))


def _is_first_place() -> ColumnElement[bool]:
    """Match the link of a trial to the first sweep that holds it."""
    link = aliased(SweepTrialRecord)
    query = select(func.min(link.sweep_id)).where(link.trial_id == TrialRecord.id)
    return SweepTrialRecord.sweep_id == query.correlate(TrialRecord).scalar_subquery()


@dataclass(frozen=True)
class DevPoint:
    """One point of a dev curve."""

    step: int
    value: float | None
    """The dev score, a fraction; None if it was NaN."""
    metrics: dict[str, float | None]
    kept: bool = False
    """Whether the best checkpoint, chosen by `dev: {checkpoint: …}`, is of this step."""


def dev_curve(session: Session, trial: str) -> list[DevPoint]:
    """Read the dev curve of a trial, by its key, in order of steps; empty if there is none."""
    return dev_curves(session, [trial])[trial]


def dev_curves(session: Session, trials: Sequence[str]) -> dict[str, list[DevPoint]]:
    """Read the dev curves of trials, by their keys, in order of steps; empty if there is none."""
    query = (
        select(TrialRecord.key, TrialRecord.best_step, DevPointRecord)
        .join(TrialRecord.points)
        .where(TrialRecord.key.in_(trials))
        .order_by(DevPointRecord.trial_id, DevPointRecord.step)
    )
    curves: dict[str, list[DevPoint]] = {trial: [] for trial in trials}
    for key, best, point in session.execute(query):
        curves[key].append(dev_point(point, best_step=best))
    return curves


def dev_point(stored: DevPointRecord, *, best_step: int | None) -> DevPoint:
    """Convert a stored dev point; `best_step` is the trial's."""
    return DevPoint(stored.step, stored.value, stored.metrics, kept=stored.step == best_step)


@dataclass(frozen=True)
class CompleteCurve:
    """The dev curve of a complete trial."""

    trial: str
    """The trial's key."""
    configuration: str
    """The configuration's hash, which all seeds share."""
    values: dict[int, float]
    """The dev score by step, a fraction; steps with NaN are left out."""


def complete_curves(
    session: Session, *, method: str, backbone: str, dev_identity: str, corpus: str, limit: int
) -> list[CompleteCurve]:
    """Read the dev curves of the newest complete trials of a method on a backbone, in all sweeps.

    Only trials with this corpus and these dev sets count.
    """
    newest = (
        select(TrialRecord.id)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .where(
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            GroupRecord.dev_identity == dev_identity,
            ConfigurationRecord.corpus == corpus,
            TrialRecord.state == "COMPLETE",
        )
        .order_by(TrialRecord.finished.desc(), TrialRecord.id.desc())
        .limit(limit)
        .subquery()
    )
    query = (
        select(TrialRecord.key, ConfigurationRecord.hash, DevPointRecord.step, DevPointRecord.value)
        .join(TrialRecord.points)
        .join(TrialRecord.configuration)
        .where(TrialRecord.id.in_(select(newest.c.id)))
        .order_by(TrialRecord.id, DevPointRecord.step)
    )
    curves: dict[str, CompleteCurve] = {}
    for trial, configuration, step, value in session.execute(query):
        curve = curves.setdefault(trial, CompleteCurve(trial, configuration, {}))
        if value is not None:
            curve.values[step] = value
    return list(curves.values())


NEWEST = 50
"""Number of trials that `past_trials` reads."""


def past_trials(session: Session, *, method: str, backbone: str, gpu: bool) -> list[TrialSummary]:
    """Read the newest complete trials of a method on a backbone, with a GPU or without.

    They have their durations, their last steps and all their active hyperparameters.
    """
    durations = {"wall_seconds": TrialRecord.wall_seconds, "first_reported": FIRST_REPORTED}
    query = (
        select_summaries(step=LAST_STEP, **durations)
        .where(
            _is_first_place(),
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            TrialRecord.state == "COMPLETE",
            TrialRecord.wall_seconds > 0,
            (TrialRecord.gpu_seconds > 0) == gpu,
            LAST_STEP > 0,
        )
        .order_by(TrialRecord.id.desc())
        .limit(NEWEST)
    )
    return [summarize(line, searched_only=False) for line in session.execute(query)]


_FOLDER = re.compile(rf"models/(?:[^/\"]+/)?([0-9a-f]{{{MODEL_DIGITS}}})(?![0-9a-f])")


def used_elsewhere(session: Session, keys: Sequence[str], *, sweep: str) -> set[str]:
    """Find the trials of a sweep whose models other sweeps need.

    These are trials that other sweeps hold too, and trials whose models a stored configuration uses
    as teacher or a group as backbone.
    """
    named = set(_find_named_models(session)) if keys else set()
    return {key for key in keys if key[:MODEL_DIGITS] in named} | _find_held_elsewhere(
        session, keys, sweep
    )


def _find_held_elsewhere(session: Session, keys: Sequence[str], sweep: str) -> set[str]:
    """Find the trials that other sweeps hold too."""
    # By name, because the leaderboard may lag the journal and not have this sweep yet.
    places = select(TrialRecord.key).join(TrialRecord.places).join(SweepTrialRecord.sweep)
    query = places.where(SweepRecord.name != sweep)
    held: set[str] = set()
    for batch in in_batches(keys):
        held.update(session.scalars(query.where(TrialRecord.key.in_(batch))))
    return held


def _find_named_models(session: Session) -> Iterator[str]:
    """Find the model folders that stored configurations or backbones name."""
    values = cast(ConfigurationRecord.values, Text)
    for column in (values, GroupRecord.backbone):
        for text in session.scalars(select(column).where(column.contains("models/"))):
            yield from _FOLDER.findall(text)


BUILTIN = "builtin"
"""The source of the project's own generated data, whose scores say nothing about real data."""
TEST_SOURCES = frozenset({BUILTIN, "hub", "senteval"})
"""The sources that test sets can have."""


@dataclass(frozen=True)
class TestAccess:
    """One opening of test sets."""

    trial: str
    opened: datetime
    who: str
    command: str
    tasks: list[str]
    source: str


def as_test_access(trial: str, stored: TestAccessRecord) -> TestAccess:
    """Convert a stored opening of test sets; `trial` is the trial's key."""
    return TestAccess(trial, stored.opened, stored.who, stored.command, stored.tasks, stored.source)


def first_test_accesses(session: Session) -> dict[tuple[str, str, bool], datetime]:
    """Find when test sets were first opened for each method and backbone.

    Their scores may have influenced the choice of any configuration whose first trial started
    later; one that had been tried before counts as chosen before. Keys are the method, the backbone
    and whether the sets were built-in, whatever the trial's dev sets were.
    """
    first = func.min(TestAccessRecord.opened)
    query = (
        select(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source, first)
        .join(GroupRecord.configurations)
        .join(ConfigurationRecord.seeds)
        .join(TrialRecord.test_accesses)
        .group_by(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source)
        .order_by(first.desc())
    )
    # Hub and SentEval count as one kind: the earlier comes last and overwrites the later.
    lines = session.execute(query)
    return {(method, backbone, source == BUILTIN): at for method, backbone, source, at in lines}
