"""Finds a sweep by its name: its file, the driver that holds it, and pending requests."""

import os
import socket
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.tables import (
    SHARED_SWEEPS,
    SweepLeaseRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.space.space import Space


def sweep_or_none(session: Session, name: str) -> SweepRecord | None:
    """Find the sweep of that name, if there is one; a session that is shared reads it once."""
    known: dict[str, SweepRecord] = session.info.get(SHARED_SWEEPS, {})
    if name not in known:
        query = select(SweepRecord).where(SweepRecord.name == name)
        sweep = session.scalars(query).one_or_none()
        if sweep is None:
            return None
        known[name] = sweep
    return known[name]


def find_sweep(session: Session, name: str) -> SweepRecord:
    """Find the sweep of that name.

    Raises:
        NotFoundError: if there is none; names the nearest.
    """
    sweep = sweep_or_none(session, name)
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise NotFoundError(f"there is no sweep {name!r}: this leaderboard holds none yet")
    hint = did_you_mean(name, names) or f"; the last ones are {', '.join(names[-5:])}"
    raise NotFoundError(f"there is no sweep {name!r} on this leaderboard{hint}")


def count_sweeps(session: Session) -> int:
    """Count the sweeps."""
    return session.scalar(select(func.count()).select_from(SweepRecord)) or 0


def next_number(session: Session, sweep: str) -> int:
    """Return the number that the next trial of a sweep gets; 0 if there is no such sweep."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1


def sampler_of(spec: Mapping[str, Any]) -> str:
    """Name the sampler of a sweep, by its stored file; empty if that does not say so."""
    search = spec.get("search")
    sampler = search.get("sampler", "") if isinstance(search, Mapping) else ""
    return str(sampler.get("kind", "") if isinstance(sampler, Mapping) else sampler)


def space_of(spec: Mapping[str, Any]) -> Space:
    """Parse the space of a sweep, by its stored file; empty if that cannot be read."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})


LEASE_SECONDS = 60.0
"""A driver that has not been heard of for so long has lost its sweep."""


@dataclass(frozen=True)
class LeaseOwner:
    """The driver that holds a sweep, or held it last."""

    host: str
    pid: int
    folder: str
    """The folder of the sweep's journal, on the host."""
    since: datetime
    silent: float
    """Seconds since its last heartbeat."""
    lives: bool
    """Whether the sweep is its own still: not given back, and the driver neither dead nor silent
    for too long."""


def lease_owners(session: Session, sweep: str | None = None) -> dict[str, LeaseOwner]:
    """Read who holds or last held each sweep, or the named one; absent if it never ran here."""
    query = select(SweepLeaseRecord)
    if sweep is not None:
        query = query.where(SweepLeaseRecord.sweep == sweep)
    now = server_time(session)
    return {record.sweep: holder_of(record, now) for record in session.scalars(query)}


def holder_of(record: SweepLeaseRecord, now: datetime) -> LeaseOwner:
    """Describe the driver that holds a sweep, by its lease and the time of the server."""
    # After the clock was set back, too, a heartbeat of long ago is none.
    silent = abs((now - record.heartbeat).total_seconds())
    gone = record.machine == this_machine() and not _is_running(record.pid)
    return LeaseOwner(
        host=record.host,
        pid=record.pid,
        folder=record.folder,
        since=record.since,
        silent=silent,
        lives=record.holder is not None and silent < LEASE_SECONDS and not gone,
    )


def server_time(session: Session) -> datetime:
    """Read the clock of the database's machine, which all drivers are judged by."""
    if session.get_bind().dialect.name == "sqlite":  # a file on this machine
        return datetime.now(UTC)
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


def this_machine() -> str:
    """Identify the boot of the kernel and the container.

    Processes that share both know each other by number.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return socket.gethostname()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return True


@dataclass(frozen=True)
class SweepRequests:
    """The requests for one sweep."""

    waiting: tuple[str, ...] = ()
    """The requests that its driver has not taken yet, in the order in which they were made."""
    paused: bool = False
    """Whether it was paused, and not resumed since."""
    enqueued: int = 0
    """Configurations that were put in beside those that its search takes."""


def requests_by_sweep(session: Session) -> Mapping[str, SweepRequests]:
    """Read the requests for each sweep, by its name."""
    requests: dict[str, SweepRequests] = defaultdict(SweepRequests)
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        known, action = requests[record.sweep], record.event["action"]
        if record.taken is None:
            requests[record.sweep] = replace(known, waiting=(*known.waiting, action))
        elif action in ("pause", "resume"):
            requests[record.sweep] = replace(known, paused=action == "pause")
        elif action == "enqueue":
            requests[record.sweep] = replace(known, enqueued=known.enqueued + 1)
    return requests


@dataclass(frozen=True)
class RequestedSweep:
    """The facts of a sweep that a request for it is checked by."""

    name: str
    state: str
    """As its journal says."""
    spec: dict[str, Any]
    """Its file, as JSON."""
    trials: dict[int, str]
    """The state of each by its number."""
    holder: LeaseOwner | None
    """Its driver, if that lives."""
    folder: Path | None
    """The folder of its journal on the host of its last driver; None if it had none."""
    journals: frozenset[str]
    """The journal of its last start, and the one that its last driver had."""
    started_by: dict[str, str]
    """Provenance of its last start."""


def requested_sweep(session: Session, name: str) -> RequestedSweep:
    """Read the facts of a sweep that a request for it is checked by.

    Raises:
        NotFoundError: if there is none of that name.
    """
    sweep, holder = find_sweep(session, name), lease_owners(session, name).get(name)
    lease = session.get(SweepLeaseRecord, name)
    held = select(SweepTrialRecord.number, TrialRecord.state).join(SweepTrialRecord.trial)
    starts = select(SweepStartRecord.provenance).where(SweepStartRecord.sweep_id == sweep.id)
    last = starts.order_by(SweepStartRecord.started.desc()).limit(1)
    return RequestedSweep(
        name=name,
        state=sweep.state,
        spec=sweep.spec,
        trials={
            row.number: row.state
            for row in session.execute(held.where(SweepTrialRecord.sweep_id == sweep.id))
        },
        holder=holder if holder is not None and holder.lives else None,
        folder=None if lease is None or not lease.folder else Path(lease.folder),
        journals=frozenset({sweep.journal, "" if lease is None else lease.journal} - {""}),
        started_by=session.scalars(last).first() or {},
    )
