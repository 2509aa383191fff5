"""The query of trials, and the names of trials, configurations and sweeps, in one grammar.

SWEEP, SWEEP#N, METHOD@CONFIGURATION (the hash or its first digits), and a trial's key or its first
6 digits are understood everywhere. Where one trial is meant, SWEEP and METHOD@CONFIGURATION stand
for their best one. METHOD names rows.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import hexdigits
from typing import Any, Literal

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    null,
    select,
)
from sqlalchemy.orm import Session, aliased

from cse_methods.data.dev_selection import dev_metric
from cse_methods.tasks import MAIN_SCORE
from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.records import BUILTIN, DevPoint, Trial
from cse_platform.numbers import HASH_DIGITS
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    EvaluationRecord,
    GroupRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    begins_with,
    find_sweep,
    in_batches,
    sweep_or_none,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import MODEL_DIGITS, UNCHECKED_DATA, Annotatable
from cse_platform.tracking.history import stored_dev
from cse_platform.values import is_number


def _match_made_in_sweep(link: Any, trial: Any, attempt: Any) -> ColumnElement[bool]:
    own = aliased(AttemptRecord)
    made = select(own.id).where(own.trial_id == trial.id, own.journal == SweepRecord.journal)
    is_told = own.reached.is_not(None) | (own.state != "RUNNING")
    made = made.where(link.reused.is_(None), is_told).correlate(link, trial, SweepRecord)
    either = func.coalesce(made.scalar_subquery(), trial.shown_attempt)
    return and_(attempt.id == either, attempt.trial_id == trial.id)


MADE_IN_SWEEP = _match_made_in_sweep(SweepTrialRecord, TrialRecord, AttemptRecord)
"""Matches the attempt that a sweep made itself at a trial, which another sweep can have completed;
the one that the trial shows, if the sweep reused it, or a rebuild has left its results out. It
needs the sweep.
"""


def _of_points(quantity: Any, *conditions: ColumnElement[bool]) -> ScalarSelect[Any]:
    """Select a quantity of the dev points of an attempt."""
    query = select(quantity).where(DevPointRecord.attempt_id == AttemptRecord.id, *conditions)
    return query.correlate(AttemptRecord).scalar_subquery()


LAST_VALUE = _of_points(DevPointRecord.value, DevPointRecord.step == AttemptRecord.reached)


def select_results_of() -> ColumnElement[str | None]:
    """Select the sweep whose attempt a trial shows, where it is neither this one's nor reused."""
    other, shown = aliased(SweepRecord), aliased(AttemptRecord)
    name = select(other.name).join(shown, shown.journal == other.journal)
    name = name.where(shown.id == TrialRecord.shown_attempt, shown.journal != SweepRecord.journal)
    name = name.limit(1).correlate(TrialRecord, SweepRecord)
    return case((SweepTrialRecord.reused.is_(None), name.scalar_subquery()))


BUILTIN_SCORES = f"{BUILTIN}/"
"""What follows `test/` in the names of scores on built-in data, which no real score shares."""
ON_BUILTIN = (
    exists()
    .where(EvaluationRecord.identity == ScoreRecord.identity, EvaluationRecord.source == BUILTIN)
    .correlate(ScoreRecord)
)
"""Whether a score is on built-in data."""


def measured_value(name: str) -> ScalarSelect[float | None]:
    """Select a metric of a trial's best step, or its newest test score: `test/sts12_spearman`, or
    `test/builtin/sts12_spearman` on built-in data.
    """
    split, _, measure = name.partition("/")
    if split != "test":
        metric = DevPointRecord.metrics[name].as_float()
        return _of_points(metric, DevPointRecord.step == AttemptRecord.best_step)
    on_real, measure = not measure.startswith(BUILTIN_SCORES), measure.removeprefix(BUILTIN_SCORES)
    task, _, metric = measure.rpartition("_")
    if measure.endswith(f"_{MAIN_SCORE}"):
        task, metric = measure.removesuffix(f"_{MAIN_SCORE}"), MAIN_SCORE
    score, scored = ScoreRecord, aliased(AttemptRecord)
    newest = select(score.value).join(scored, scored.id == score.attempt_id)
    newest = newest.where(
        *(scored.trial_id == TrialRecord.id, scored.has_shown_model),
        *(score.task == task, score.metric == metric, score.split == split),
        ~ON_BUILTIN if on_real else ON_BUILTIN,
    )
    newest = newest.order_by(score.measured.desc(), score.identity).limit(1)
    return newest.correlate(TrialRecord).scalar_subquery()


