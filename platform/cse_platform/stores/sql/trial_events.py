"""Stores the events of a trial's attempts: start, dev points, end, evaluations.

A trial has one attempt here, as a whole: the first that is complete, otherwise the one that went
furthest. What other journals tell of the trial stays in those journals. When one of them gets
better, its events are read there again and take the place of what is shown. So the order in which
journals arrive does not matter, except that a trial which its sweep begins anew stays shown.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, or_, select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreLostError
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.tables import (
    FREE_METRICS,
    ConfigurationRecord,
    DevPointRecord,
    EvaluationRecord,
    GroupRecord,
    MachineRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
    insert_new,
    insert_once,
    insert_record,
    insert_records,
    insert_rows,
    known_records,
    sweep_of,
    take_new,
)
from cse_platform.tracking.events import (
    Event,
    TrialBegun,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialScore,
    TrialStarted,
    copy_shared_fields,
)
from cse_platform.tracking.packing import compress_similarities

_log = logging.getLogger(__name__)
SCORE_KEY = ("trial_id", "task", "split", "metric", "identity")


@dataclass
class Held:
    """What a transaction that applies events of a journal writes or decides at its end."""

    points: list[dict[str, Any]] = field(default_factory=list)
    """The rows of dev points; the first value for a step stays."""
    own_scores: dict[str, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)
    """The rows of trials' own dev scores, by dev identity and trial."""
    configurations: set[int] = field(default_factory=set)
    """Those whose estimates are to be computed again."""
    joined: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The configurations whose trials join the search of a sweep, by the sweep's id."""
    rivals: set[str] = field(default_factory=set)
    """Keys of trials that show another journal's attempt, which this journal's outdoes, or of whose
    model it may have scores.
    """
    reached: dict[int, int | None] = field(default_factory=dict)
    """The last steps that other journals' attempts show, by the trial's id, as far as read."""


@contextmanager
def holding(session: Session) -> Iterator[Held]:
    """Collect dev points, own scores and configurations to count, and write them at the end."""
    held = session.info[Held] = Held()
    with session.no_autoflush:  # whoever needs something flushed does so
        yield held
    write_points(session)
    write_own_scores(session)
    for sweep, joined in held.joined.items():
        held.configurations |= _find_only_earlier(session, sweep, joined)
    estimate_configurations(session, held.configurations)
    del session.info[Held]


def _find_only_earlier(session: Session, sweep: int, joined: set[int]) -> set[int]:
    """Find the one configuration that a search had tried before others joined it, if it is one.

    From now on, the values of its trials choose it among several.
    """
    query = (
        select(TrialRecord.configuration_id)
        .join(TrialRecord.places)
        .where(
            SweepTrialRecord.sweep_id == sweep,
            SweepTrialRecord.role != "confirm",
            TrialRecord.configuration_id.not_in(joined),
        )
        .distinct()
        .limit(2)
    )
    earlier = set(session.scalars(query))
    return earlier if len(earlier) == 1 else set()


def trial_of(session: Session, key: str) -> TrialRecord:
    """Find the trial of that key. Raises StoreLostError if it is not stored."""
    return trials_of(session, {key})[key]


def trials_of(session: Session, keys: Collection[str]) -> dict[str, TrialRecord]:
    """Find these trials by key. Raises StoreLostError if one is not stored."""
    known = known_records(session)
    unread = [key for key in keys if (TrialRecord, key) not in known]
    if unread:
        query = select(TrialRecord).where(TrialRecord.key.in_(unread))
        known.update(((TrialRecord, trial.key), trial) for trial in session.scalars(query))
    if missing := sorted(key for key in unread if (TrialRecord, key) not in known):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return {key: known[TrialRecord, key] for key in keys}


def trial_or_none(session: Session, key: str) -> TrialRecord | None:
    known: TrialRecord | None = known_records(session).get((TrialRecord, key))
    query = select(TrialRecord).where(TrialRecord.key == key)
    return known or session.scalars(query).one_or_none()


