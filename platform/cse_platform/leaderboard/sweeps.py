"""Sweeps: their progress, what runs in them now, and what has changed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from sqlalchemy import and_, case, func, or_, select
from sqlalchemy.orm import Session, selectinload

from cse_platform.leaderboard.board import read_annotations
from cse_platform.leaderboard.records import Annotations, Trial, best_key
from cse_platform.leaderboard.trials import (
    LAST_VALUE,
    MADE_IN_SWEEP,
    best_columns,
    best_trials,
    read_trials,
    select_results_of,
    select_trials,
    space_of,
)
from cse_platform.numbers import short_value
from cse_platform.stores.sql.lease import LeaseOwner, lease_owners
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    JournalCursorRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTrialRecord,
    TrialRecord,
    find_sweep,
    in_batches,
)
from cse_platform.sweep.blocks import Budget, trials_within
from cse_platform.tracking.events import DriverMessage, SweepRequested
from cse_platform.tracking.history import stored_at_most


@dataclass(frozen=True)
class SweepOverview:
    """The progress of one sweep."""

    name: str
    journal: str
    method: str
    backbone: str
    tags: tuple[str, ...]
    """The tags of its file and those from annotations."""
    written: Annotations
    dev: str
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    state: str
    """`RUNNING`, `INTERRUPTED`, `COMPLETE`, or `FAILED`: it ended without a complete trial."""
    holder: LeaseOwner | None
    """The driver that holds or last held it; None if it was never run here."""
    asked: tuple[str, ...]
    """The requests that its driver has not taken yet: `stop`, `retry 3`, `limit 8` and so on."""
    acting: tuple[str, ...]
    """The requests to stop or retry that its driver has taken and not carried out yet."""
    started: datetime
    restarted: datetime
    """Its last start."""
    finished: datetime | None
    counts: dict[str, int]
    """Trials by state: RUNNING, COMPLETE, PRUNED and FAIL are always present."""
    cut_off: int
    """The number of RUNNING trials that were cut off and wait to go on."""
    at_most: int | None
    """How many of its trials may run at once; None if that is not limited."""
    ended_by: str | None
    """The budget that ended its search, in words; None if that was the number of trials."""
    planned: int
    """The planned number of trials, including further seeds; the actual number if the sweep is
    complete or its file does not limit it.
    """
    best: Trial | None
    """The complete trial with the highest dev score."""
    elapsed: float
    """Seconds from the last start to the end, or until now; until it last moved if its driver was
    killed.
    """
    left: float | None
    """Estimated seconds until its trials have ended, at the pace since the last start and within
    the budgets of time and GPU-hours; None unless it runs, a trial has ended since, its file limits
    the search, and it is not `scoring`.
    """
    scoring: bool
    """Whether it runs, all its trials have ended, and it scores complete ones on test sets."""
    quiet: float | None
    """Seconds since the last sign of activity; None unless it runs."""

    @property
    def trials(self) -> int:
        """The number of trials in any state."""
        return sum(self.counts.values())

    def as_record(self) -> dict[str, Any]:
        """Return the fields that `cse-sweep status --json` prints."""
        return asdict(self) | {"best": None if self.best is None else self.best.as_record()}

    @property
    def ended(self) -> int:
        """The number of trials that have ended in any state."""
        return self.trials - self.counts["RUNNING"]


def read_sweeps(
    session: Session, *, limit: int | None = None, offset: int = 0
) -> list[SweepOverview]:
    """The progress of sweeps, the last started one first; `offset` of them are skipped."""
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
    for batch in in_batches(ids):
        overviews |= _build_overviews(session, batch)
    return [overviews[sweep] for sweep in ids]


def count_sweeps(session: Session) -> int:
    """Count the sweeps."""
    return session.scalar(select(func.count()).select_from(SweepRecord)) or 0


def read_sweep(session: Session, name: str, *, now: datetime | None = None) -> SweepOverview:
    """The progress of a sweep; `now` is the time for which a running one is described."""
    sweep = find_sweep(session, name).id
    return _build_overviews(session, [sweep], now)[sweep]


def read_running(session: Session, sweep: str, *, curves: bool = False) -> list[Trial]:
    """The trials of a sweep that have not ended, the newest first, at most 50.

    They have the best so far, and the step and the dev score of their last report, None before
    the first; with `curves`, also their dev curves.
    """
    record = find_sweep(session, sweep)
    return read_trials(
        session,
        SweepTrialRecord.sweep_id == record.id,
        AttemptRecord.state == "RUNNING",
        order=(SweepTrialRecord.number.desc(),),
        limit=50,
        space=space_of(record.spec),
        curves="metrics" if curves else None,
        last_step=AttemptRecord.reached,
        last_value=LAST_VALUE,
        attempt=MADE_IN_SWEEP,
        **best_columns(record),
    )


def read_running_and_ended(
    session: Session, sweep: str, *, since: datetime | None = None
) -> list[Trial]:
    """The running trials of a sweep, and those that ended since a time, or all, by number.

    They have the best so far, their last points, and whose results the leaderboard has. A
    reused trial ended when the sweep reused it.
    """
    record = find_sweep(session, sweep)
    ended = func.coalesce(SweepTrialRecord.reused, AttemptRecord.finished)
    runs = AttemptRecord.state == "RUNNING"
    return read_trials(
        session,
        SweepTrialRecord.sweep_id == record.id,
        *([] if since is None else [or_(runs, ended >= since)]),
        space=space_of(record.spec),
        finished=ended,
        last_step=AttemptRecord.reached,
        last_value=LAST_VALUE,
        attempt=MADE_IN_SWEEP,
        results_of=select_results_of(),
        **best_columns(record),
    )


def read_messages(
    session: Session, sweep: str, *, since: datetime | None = None
) -> list[DriverMessage]:
    """The messages of the driver of a sweep, notes and warnings since a time, oldest first."""
    record = find_sweep(session, sweep)
    message = DriverMessageRecord
    query = select(message).where(message.sweep_id == record.id)
    if since is not None:
        query = query.where(message.time >= since)
    return [
        DriverMessage(sweep=sweep, time=line.time, level=line.level, text=line.text)
        for line in session.scalars(query.order_by(message.time, message.position))
    ]


def read_stamps(session: Session, sweep: str | None = None) -> dict[str, tuple[str, int]]:
    """Stamps of all sweeps, or of one, by name; a stamp changes when its sweep changes.

    They are the state, as `state_of` returns it, and how far the journal has been applied.
    """
    columns = (SweepRecord.name, SweepRecord.state, JournalCursorRecord.position)
    query = select(*columns).outerjoin(
        JournalCursorRecord, JournalCursorRecord.journal == SweepRecord.journal
    )
    if sweep is not None:
        query = query.where(SweepRecord.id == find_sweep(session, sweep).id)
    owners = lease_owners(session, sweep)
    return {
        name: (state_of(state, owners.get(name)), position or 0)
        for name, state, position in session.execute(query.order_by(SweepRecord.id))
    }


def read_version(session: Session) -> frozenset[tuple[str, int]]:
    """How far each journal is applied; every write changes it."""
    cursors = session.execute(select(JournalCursorRecord.journal, JournalCursorRecord.position))
    return frozenset((journal, position) for journal, position in cursors)


_OF_SWEEP = ("name", "journal", "method", "backbone", "dev", "started", "finished", "ended_by")


def _build_overviews(
    session: Session, sweeps: Sequence[int], now: datetime | None = None
) -> dict[int, SweepOverview]:
    """Build the overviews of these sweeps, by their ids."""
    now = now or datetime.now(UTC)
    states = _count_states(session, sweeps)
    best = best_trials(session, sweeps)
    holders, requests = lease_owners(session), _read_requests(session)
    written = read_annotations(session, "sweep")
    starts = selectinload(SweepRecord.starts).load_only(SweepStartRecord.started)
    query = select(SweepRecord).options(starts, selectinload(SweepRecord.tags))
    overviews = dict[int, SweepOverview]()
    for record in session.scalars(query.where(SweepRecord.id.in_(sweeps))):
        asked = requests[record.name]
        written_here = written.get(record.name, Annotations())
        counts = {"RUNNING": 0, "COMPLETE": 0, "PRUNED": 0, "FAIL": 0} | states[record.id]
        trials = sum(counts.values())
        left_behind = 0 if record.state == "COMPLETE" else _count_left_behind(session, record)
        planned = None
        if record.planned is not None:
            planned = record.planned + asked.enqueued + left_behind
        restarted = record.starts[-1].started if record.starts else record.started
        state = state_of(record.state, holders.get(record.name))
        if state == "COMPLETE" and not counts["COMPLETE"]:
            state = "FAILED"
        runs = state == "RUNNING"
        ended, heard = 0, record.finished or restarted
        if record.state == "RUNNING":  # or its driver was killed
            ended, heard = _read_activity(session, record.id, since=restarted)
        elapsed = ((now if runs else heard) - restarted).total_seconds()
        missing = None if planned is None else max(planned - trials, 0.0) + counts["RUNNING"]
        pace, moves = elapsed / max(ended, 1), runs and ended > 0
        if moves:
            missing = _estimate_missing_trials(
                session, record, missing, pace, now, left_behind=left_behind
            )
        all_ended = moves and missing == 0 and not counts["RUNNING"]
        has_models = counts["COMPLETE"] > 0
        scoring = all_ended and has_models and record.spec.get("evaluate") is not None
        at_most = stored_at_most(record.spec)
        if asked.limit is not None and asked.limit.time > restarted:
            at_most = asked.limit.at_most  # until the next start, which goes by the file again
        overviews[record.id] = SweepOverview(
            **{name: getattr(record, name) for name in _OF_SWEEP},
            tags=tuple(sorted({tag.tag for tag in record.tags}.union(written_here.tag_names))),
            written=written_here,
            state=state,
            holder=holders.get(record.name),
            asked=tuple(asked.waiting),
            acting=tuple(
                _format_request(act.model_dump())
                for act in asked.acts
                if runs and act.time > restarted and _is_unfinished(session, record.id, act)
            ),
            restarted=restarted,
            counts=counts,
            cut_off=_count_cut_off(session, record.id) if runs else counts["RUNNING"],
            at_most=at_most,
            planned=trials if record.state == "COMPLETE" else max(planned or 0, trials),
            best=best.get(record.name),
            elapsed=elapsed,
            left=None if missing is None or not moves or scoring else pace * missing,
            scoring=scoring,
            quiet=(now - heard).total_seconds() if runs else None,
        )
    return overviews


@dataclass
class _Requests:
    """What people have asked of a sweep."""

    waiting: list[str] = field(default_factory=list)
    """What no driver has taken yet, in words."""
    enqueued: int = 0
    """The number of trials that they added."""
    limit: SweepRequested | None = None
    """The last limit of trials at once."""
    acts: list[SweepRequested] = field(default_factory=list)
    """The stops and retries that a driver has taken."""


def _read_requests(session: Session) -> Mapping[str, _Requests]:
    """Read the requests of each sweep; a sweep without one has none."""
    requests = defaultdict[str, _Requests](_Requests)
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        asked = requests[record.sweep]
        if record.taken is None:
            asked.waiting.append(_format_request(record.event))
            continue
        taken = SweepRequested.model_validate(record.event)
        match taken.action:
            case "enqueue":
                asked.enqueued += 1
            case "limit":
                asked.limit = taken
            case "stop" | "retry":
                asked.acts.append(taken)
    return requests


def _count_states(session: Session, sweeps: Sequence[int]) -> Mapping[int, dict[str, int]]:
    """Count the trials of sweeps by state; sweeps are given by their ids."""
    by_state = (
        select(SweepTrialRecord.sweep_id, AttemptRecord.state, func.count())
        .join(SweepTrialRecord.trial)
        .join(SweepTrialRecord.sweep)
        .join(AttemptRecord, MADE_IN_SWEEP)
        .where(SweepTrialRecord.sweep_id.in_(sweeps))
        .group_by(SweepTrialRecord.sweep_id, AttemptRecord.state)
    )
    states: dict[int, dict[str, int]] = defaultdict(dict)
    for sweep, state, trials in session.execute(by_state):
        states[sweep][state] = trials
    return states


def _count_cut_off(session: Session, sweep: int) -> int:
    """Count the trials of a sweep that wait to go on. The reason is read of unfinished trials only:
    it stands behind what is large in a row.
    """
    waiting = select_trials(func.count(), attempt=MADE_IN_SWEEP)
    waiting = waiting.where(SweepTrialRecord.sweep_id == sweep, AttemptRecord.state == "RUNNING")
    return session.scalar(waiting.where(AttemptRecord.why.is_not(None))) or 0


def _format_request(request: Mapping[str, Any]) -> str:
    """Format a request as its command has it: `stop`, `retry 3 7`, `enqueue --set kind=b`."""
    words = [request["action"], *request.get("numbers", ())]
    for name, value in request.get("values", {}).items():
        words += ["--set", f"{name}={short_value(value)}"]
    if request["action"] == "limit":
        words.append(request.get("at_most") or "none")
    return " ".join(map(str, words))


def _is_unfinished(session: Session, sweep: int, request: SweepRequested) -> bool:
    """Whether trials of a running sweep are still to be stopped, or to be started again."""
    if request.action == "stop" and not request.numbers:
        return True
    if request.action == "stop":
        waits = [AttemptRecord.state == "RUNNING"]
    else:
        states = ("FAIL", "PRUNED") if request.numbers else ("FAIL",)
        waits = [AttemptRecord.state.in_(states), AttemptRecord.finished < request.time]
    if request.numbers:
        waits.append(SweepTrialRecord.number.in_(request.numbers))
    waiting = select_trials(SweepTrialRecord.number, attempt=MADE_IN_SWEEP)
    waiting = waiting.where(SweepTrialRecord.sweep_id == sweep)
    return session.execute(waiting.where(*waits).limit(1)).first() is not None


def state_of(stored: str, holder: LeaseOwner | None) -> str:
    """Return the state of a sweep: INTERRUPTED if it is stored as RUNNING but its driver is dead.

    A sweep of another runs folder has no holder, and keeps its stored state.
    """
    if stored == "RUNNING" and holder is not None and not holder.lives:
        return "INTERRUPTED"
    return stored


def _read_activity(session: Session, sweep: int, *, since: datetime) -> tuple[int, datetime]:
    """Count the trials of a sweep that ended since its last start, and read when it last moved."""
    of_sweep = (
        select(func.max(AttemptRecord.started))
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(SweepTrialRecord.sweep)
        .join(AttemptRecord, MADE_IN_SWEEP)
        .where(SweepTrialRecord.sweep_id == sweep)
    )
    ended, finished = session.execute(
        of_sweep.with_only_columns(func.count(), func.max(AttemptRecord.finished)).where(
            AttemptRecord.finished >= since
        )
    ).one()
    runs = of_sweep.where(AttemptRecord.state == "RUNNING")
    of_running = DevPointRecord.attempt_id.in_(runs.with_only_columns(AttemptRecord.id))
    reported = session.scalar(select(func.max(DevPointRecord.reported_at)).where(of_running))
    times = (since, finished, session.scalar(runs), reported)
    return ended, max(time for time in times if time is not None)


def _count_left_behind(session: Session, sweep: SweepRecord) -> int:
    """Count the further seeds of configurations that get none now, as the sweep's driver does."""
    top = ((sweep.spec.get("seeds") or {}).get("confirm") or {}).get("top")
    if not sweep.confirming or top is None:
        return 0
    is_further = SweepTrialRecord.role == "confirm"
    is_searched = and_(~is_further, AttemptRecord.state == "COMPLETE")
    query = (
        select(
            ConfigurationRecord.hash,
            func.avg(case((is_searched, AttemptRecord.best_value))),
            func.sum(case((is_further, 1), else_=0)),
        )
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(SweepTrialRecord.sweep)
        .join(TrialRecord.configuration)
        .join(AttemptRecord, MADE_IN_SWEEP)
        .where(SweepTrialRecord.sweep_id == sweep.id)
        .group_by(ConfigurationRecord.hash)
    )
    further = {
        best_key(standing=1, mean=mean, configuration=name): seeds
        for name, mean, seeds in session.execute(query)
        if mean is not None
    }
    return sum(further[key] for key in sorted(further, reverse=True)[top:])