def best_columns(sweep: SweepRecord) -> dict[str, Any]:
    """Select the `best_value` and the `best_step`; of a running trial, of the best one
    so far, as `TrialHistory.best` defines it.

    The file of the sweep, which holds the trials, says which dev score picks checkpoints.
    """
    metric = dev_metric(stored_dev(sweep.spec).checkpoint_name)
    point, picks = DevPointRecord, DevPointRecord.metrics[metric].as_float()

    def select_so_far(quantity: Any) -> ColumnElement[Any]:
        best = select(case((point.value.is_not(None), quantity)))
        best = best.where(point.attempt_id == AttemptRecord.id, point.step > 0, picks.is_not(None))
        best = best.order_by(picks.desc(), point.step).limit(1)
        return best.correlate(AttemptRecord).scalar_subquery()

    runs = AttemptRecord.state == "RUNNING"
    return {
        "best_value": case((runs, select_so_far(point.value)), else_=AttemptRecord.best_value),
        "best_step": case((runs, select_so_far(point.step)), else_=AttemptRecord.best_step),
    }


_OF_CONFIGURATION = ("searched", "corpus", "corpus_sha256", "code")
_OF_ATTEMPT = ("state", "started", "finished", "model", "error", "why", "wall_seconds")
_COLUMNS: dict[str, Any] = {
    **{name: getattr(TrialRecord, name) for name in ("key", "seed", "gpu_seconds")},
    **{name: getattr(AttemptRecord, name) for name in _OF_ATTEMPT},
    **{name: getattr(SweepTrialRecord, name) for name in ("number", "role", "reused_from")},
    **{name: getattr(ConfigurationRecord, name) for name in _OF_CONFIGURATION},
    **{name: getattr(GroupRecord, name) for name in ("method", "backbone", "dev_identity")},
    "configuration": ConfigurationRecord.hash,
    "hyperparameters": ConfigurationRecord.values,
    "best_value": AttemptRecord.best_value,
    "best_step": AttemptRecord.best_step,
    "sweep": SweepRecord.name,
}
"""The columns of each `Trial`, by field."""


def select_trials(*columns: Any, attempt: Any = TrialRecord.shown) -> Select[Any]:
    """Select columns of trials, of the attempts that they show, of their links to sweeps and of
    their configurations.

    A trial appears once for each sweep that holds it. `attempt` matches another attempt of each.
    """
    return (
        select(*columns)
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.sweep)
        .join(SweepTrialRecord.trial)
        .join(AttemptRecord, attempt)
        .join(TrialRecord.configuration)
    )


def read_trials(
    session: Session,
    *conditions: ColumnElement[bool],
    order: Sequence[Any] = (SweepTrialRecord.number,),
    limit: int | None = None,
    space: Space | None = None,
    curves: Literal["values", "metrics"] | None = None,
    measured: Sequence[str] = (),
    attempt: Any = TrialRecord.shown,
    **columns: Any,
) -> list[Trial]:
    """Read trials: the one query behind every view of them.

    Args:
        session: of the leaderboard.
        conditions: a trial is read once for each sweep that holds it, so one of them
            names a sweep, or is `FIRST_LINK`.
        order: the expressions to sort by.
        limit: the most trials to read.
        space: of the sweep, which decides which hyperparameters are active; without it,
            `Trial.searched_values` are those that the first sweep with the configuration searched.
        curves: whether to read the dev curves: their values, or their metrics too.
        measured: the metrics and test scores to read, as for `measured_value`.
        attempt: matches the attempt of each trial; `MADE_IN_SWEEP` where a sweep is told.
        columns: further fields of `Trial` by name, such as `last_value=LAST_VALUE`, or other
            expressions for the usual ones.
    """
    chosen = _COLUMNS | columns | {name: measured_value(name) for name in measured}
    chosen["attempt"] = AttemptRecord.id
    query = select_trials(*chosen.values(), attempt=attempt)
    query = query.join(ConfigurationRecord.group).where(*conditions).order_by(*order).limit(limit)
    lines = [dict(zip(chosen, line, strict=True)) for line in session.execute(query)]
    attempts = [line.pop("attempt") for line in lines]
    points = _read_points(session, attempts, metrics=curves == "metrics") if curves else {}
    in_space = () if space is None else space.order
    for line, made in zip(lines, attempts, strict=True):
        active = line["hyperparameters"]
        if space is not None:
            active = line["hyperparameters"] = drop_inactive_values(space, active)
        searched = [name for name in in_space or line["searched"] if name in active]
        line["searched_values"] = {
            name: active[name]
            for name in searched
            if space is None or not in_space or _fits_dimension(space[name], active[name])
        }
        line["searched"] = tuple(line["searched"])
        line["measured"] = {name: line.pop(name) for name in measured}
        if curves:
            line["points"] = tuple(points[made])
    return [Trial(**line) for line in lines]


