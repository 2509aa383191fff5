"""Which driver holds a sweep, and whether it lives."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.driver_tables import SweepLeaseRecord

LEASE_SECONDS = 60.0
"""A driver that has not been heard of for so long has lost its sweep."""


@dataclass(frozen=True)
class Holder:
    """The driver that holds a sweep, or held it last."""

    host: str
    pid: int
    folder: str
    """With the sweep's journal, on the host."""
    since: datetime
    silent: float
    """Seconds since its last heartbeat."""
    lives: bool
    """Whether the sweep is its own still: not given back, and the driver neither dead nor silent
    for too long."""


def holders(session: Session, sweep: str | None = None) -> dict[str, Holder]:
    """Who holds each sweep, by its name, or the one of this name; one never run here lacks."""
    query = select(SweepLeaseRecord)
    if sweep is not None:
        query = query.where(SweepLeaseRecord.sweep == sweep)
    now = server_time(session)
    return {record.sweep: holder_of(record, now) for record in session.scalars(query)}


def holder_of(record: SweepLeaseRecord, now: datetime) -> Holder:
    """Who holds a sweep by its lease, at a moment of the server's."""
    # After the clock was set back, too, a heartbeat of long ago is none.
    silent = abs((now - record.heartbeat).total_seconds())
    gone = record.machine == this_machine() and not _runs(record.pid)
    return Holder(
        host=record.host,
        pid=record.pid,
        folder=record.folder,
        since=record.since,
        silent=silent,
        lives=record.holder is not None and silent < LEASE_SECONDS and not gone,
    )


def server_time(session: Session) -> datetime:
    """What the clock of the database's machine says: all drivers are judged by the same one."""
    if session.get_bind().dialect.name == "sqlite":  # a file on this machine
        return datetime.now(UTC)
    told: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return told.astimezone(UTC)


def this_machine() -> str:
    """What processes share that know each other by number: a boot of a kernel, and a container."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return socket.gethostname()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return True