def _estimate_missing_trials(
    session: Session,
    sweep: SweepRecord,
    missing: float | None,
    pace: float,
    now: datetime,
    *,
    left_behind: int,
) -> float | None:
    """Estimate how many trials are to end yet, if they end at this pace; None without a limit.

    `left_behind` are further seeds of configurations that get none now. `missing` is the number
    without the budgets, which can end the search sooner, and then further seeds follow. The GPU
    time of a trial is estimated from those that have ended.
    """
    if not sweep.budget:
        return missing
    columns = SweepTrialRecord.role, SweepTrialRecord.gpu_seconds
    query = (
        select(*columns, AttemptRecord.started, AttemptRecord.finished)
        .join(SweepTrialRecord.trial)
        .join(SweepTrialRecord.sweep)
        .join(AttemptRecord, MADE_IN_SWEEP)
        .where(SweepTrialRecord.sweep_id == sweep.id, SweepTrialRecord.reused.is_(None))
    )
    rows = session.execute(query).all()
    searched = [row for row in rows if row.role != "confirm"]
    within: float | None = sum(row.finished is None for row in rows)
    if sweep.ended_by is None:
        ended = [row.gpu_seconds for row in searched if row.finished is not None]
        seconds, until = 0.0, datetime.min.replace(tzinfo=UTC)  # in which at least one trial ran
        for begin, end in sorted((row.started, row.finished or now) for row in searched):
            seconds += max(0.0, (end - max(begin, until)).total_seconds())
            until = max(until, end)
        within = trials_within(
            Budget.model_validate(sweep.budget),
            each=pace,
            at_once=1,
            gpu=fmean(ended) / pace if ended else 0.0,
            count=None,
            seconds=seconds,
            gpu_seconds=sum(ended),
        )
    if within is None:
        return missing
    within += max(sweep.confirming + left_behind - (len(rows) - len(searched)), 0)
    return within if missing is None else min(missing, within)