def _fits_dimension(dimension: Dimension, value: Any) -> bool:
    """Whether a value can lie on a dimension, which values of other people's files may not."""
    if isinstance(dimension, Choices):
        return True
    return is_number(value) and (value > 0 or not dimension.log)


def space_of(spec: Mapping[str, Any]) -> Space:
    """Parse the search space of a sweep's stored file; empty if it cannot be parsed."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})


def drop_inactive_values(space: Space, values: dict[str, Any]) -> dict[str, Any]:
    """Drop the values of inactive hyperparameters; the order is kept."""
    idle = {name for name in space if name in values and not space.is_active(name, values)}
    return {name: value for name, value in values.items() if name not in idle} if idle else values


_LINK = aliased(SweepTrialRecord)
_FIRST_SWEEP = select(func.min(_LINK.sweep_id)).where(_LINK.trial_id == TrialRecord.id)
FIRST_LINK = SweepTrialRecord.sweep_id == _FIRST_SWEEP.correlate(TrialRecord).scalar_subquery()
"""Matches the link of a trial to the first sweep that holds it."""


def trial_of_key(
    session: Session, key: str, *, curves: Literal["metrics"] | None = None
) -> Trial | None:
    """Find the trial of a full key, in the first sweep that holds it; None if it is not stored."""
    trials = read_trials(session, FIRST_LINK, TrialRecord.key == key, curves=curves)
    return next(iter(trials), None)


def dev_curves(session: Session, trials: Sequence[str]) -> dict[str, list[DevPoint]]:
    """Read the dev curves of trials, by their keys, in order of steps; empty if there is none."""
    query = select(TrialRecord.key, TrialRecord.shown_attempt).where(TrialRecord.key.in_(trials))
    shown = {key: attempt for key, attempt in session.execute(query) if attempt is not None}
    points = _read_points(session, shown.values(), metrics=True)
    return {key: points[shown[key]] if key in shown else [] for key in trials}


def _read_points(
    session: Session, attempts: Collection[int], *, metrics: bool
) -> dict[int, list[DevPoint]]:
    """Read the dev points of attempts by step; without `metrics`, they have their values alone."""
    measured = DevPointRecord.metrics if metrics else null()
    columns = (AttemptRecord.id, AttemptRecord.best_step, DevPointRecord.step, DevPointRecord.value)
    query = (
        select(*columns, measured)
        .join(AttemptRecord.points)
        .where(AttemptRecord.id.in_(attempts))
        .order_by(DevPointRecord.attempt_id, DevPointRecord.step)
    )
    points: dict[int, list[DevPoint]] = {attempt: [] for attempt in attempts}
    for attempt, best, step, value, measured_here in session.execute(query):
        points[attempt].append(DevPoint(step, value, measured_here or {}, kept=step == best))
    return points


def complete_trials(session: Session, sweep: SweepRecord) -> list[Trial]:
    """Read the complete trials of a sweep by number."""
    of_sweep = SweepTrialRecord.sweep_id == sweep.id
    return read_trials(session, of_sweep, AttemptRecord.state == "COMPLETE")


def best_trials(session: Session, sweeps: Sequence[int]) -> dict[str, Trial]:
    """Read the complete trial with the highest dev score of each sweep, by the sweep's name.

    Of trials with equal scores, the first one counts. SQLite does not reorder an outer join, so it
    reads the sweep's own trials and looks up each, with or without statistics; with an inner join
    and no statistics it would scan all sweeps.
    """
    link, trial, shown = aliased(SweepTrialRecord), aliased(TrialRecord), aliased(AttemptRecord)
    best_key = (
        select(case((shown.id.is_not(None), trial.key)))
        .select_from(link)
        .outerjoin(trial, trial.id == link.trial_id)
        .outerjoin(shown, _match_made_in_sweep(link, trial, shown) & (shown.state == "COMPLETE"))
        .where(link.sweep_id == SweepRecord.id)
        .order_by(shown.best_value.desc().nulls_last(), link.number)
        .limit(1)
        .correlate(SweepRecord)
        .scalar_subquery()
    )
    query = select(SweepRecord.name, best_key).where(SweepRecord.id.in_(sweeps))
    best = {name: key for name, key in session.execute(query) if key is not None}
    of_best = TrialRecord.key.in_(set(best.values()))
    trials = read_trials(session, of_best, attempt=MADE_IN_SWEEP)
    return {trial.sweep: trial for trial in trials if best.get(trial.sweep) == trial.key}


def best_of_sweep(session: Session, sweep: SweepRecord) -> Trial | None:
    """Find the complete trial with the highest dev score of a sweep, if any."""
    return best_trials(session, [sweep.id]).get(sweep.name)


def complete_curves(
    session: Session, *, method: str, backbone: str, dev: Mapping[str, str], limit: int
) -> list[Trial]:
    """Read the newest complete trials of a method on a backbone, in all sweeps, with their curves.

    Only trials with these sentences and dev sets count; where the hash of the sentences is unknown,
    the name of the corpus decides.
    """
    return read_trials(
        session,
        *_match_complete(method, backbone),
        GroupRecord.dev_identity == dev["identity"],
        func.coalesce(ConfigurationRecord.corpus_sha256, ConfigurationRecord.corpus).in_(
            [dev["corpus_sha256"], dev["corpus"]]
        ),
        order=(AttemptRecord.finished.desc(), TrialRecord.id.desc()),
        limit=limit,
        curves="values",
    )


def _match_complete(method: str, backbone: str) -> list[ColumnElement[bool]]:
    """Match the complete trials of a method on a backbone, each in its first sweep."""
    of_group = GroupRecord.method == method, GroupRecord.backbone == backbone
    return [FIRST_LINK, *of_group, AttemptRecord.state == "COMPLETE"]


def past_trials(session: Session, *, method: str, backbone: str, gpu: bool) -> list[Trial]:
    """Read the 50 newest complete trials of a method on a backbone, with a GPU or without.

    Imported and recorded ones, whose steps and machines are others', are left out. They have their
    last steps and the times of their first reports.
    """
    return read_trials(
        session,
        *_match_complete(method, backbone),
        AttemptRecord.wall_seconds > 0,
        (TrialRecord.gpu_seconds > 0) == gpu,
        AttemptRecord.reached > 0,
        GroupRecord.dev_source.not_in(UNCHECKED_DATA),
        order=(TrialRecord.id.desc(),),
        limit=50,
        last_step=AttemptRecord.reached,
        first_reported=_of_points(func.min(DevPointRecord.reported_at)),
    )


NAMES = "SWEEP, SWEEP#N, METHOD@CONFIGURATION, or a trial's key or its first 6 digits"

_KEY = re.compile(r"[0-9a-f]{6,64}")
_IN_SWEEP = re.compile(r"(?P<sweep>[^#/]+)#(?P<number>\d{1,9})")


def is_trial_reference(text: str) -> bool:
    """Whether a text has the form of a trial's key, its first digits, or SWEEP#N."""
    return bool(_KEY.fullmatch(text.lower()) or _IN_SWEEP.fullmatch(text))


