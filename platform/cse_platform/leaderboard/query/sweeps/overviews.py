"""What a sweep is doing: how far it is, how long it will take, and which trials run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, selectinload

from cse_platform.leaderboard.query.annotations import Annotations, annotations
from cse_platform.leaderboard.query.sweeps.asked import Asked, requests_by_sweep
from cse_platform.leaderboard.query.sweeps.counts import best_trials, count_by_state, news
from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.holders import Holder, holders
from cse_platform.leaderboard.query.sweeps.measured import (
    Aims,
    MeasuredTrial,
    aims_of,
    measured_trials,
)
from cse_platform.leaderboard.query.sweeps.room import room_left
from cse_platform.leaderboard.query.sweeps.stored_file import search_dev, space_of
from cse_platform.leaderboard.query.trials.summary import select_trials, summarize
from cse_platform.leaderboard.store.tables import (
    DevPointRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.sweep.objectives import is_feasible
from cse_platform.sweep.spec import SweepSpec

_BATCH = 500
"""Sweeps in one query: databases limit its parameters."""


@dataclass(frozen=True)
class SweepOverview:
    """How far one sweep is."""

    name: str
    method: str
    backbone: str
    tags: tuple[str, ...]
    """Of its file, and those that people have written."""
    written: Annotations
    dev: str
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    state: str
    """`RUNNING`, `COMPLETE` or `INTERRUPTED`."""
    holder: Holder | None
    """The driver that holds it or held it last; None of one that was never run here."""
    paused: bool
    """Whether it starts no trials until a person says so."""
    asked: tuple[str, ...]
    """What was asked of it, and its driver has not heard yet: `stop`, `retry` and so on."""
    started: datetime
    restarted: datetime
    """Its last start."""
    finished: datetime | None
    counts: dict[str, int]
    """Trials by state: RUNNING, COMPLETE, PRUNED, FAIL, each there, maybe 0."""
    ended_by: str | None
    """The budget that ended its search, in words, where it was not the number of trials."""
    planned: int
    """How many trials there will be, further seeds included; of a complete sweep, and where its
    file does not say, how many there are."""
    best: TrialSummary | None
    """The complete trial with the highest dev score, of those that keep its constraints."""
    objectives: tuple[str, ...]
    """What its search is after, if that is more than the dev score, e.g. `seconds (minimize)`."""
    constraints: tuple[str, ...]
    infeasible: int
    """How many complete trials break its constraints."""
    elapsed: float
    """Seconds from the last start to the end, or until now."""
    left: float | None
    """Seconds that the rest takes at the pace since the last start, within the budgets of time and
    of GPU-hours; None unless it runs, a trial has ended since, and its file limits the search."""
    quiet: float | None
    """Seconds since anything was heard of it; None unless it runs."""

    @property
    def trials(self) -> int:
        """How many there are, of any state."""
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        """How many trials have ended, however."""
        return self.trials - self.counts["RUNNING"]


def sweep_overviews(
    session: Session,
    *,
    limit: int | None = None,
    offset: int = 0,
    now: datetime | None = None,
) -> list[SweepOverview]:
    """How far sweeps are; the one that was started last comes first.

    Args:
        session: of the leaderboard.
        limit: so many of them.
        offset: after so many others.
        now: the time that running sweeps are judged at.
    """
    last_start = (
        select(func.max(SweepStartRecord.started))
        .where(SweepStartRecord.sweep_id == SweepRecord.id)
        .correlate(SweepRecord)
        .scalar_subquery()
    )
    restarted = func.coalesce(last_start, SweepRecord.started)
    query = select(SweepRecord.id).order_by(restarted.desc(), SweepRecord.name.desc())
    ids = session.scalars(query.limit(limit).offset(offset)).all()
    overviews = dict[int, SweepOverview]()
    for start in range(0, len(ids), _BATCH):
        overviews |= _overviews(session, ids[start : start + _BATCH], now)
    return [overviews[sweep] for sweep in ids]


def sweep_overview(session: Session, name: str, *, now: datetime | None = None) -> SweepOverview:
    """How far a sweep is.

    Raises:
        NotFoundError: if there is none of that name.
    """
    sweep = find_sweep(session, name).id
    return _overviews(session, [sweep], now)[sweep]


def _overviews(
    session: Session, sweeps: Sequence[int], now: datetime | None
) -> dict[int, SweepOverview]:
    """How far these sweeps are, by their ids."""
    now = now or datetime.now(UTC)
    states, best = count_by_state(session, sweeps), best_trials(session, sweeps)
    held, asked = holders(session), requests_by_sweep(session)
    written = annotations(session, "sweep")
    starts = selectinload(SweepRecord.starts).load_only(SweepStartRecord.started)
    query = select(SweepRecord).options(starts, selectinload(SweepRecord.tags))
    overviews = dict[int, SweepOverview]()
    for record in session.scalars(query.where(SweepRecord.id.in_(sweeps))):
        said = written.get(record.name, Annotations())
        counts = {"RUNNING": 0, "COMPLETE": 0, "PRUNED": 0, "FAIL": 0} | states.get(record.id, {})
        trials, spec = sum(counts.values()), _spec(record)
        plan = None if spec is None else _planned(spec, asked[record.name])
        restarted = record.starts[-1].started if record.starts else record.started
        state = state_of(record.state, held.get(record.name))
        runs = state == "RUNNING"
        elapsed = ((now if runs else record.finished or restarted) - restarted).total_seconds()
        heard = news(session, record.id, since=restarted) if runs else None
        pace = elapsed / heard.ended if heard and heard.ended else None
        aims = aims_of(record.spec)
        feasible = _feasible(session, record.id, aims) if aims.constraints else None
        top = best.get(record.name) if feasible is None else _best(session, record, feasible)
        missing = list[float]()
        if plan is not None:
            missing.append(max(plan, trials) - trials + counts["RUNNING"])
        if pace and spec and record.ended_by is None:
            room = room_left(session, record.id, spec, pace=pace, now=now)
            missing += [room] if room is not None else []
        overviews[record.id] = SweepOverview(
            name=record.name,
            method=record.method,
            backbone=record.backbone,
            tags=tuple(sorted({one.tag for one in record.tags}.union(said.words))),
            written=said,
            dev=search_dev(record.spec),
            state=state,
            holder=held.get(record.name),
            paused=asked[record.name].paused,
            asked=asked[record.name].waiting,
            started=record.started,
            restarted=restarted,
            finished=record.finished,
            counts=counts,
            ended_by=record.ended_by,
            planned=trials if record.state == "COMPLETE" else max(plan or 0, trials),
            best=top,
            objectives=tuple(map(str, aims.objectives)),
            constraints=aims.constraints,
            infeasible=0 if feasible is None else counts["COMPLETE"] - len(feasible),
            elapsed=elapsed,
            left=pace * min(missing) if pace and missing else None,
            quiet=(now - heard.last).total_seconds() if heard else None,
        )
    return overviews


def _feasible(session: Session, sweep: int, aims: Aims) -> list[MeasuredTrial]:
    """The complete trials that keep the constraints."""
    every = measured_trials(session, sweep)
    return [trial for trial in every if is_feasible(aims.constraints, [trial])]


def _best(
    session: Session, record: SweepRecord, feasible: Sequence[MeasuredTrial]
) -> TrialSummary | None:
    best = max(feasible, key=lambda trial: (trial.best_value or 0.0, -trial.number), default=None)
    if best is None:
        return None
    query = select_trials().where(
        SweepTrialRecord.sweep_id == record.id, SweepTrialRecord.number == best.number
    )
    return summarize(session.execute(query).one())


def state_of(stored: str, holder: Holder | None) -> str:
    """The state of a sweep; a driver that was killed has left RUNNING behind.

    A sweep that came from another leaderboard, or from an older version, has had no holder here.
    """
    if stored == "RUNNING" and holder is not None and not holder.lives:
        return "INTERRUPTED"
    return stored


def _spec(record: SweepRecord) -> SweepSpec | None:
    """Its file; None of one of another version, or imported."""
    try:
        return SweepSpec.model_validate(record.spec)
    except ValidationError:
        return None


def _planned(spec: SweepSpec, asked: Asked) -> int | None:
    """How many trials it is to have; None where no number limits it."""
    return None if spec.planned is None else spec.planned + asked.enqueued


def running_trials(session: Session, name: str) -> list[TrialSummary]:
    """The trials of a sweep that have not ended, the newest first, at most 50.

    Their `value` and `step` are of the last report; None before the first one.

    Raises:
        NotFoundError: if there is no such sweep.
    """
    sweep = find_sweep(session, name)
    space = space_of(sweep.spec)
    return [summarize(line, space) for line in session.execute(_running(sweep.id))]


def _running(sweep: int) -> Select[Any]:
    last = (
        select(func.max(DevPointRecord.step))
        .where(DevPointRecord.trial_id == TrialRecord.id)
        .correlate(TrialRecord)
        .scalar_subquery()
    )
    at_last = (DevPointRecord.trial_id == TrialRecord.id) & (DevPointRecord.step == last)
    return (
        select_trials(value=DevPointRecord.value, step=DevPointRecord.step)
        .outerjoin(DevPointRecord, at_last)
        .where(SweepTrialRecord.sweep_id == sweep, TrialRecord.state == "RUNNING")
        .order_by(SweepTrialRecord.number.desc())
        .limit(50)
    )
