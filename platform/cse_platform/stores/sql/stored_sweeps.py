"""Finds a sweep by its name, with its file, the driver that holds it, and pending requests."""

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
from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.orm import Session

from cse_platform.errors import NotFoundError, SweepRefusedError
from cse_platform.stores.sql.tables import (
    SHARED_SWEEPS,
    JournalCursorRecord,
    SweepLeaseRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepTrialRecord,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.space.space import Space


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))


def sweep_or_none(session: Session, name: str) -> SweepRecord | None:
    """Find the sweep of that name, or None; a shared session reads each sweep once."""
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
        NotFoundError: if there is none; suggests the nearest name.
    """
    sweep = sweep_or_none(session, name)
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise NotFoundError(f"there is no sweep {name!r}: this leaderboard holds none yet")
    hint = did_you_mean(name, names) or f"; the last ones are {', '.join(names[-5:])}"
    raise NotFoundError(f"there is no sweep {name!r} on this leaderboard{hint}")


def next_number(session: Session, sweep: str) -> int:
    """Return the number of the next trial of a sweep; 0 if there is no such sweep."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1


def space_of(spec: Mapping[str, Any]) -> Space:
    """Parse the search space of a sweep's stored file; empty if it cannot be parsed."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})


LEASE_SECONDS = 60.0
"""A driver that has sent no heartbeat for so long loses its sweep."""


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
    """Whether it still holds the sweep: it has not released it, and is neither dead nor silent for
    too long.
    """


def lease_owners(session: Session, sweep: str | None = None) -> dict[str, LeaseOwner]:
    """Read the owner of each sweep's lease, or of one; sweeps that never ran here are absent."""
    query = select(SweepLeaseRecord)
    if sweep is not None:
        query = query.where(SweepLeaseRecord.sweep == sweep)
    now = server_time(session)
    return {record.sweep: holder_of(record, now) for record in session.scalars(query)}


def refuse_while_driven(connection: Connection) -> None:
    """Raise SweepRefusedError if a driver holds a sweep of a leaderboard."""
    if not inspect(connection).has_table(SweepLeaseRecord.__tablename__):
        return
    with Session(connection) as session:
        holders = {name: one for name, one in lease_owners(session).items() if one.lives}
    for name, holder in holders.items():
        raise SweepRefusedError(
            f"process {holder.pid} on {holder.host} runs sweep {name!r}; wait for its end, or end "
            f"it: cse-sweep stop {name}"
        )


def holder_of(record: SweepLeaseRecord, now: datetime) -> LeaseOwner:
    """Describe the driver of a lease, given the time of the database server."""
    # The absolute value also expires an old heartbeat after the clock was set back.
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
    """Read the clock of the database server, which decides when a lease expires."""
    if session.get_bind().dialect.name == "sqlite":  # a file on this machine
        return datetime.now(UTC)
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


def this_machine() -> str:
    """Return an identifier of the kernel's boot and the PID namespace.

    Processes for which it is equal can look each other up by PID.
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
    """Actions of the requests that its driver has not taken yet, in the order in which they were
    made.
    """
    paused: bool = False
    """Whether it was paused, and not resumed since."""
    enqueued: int = 0
    """Number of configurations that were enqueued in addition to those of the search."""


def requests_by_sweep(session: Session) -> Mapping[str, SweepRequests]:
    """Read the requests of each sweep, by its name."""
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