def find_trial(session: Session, reference: str) -> Trial:
    """Find the one trial of a key, of its first digits, or of SWEEP#N.

    Raises:
        NotFoundError: if there is no such trial or sweep, or the reference has another form.
        AmbiguousError: if several keys start with it, or it is a configuration's hash.
    """
    if match := _IN_SWEEP.fullmatch(reference):
        sweep, number = match["sweep"], int(match["number"])
        of_sweep = SweepTrialRecord.sweep_id == find_sweep(session, sweep).id
        query = select_trials(TrialRecord.key).where(of_sweep, SweepTrialRecord.number == number)
        if (key := session.scalar(query)) is None:
            last = session.scalar(select(func.max(SweepTrialRecord.number)).where(of_sweep))
            hint = "it has none yet" if last is None else f"its last one is {sweep}#{last}"
            raise NotFoundError(f"sweep {sweep!r} has no trial {number}; {hint}")
        return read_trials(session, FIRST_LINK, TrialRecord.key == key)[0]
    prefix = reference.lower()
    if not _KEY.fullmatch(prefix):
        sweeps = session.scalars(select(SweepRecord.name)).all()
        hint = did_you_mean(reference, sweeps)
        if session.scalar(select(exists().where(GroupRecord.method == reference))):
            hint = f"; it is a method, and its rows name its configurations: {reference}@HASH"
        raise NotFoundError(f"{reference!r} was not found; give {NAMES}{hint}")
    trial = TrialRecord
    keys = session.scalars(
        select(trial.key).where(begins_with(trial.key, prefix)).order_by(trial.key).limit(3)
    ).all()
    if not keys:
        seeds = session.execute(
            select(trial.key, trial.seed)
            .join(trial.configuration)
            .where(begins_with(ConfigurationRecord.hash, prefix))
            .order_by(trial.configuration_id, trial.seed)
            .limit(10)
        ).all()
        if not seeds:
            raise NotFoundError(f"no trial's key begins with {prefix!r}")
        named = ", ".join(f"{key[:HASH_DIGITS]} (seed {seed})" for key, seed in seeds)
        raise AmbiguousError(f"{prefix!r} is a configuration; its trials are {named}")
    if len(keys) > 1:
        longer = ", ".join(f"{key[: len(prefix) + 4]}…" for key in keys)
        raise AmbiguousError(
            f"{prefix!r} matches the keys of several trials ({longer}); write more digits"
        )
    if not (trials := read_trials(session, FIRST_LINK, trial.key == keys[0])):
        raise NotFoundError(f"no sweep has the trial {prefix!r} any more: a retry replaced it")
    return trials[0]