def add_identities(session: Session, event: TrialEvaluated) -> None:
    """Store the settings behind each identity of an evaluation; fill in a missing source."""
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        values = {"settings": settings, "source": source}
        insert_once(session, EvaluationRecord, {"identity": identity}, values)
        stored = session.get_one(EvaluationRecord, identity)
        if stored.source is None:
            stored.source = source


def add_evaluation(session: Session, trial: TrialRecord, event: TrialEvaluated) -> None:
    """Store scores and similarities, replacing those of an earlier evaluation of equal identity."""
    write_own_scores(session)
    rows = _make_score_rows(trial, event.scores, measured=event.time)
    stored = insert_rows(session, ScoreRecord, SCORE_KEY, rows, replaced="older")
    outdated = {(row["task"], row["identity"]) for row in rows}
    outdated -= {(row.task, row.identity) for row in stored}
    for similarities in event.similarities:
        if (similarities.task, similarities.identity) not in outdated:
            cosines, gold, count = compress_similarities(similarities)
            pairs = similarities.model_dump(include={"task", "split", "subsets"})
            pairs |= {"pairs": count, "gold": gold}
            sha256 = {"data_sha256": similarities.data_sha256}
            is_new = insert_once(session, PairSetRecord, sha256, pairs)
            query = select(PairSetRecord.pairs).filter_by(**sha256)
            if not is_new and (known := session.scalar(query)) != count:
                raise StoreLostError(
                    f"{similarities.task} has {count} pairs, and data {similarities.data_sha256} "
                    f"has {known}"
                )
            key = {"trial_id": trial.id} | similarities.model_dump(include={"task", "identity"})
            row = {**key, **sha256, "cosines": cosines}
            insert_rows(session, PairSimilaritiesRecord, tuple(key), [row], replaced="all")