@dataclass(frozen=True)
class Subject:
    """The trial, configuration or sweep that an annotation is about."""

    about: Annotatable
    name: str
    """A trial's key, a configuration's hash or a sweep's name."""
    sweep: str
    """The sweep itself, or a sweep that holds the trial or configuration."""
    experiment: str
    """The MLflow experiment of this sweep."""

    def __str__(self) -> str:
        digits = len(self.name) if self.about == "sweep" else HASH_DIGITS
        return f"{self.about} {self.name[:digits]}"


def find_subject(session: Session, reference: str) -> Subject:
    """Resolve a reference; if digits match both a trial and a configuration, the trial counts.

    Raises NotFoundError if nothing matches, and AmbiguousError if several keys or hashes do.
    """
    method, separator, digits = reference.partition("@")
    about: Annotatable = "sweep"
    keys = select(TrialRecord.id).where(begins_with(TrialRecord.key, reference)).limit(1)
    is_hash = set(reference.lower()) <= set(hexdigits) and not session.scalar(keys)
    if (sweep := sweep_or_none(session, reference)) is not None:
        name = sweep.name
    elif not (separator or is_hash):
        trial = find_trial(session, reference)
        about, name, sweep = "trial", trial.key, find_sweep(session, trial.sweep)
    else:
        configuration = find_configuration(
            session,
            digits if separator else reference,
            method=method if separator else None,
            named=reference,
        )
        about, name = "configuration", configuration.hash
        query = (
            select(SweepRecord)
            .join(SweepRecord.links)
            .join(SweepTrialRecord.trial)
            .where(TrialRecord.configuration_id == configuration.id)
            .order_by(SweepRecord.id)
            .limit(1)
        )
        sweep = session.scalars(query).one()
    return Subject(about, name, sweep.name, sweep.spec.get("experiment", "cse"))


def find_one_trial(session: Session, reference: str) -> Trial:
    """Find the trial that a reference names, the best one of a sweep or configuration.

    Raises NotFoundError if there is none, and AmbiguousError if several keys or hashes match.
    """
    method, separator, digits = reference.partition("@")
    best: Trial | None
    if (sweep := sweep_or_none(session, reference)) is not None:
        best = best_of_sweep(session, sweep)
    elif separator:
        configuration = find_configuration(session, digits, method=method, named=reference)
        of_it = TrialRecord.configuration_id == configuration.id
        complete = AttemptRecord.state == "COMPLETE", of_it
        order = (AttemptRecord.best_value.desc(), TrialRecord.id)
        best = next(iter(read_trials(session, FIRST_LINK, *complete, order=order, limit=1)), None)
    else:
        return find_trial(session, reference)
    if best is None:
        raise NotFoundError(f"no trial of {reference!r} is complete")
    return best


def find_configuration(
    session: Session, digits: str, *, method: str | None, named: str
) -> ConfigurationRecord:
    query = select(ConfigurationRecord).join(ConfigurationRecord.group)
    query = query.where(begins_with(ConfigurationRecord.hash, digits))
    if method is not None:
        query = query.where(GroupRecord.method == method)
    matches = session.scalars(query.limit(2)).all() if digits else []
    if not matches:
        raise NotFoundError(f"{named!r} is neither a configuration nor a trial of this leaderboard")
    if len(matches) > 1:
        raise AmbiguousError(f"several configurations begin with {named!r}; write more digits")
    return matches[0]


def find_sweep_and_number(session: Session, reference: str) -> tuple[str, int | None]:
    """Find the sweep that a reference names, and the number there of the trial that it names.

    The number is None for a sweep's name. Raises NotFoundError and AmbiguousError as `find_trial`.
    """
    if not is_trial_reference(reference) or sweep_or_none(session, reference) is not None:
        return find_sweep(session, reference).name, None
    trial = find_trial(session, reference)
    match = _IN_SWEEP.fullmatch(reference)
    return (trial.sweep, trial.number) if match is None else (match["sweep"], int(match["number"]))


def best_kept_trial(
    session: Session, *, method: str, backbone: str, dev_identity: str
) -> Trial | None:
    """Find the complete trial with the highest dev score that kept its model.

    Of trials with equal scores, the older one counts.
    """
    best = read_trials(
        session,
        *_match_complete(method, backbone),
        GroupRecord.dev_identity == dev_identity,
        AttemptRecord.model.is_not(None),
        order=(AttemptRecord.best_value.desc(), TrialRecord.id),
        limit=1,
    )
    return next(iter(best), None)


def trial_of_model(session: Session, model: str) -> Trial | None:
    """Find the trial that kept its model at this location; None if it is not stored."""
    return next(iter(read_trials(session, FIRST_LINK, AttemptRecord.model == model)), None)


def find_kept_models(session: Session, trials: Iterable[str]) -> set[str]:
    """Find those of these trials, by their keys, that kept their model."""
    query = select(TrialRecord.key).join(TrialRecord.shown).where(AttemptRecord.model.is_not(None))
    kept = set[str]()
    for batch in in_batches(list(trials)):
        kept.update(session.scalars(query.where(TrialRecord.key.in_(batch))))
    return kept


_FOLDER = re.compile(rf"models/(?:[^/\"]+/)?([0-9a-f]{{{MODEL_DIGITS}}})(?![0-9a-f])")


def used_elsewhere(session: Session, keys: Sequence[str], *, sweep: str) -> set[str]:
    """Find the trials of a sweep whose models other sweeps need.

    These are trials that other sweeps hold too, and trials whose models a stored configuration uses
    as teacher or a group as backbone.
    """
    if not keys:
        return set()
    named, values = set[str](), cast(ConfigurationRecord.values, Text)
    for column in (values, GroupRecord.backbone):
        for text in session.scalars(select(column).where(column.contains("models/"))):
            named.update(_FOLDER.findall(text))
    used = {key for key in keys if key[:MODEL_DIGITS] in named}
    # By name, because the leaderboard may lag the journal and not have this sweep yet.
    query = select(TrialRecord.key).join(TrialRecord.links).join(SweepTrialRecord.sweep)
    for batch in in_batches(keys):
        elsewhere = SweepRecord.name != sweep, TrialRecord.key.in_(batch)
        used.update(session.scalars(query.where(*elsewhere)))
    return used