def _make_score_rows(
    trial: TrialRecord, scores: Iterable[TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for score in scores:
        free = score.metric in FREE_METRICS and math.isfinite(score.value)
        if free or -1 <= score.value <= 1:
            rows.append(score.model_dump() | {"trial_id": trial.id, "measured": measured})
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction and was not stored", trial.key, name)
    return rows


def write_own_scores(session: Session) -> None:
    """Write the dev scores that are held back, so that a query finds them."""
    held = session.info[Held].own_scores
    for identity, scores in held.items():
        for ids in in_batches(list(scores)):
            some = ScoreRecord.trial_id.in_(ids)
            own = ScoreRecord.identity == identity, ScoreRecord.split == "dev"
            session.execute(delete(ScoreRecord).where(some, *own))
        rows = [row for rows in scores.values() for row in rows]
        insert_rows(session, ScoreRecord, SCORE_KEY, rows, replaced="older")
    held.clear()


def _find_group(session: Session, trial: TrialRecord) -> GroupRecord:
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    return session.get_one(GroupRecord, configuration.group_id)


Rank = tuple[bool, float, str]


def write_points(session: Session) -> None:
    """Write the dev points that are held back, so that a query finds them."""
    rows = session.info[Held].points
    insert_rows(session, DevPointRecord, ("trial_id", "step"), rows)
    rows.clear()


def is_shown(
    session: Session,
    trial: TrialRecord,
    journal: str,
    *,
    reached: int | None = None,
    completed: datetime | None = None,
) -> bool:
    """Whether a trial shows this journal's attempt, and that is not complete yet.

    If it shows another one, and this journal's outdoes it by the step that it has `reached`, or
    because it is `completed`, note that.
    """
    if trial.journal == journal:
        return trial.state != "COMPLETE"
    held = session.info[Held]
    if trial.key not in held.rivals and (completed is not None or trial.state != "COMPLETE"):
        if trial.id not in held.reached:
            held.reached |= find_reached(session, [trial])
        if rank(reached, completed, journal) > rank_shown(trial, held.reached[trial.id]):
            held.rivals.add(trial.key)
    return False


def rank(reached: int | None, completed: datetime | None, journal: str = "") -> Rank:
    """Rank an attempt: a trial shows the attempt with the highest rank.

    The attempt that was complete first ranks highest, then that with the latest last step
    `reached`; of equal ones, that of the later id of a journal.
    """
    if completed is not None:
        return True, -completed.timestamp(), journal
    return False, -1 if reached is None else reached, journal


def rank_shown(trial: TrialRecord, reached: int | None) -> Rank:
    """Rank the attempt that a trial shows, which has `reached` a last step."""
    return rank(reached, trial.finished if trial.state == "COMPLETE" else None, trial.journal)


def find_reached(session: Session, trials: Sequence[TrialRecord]) -> dict[int, int | None]:
    """Find the last step of each trial, by its id; None if it has no dev point."""
    query = select(DevPointRecord.trial_id, func.max(DevPointRecord.step))
    query = query.group_by(DevPointRecord.trial_id)
    reached: dict[int, int | None] = dict.fromkeys(trial.id for trial in trials)
    for ids in in_batches(list(reached)):
        rows = session.execute(query.where(DevPointRecord.trial_id.in_(ids)))
        reached |= {row[0]: row[1] for row in rows}
    return reached


@dataclass
class Attempt:
    """A journal's attempt at a trial, as its events tell it."""

    started: datetime
    reached: int | None = None
    completed: datetime | None = None
    value: float | None = None
    """Its dev score, if it is complete."""


def read_attempt(events: Iterable[Event]) -> Attempt | None:
    """Read a journal's attempt at a trial from the trial's events; None if it made none."""
    attempt: Attempt | None = None
    for event in events:
        match event:
            case TrialStarted() if attempt is None or event.resumed_from is None:
                attempt = Attempt(event.time)
            case TrialPoint() if attempt is not None:
                attempt.reached = max(attempt.reached or 0, event.step)
            case TrialFinished(state="COMPLETE") if attempt is not None:
                attempt.completed, attempt.value = event.time, finite_or_null(event.best_value)
                return attempt
            case _:
                pass
    return attempt


def show_from_beginning(
    session: Session, trial: TrialRecord, journal: str, attempt: Attempt
) -> None:
    """Make a trial show a journal's attempt instead, whose events are to be applied next."""
    if trial.state == "COMPLETE" and trial.best_value != attempt.value:
        # All but its own dev scores belong to a model that the trial no longer shows.
        write_own_scores(session)
        foreign = ScoreRecord.identity != _find_group(session, trial).dev_identity
        session.execute(delete(ScoreRecord).where(ScoreRecord.trial_id == trial.id, foreign))
        similarities = PairSimilaritiesRecord.trial_id == trial.id
        session.execute(delete(PairSimilaritiesRecord).where(similarities))
    begin(session, trial, started=attempt.started)
    trial.journal, trial.provenance, trial.machine_id = journal, {}, None


def begin(session: Session, trial: TrialRecord, *, started: datetime | None) -> None:
    """Set the shown attempt to running. With `started`, it restarts from scratch: its dev points
    are deleted.
    """
    if started is not None:
        write_points(session)
        session.execute(delete(DevPointRecord).where(DevPointRecord.trial_id == trial.id))
        trial.started, trial.start_value = started, None
    trial.state, trial.finished, trial.error, trial.model = "RUNNING", None, None, None
    trial.best_step, trial.best_value, trial.wall_seconds = None, None, None
    trial.model_deleted, trial.why, trial.cause, trial.costs = None, None, None, {}


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None


def store_starts(session: Session, journal: str, events: Sequence[TrialStarted]) -> None:
    """Store the configurations, trials and links of a journal's starts, in few statements.

    A link whose trial or number the sweep has already is left to `start_trial`.
    """
    configurations: dict[str, TrialStarted] = {}
    trials: dict[str, TrialStarted] = {}
    for event in events:
        configurations.setdefault(event.configuration, event)
        trials.setdefault(event.trial, event)
    rows: dict[str, dict[str, Any]] = {}
    for name, event in configurations.items():
        group = event.model_dump(include={"method", "backbone"})
        group["dev_identity"] = event.dev["identity"]
        dev = {f"dev_{name}": event.dev[name] for name in ("checkpoint", "search", "source")}
        rows[name] = {
            "group_id": insert_record(session, GroupRecord, group, dev).id,
            "revision": event.revision,
            "code": event.code,
            "values": event.values,
            "searched": list(event.searched),
            "corpus": event.dev["corpus"],
        }
    insert_records(session, ConfigurationRecord, "hash", rows)
    known, rows = known_records(session), {}
    for key, event in trials.items():
        configuration = known[ConfigurationRecord, event.configuration].id
        first = {"configuration_id": configuration, "seed": event.seed, "state": "RUNNING"}
        rows[key] = first | {"journal": journal, "started": event.time}
    insert_records(session, TrialRecord, "key", rows)
    links = [
        {
            "sweep_id": sweep_of(session, event.sweep, journal).id,
            "trial_id": known[TrialRecord, key].id,
            **_make_link(session, journal, event),
        }
        for key, event in trials.items()
    ]
    insert_new(session, SweepTrialRecord, ("sweep_id", "trial_id"), links)


def start_trial(session: Session, journal: str, event: TrialStarted) -> bool:
    """Store that a journal starts or resumes an attempt. Returns True if the trial is new.

    An attempt that is complete is not changed.
    """
    known = known_records(session)
    needed = {(TrialRecord, event.trial), (ConfigurationRecord, event.configuration)}
    if not needed <= known.keys():
        store_starts(session, journal, [event])
    trial = known[TrialRecord, event.trial]
    configuration = known[ConfigurationRecord, event.configuration]
    if configuration.searched != list(event.searched):
        configuration.searched = sorted({*configuration.searched, *event.searched})
    group = session.get_one(GroupRecord, configuration.group_id)
    new = take_new(session, TrialRecord, event.trial)
    if new:
        group.trials += 1
    link(session, journal, event, trial)
    if trial.journal == journal and trial.state == "COMPLETE":
        return new
    is_fresh = event.resumed_from is None
    if is_fresh and (group.code_since is None or group.code_since < event.time):
        group.code, group.code_since = event.code, event.time
    if not new:
        begin_attempt(session, trial, journal, event)
    return new


def begin_attempt(session: Session, trial: TrialRecord, journal: str, event: TrialStarted) -> None:
    """Set a trial to running if it shows the journal's attempt."""
    if is_shown(session, trial, journal):
        begin(session, trial, started=event.time if event.resumed_from is None else None)


def add_points(session: Session, journal: str, events: Sequence[TrialPoint]) -> None:
    """Store dev points in few queries; the first value stored for a step stays."""
    trials = trials_of(session, {event.trial for event in events})
    for event in events:
        trial = trials[event.trial]
        if not is_shown(session, trial, journal, reached=event.step):
            continue
        value = finite_or_null(event.value)
        if event.step == 0 and trial.start_value is None:
            trial.start_value = value
        row = {"trial_id": trial.id, "step": event.step, "reported_at": event.time, "value": value}
        row["metrics"] = {name: finite_or_null(value) for name, value in event.metrics.items()}
        session.info[Held].points.append(row)


_DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


def finish_trial(session: Session, journal: str, event: TrialFinished) -> None:
    """Store the end of an attempt, its GPU time, and a complete one's dev scores."""
    trial = trial_of(session, event.trial)
    sweep = sweep_of(session, event.sweep, journal).id
    row = known_records(session).get((SweepTrialRecord, sweep, trial.id))
    row = row or session.get(SweepTrialRecord, {"sweep_id": sweep, "trial_id": trial.id})
    if row is not None and event.wall_seconds:
        more = max(0.0, event.wall_seconds * event.gpus - row.gpu_seconds)
        for record in (row, trial, _find_group(session, trial)):
            record.gpu_seconds += more
    completed = event.time if event.state == "COMPLETE" else None
    if not is_shown(session, trial, journal, completed=completed):
        return
    trial.state, trial.finished, trial.error = event.state, event.time, event.error
    trial.best_step, trial.best_value = event.best_step, finite_or_null(event.best_value)
    trial.model, trial.wall_seconds = event.model, event.wall_seconds
    trial.why, trial.cause = event.why, event.cause
    trial.costs = {name: cost for name, cost in event.costs.items() if math.isfinite(cost)}
    trial.provenance = dict(event.provenance)
    facts, trial.machine_id = event.provenance, None
    if (hardware := facts.get("gpu") or facts.get("cpu")) and "host" in facts:
        machine = {"host": facts["host"], "hardware": hardware}
        trial.machine_id = insert_record(session, MachineRecord, machine, {}).id
    if trial.state == "COMPLETE":
        held, identity = session.info[Held], _find_group(session, trial).dev_identity
        scores = [
            TrialScore(split="dev", value=value, identity=identity, **named.groupdict())
            for name, value in event.best_metrics.items()
            if math.isfinite(value) and (named := _DEV_SCORE.fullmatch(name))
        ]
        rows = _make_score_rows(trial, scores, measured=event.time)
        held.own_scores.setdefault(identity, {})[trial.id] = rows
        held.configurations.add(trial.configuration_id)


def store_reused(session: Session, journal: str, event: TrialReused) -> None:
    """Store a trial from a sweep that reuses it: the journal of the sweep that ran it is gone.

    Its dev points have the score that the search climbs, and the best one all metrics.
    """
    of_trial = {"sweep": event.sweep, "trial": event.trial}
    sweep = event.model_dump(include={"method", "revision", "backbone", "dev"})
    shared = copy_shared_fields(event)
    start_trial(session, journal, TrialStarted(time=event.started, **of_trial, **sweep, **shared))
    key = {"sweep_id": sweep_of(session, event.sweep, journal).id}
    key["trial_id"] = trial_of(session, event.trial).id
    own = session.get_one(SweepTrialRecord, key)
    own.reused, own.reused_from = event.time, event.reused_from
    points = [
        TrialPoint(
            time=event.finished,
            **of_trial,
            step=step,
            value=value,
            metrics=event.best_metrics if step == event.best_step else {},
        )
        for step, value in event.curve.items()
    ]
    add_points(session, journal, points)
    result = event.model_dump(include={"best_step", "best_value", "best_metrics", "model"})
    end = TrialFinished(
        time=event.finished, **of_trial, state="COMPLETE", **result, wall_seconds=event.wall_seconds
    )
    finish_trial(session, journal, end)


_LINKS = select(SweepTrialRecord).where(
    SweepTrialRecord.sweep_id == bindparam("sweep"),
    or_(
        SweepTrialRecord.trial_id == bindparam("trial"),
        SweepTrialRecord.number == bindparam("number"),
    ),
)
"""The links of a sweep that have one trial or one number."""


def link(session: Session, journal: str, event: TrialBegun, trial: TrialRecord) -> None:
    """Add a trial to its sweep; a retry replaces the trial that had its number, which failed.

    A trial that its sweep reuses after it has failed there counts as reused. In a search, its value
    and those of earlier trials may choose configurations from now on.
    """
    sweep = sweep_of(session, event.sweep, journal).id
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    if event.role != "confirm":
        session.info[Held].joined[sweep].add(configuration.id)
    if configuration.n > 0:
        session.info[Held].configurations.add(configuration.id)
    if isinstance(event, TrialStarted) and take_new(session, SweepTrialRecord, sweep, trial.id):
        return
    parameters, own = {"sweep": sweep, "trial": trial.id, "number": event.number}, None
    for held in session.scalars(_LINKS, parameters).all():
        if held.trial_id == trial.id:
            own = held
        else:
            known_records(session).pop((SweepTrialRecord, sweep, held.trial_id), None)
            session.delete(held)
            session.flush()
    if own is None:
        key = {"sweep_id": sweep, "trial_id": trial.id}
        insert_record(session, SweepTrialRecord, key, _make_link(session, journal, event))
    elif isinstance(event, TrialReused):
        own.reused, own.reused_from = event.time, event.reused_from


def _make_link(session: Session, journal: str, event: TrialBegun) -> dict[str, Any]:
    reused = (event.time, event.reused_from) if isinstance(event, TrialReused) else (None, None)
    chosen = None
    if event.role != "confirm":
        launched = sweep_of(session, event.sweep, journal).launched
        chosen = launched if event.search_notes.request is None else event.time
    return {
        "number": event.number,
        "role": event.role,
        "chosen": chosen,
        "gpu_seconds": 0.0,
        "reused": reused[0],
        "reused_from": reused[1],
    }
