"""Leases and requests: which driver holds a sweep, for how long a silent one keeps it, and what
people ask of it.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psutil
from pydantic import ValidationError
from sqlalchemy import Connection, inspect, select
from sqlalchemy.orm import Session

from cse_platform.errors import LeaseLostError, OtherSweepError, StoreError, SweepRefusedError
from cse_platform.numbers import utc
from cse_platform.stores.sql.keyed_rows import insert_once, refuse_other_journal
from cse_platform.stores.sql.store import HANG_SECONDS, Store, server_time
from cse_platform.stores.sql.tables import SweepLeaseRecord, SweepRequestRecord, sweep_or_none
from cse_platform.tracking.events import SweepRequested
from cse_platform.tracking.journal import Journal

_log = logging.getLogger(__name__)
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


def refuse_while_driven(connection: Connection, sweep: str | None = None) -> None:
    """Raise SweepRefusedError if a driver holds a sweep of a leaderboard, or one of that name."""
    if not inspect(connection).has_table(SweepLeaseRecord.__tablename__):
        return
    with Session(connection) as session:
        for name, owner in lease_owners(session, sweep).items():
            if owner.lives:
                raise SweepRefusedError(
                    f"process {owner.pid} on {owner.host} runs sweep {name!r}; wait until it ends, "
                    f"or end it with cse-sweep stop {name}"
                )


def holder_of(record: SweepLeaseRecord, now: datetime) -> LeaseOwner:
    """Describe the driver of a lease, given the time of the database server."""
    # The absolute value also expires an old heartbeat after the clock was set back.
    silent = abs((now - record.heartbeat).total_seconds())
    gone = record.machine == this_machine() and not psutil.pid_exists(record.pid)
    if record.machine == this_machine() and not gone:
        with suppress(psutil.Error):
            gone = psutil.Process(record.pid).status() == psutil.STATUS_ZOMBIE
    return LeaseOwner(
        host=record.host,
        pid=record.pid,
        folder=record.folder,
        since=record.since,
        silent=silent,
        lives=record.holder is not None and silent < LEASE_SECONDS and not gone,
    )


def this_machine() -> str:
    """Return an identifier of the kernel's boot and the PID namespace.

    Processes for which it is equal can look each other up by PID.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return socket.gethostname()


HEARTBEAT_SECONDS = 10.0

_NEW_NAME = "run it as another sweep, which reuses the complete trials: --set sweep=NEWNAME"
_WAYS_OUT = (
    f"{_NEW_NAME}. If the leaderboard is old or another lab's, rebuild it from the journals: "
    "cse-leaderboard rebuild"
)


def refuse_name_of_other_journal(session: Session, sweep: str, journal: str, folder: str) -> None:
    """Refuse a start from a journal in a folder of this host if the name is another journal's.

    `journal` is the id of the journal; empty if there is none yet.

    Raises SweepRefusedError if the sweep goes on from another journal, OtherSweepError if only the
    leaderboard's sweep of this name has another one.
    """
    record = session.get(SweepLeaseRecord, sweep)
    if record is None or record.journal in ("", journal):
        _refuse_other_sweep(session, sweep, journal, folder)
        return
    holder = holder_of(record, server_time(session))
    if not holder.lives and sweep_or_none(session, sweep) is None:
        return  # nothing was begun
    if (holder.host, holder.folder) == (socket.gethostname(), folder):
        raise SweepRefusedError(
            f"the journal of sweep {sweep!r} is gone from {folder}; put the newest copy of "
            f"journal.jsonl back, or {_WAYS_OUT}"
        )
    says = (
        f"sweep {sweep!r} goes on from the journal in {holder.folder} on {holder.host}, not from "
        f"one in {folder}"
    )
    if holder.lives:
        driver = f"process {holder.pid} on {holder.host} holds it"
        raise SweepRefusedError(f"{says}, and {driver}; {_NEW_NAME}")
    raise SweepRefusedError(f"{says}; start it there, copy that folder here, or {_WAYS_OUT}")


def _refuse_other_sweep(session: Session, sweep: str, journal: str, folder: str) -> None:
    """Raise OtherSweepError if the leaderboard has a sweep of this name of another journal."""
    try:
        refuse_other_journal(session, sweep_or_none(session, sweep), journal)
    except OtherSweepError as error:
        raise OtherSweepError(
            f"{error}, and its journal is not the one in {folder}; {_WAYS_OUT}"
        ) from None


class Lease:
    """A lease on a sweep, held until it is closed; thread-safe.

    A background thread renews it. While the leaderboard is down, renewal fails and the sweep
    continues, because no other driver can take the lease either. The command that deletes
    the sweep holds the lease without a journal.

    Raises SweepRefusedError if another driver holds the sweep, or it goes on from another journal.
    """

    def __init__(self, leaderboard: Store, sweep: str, journal: Journal | None) -> None:
        self._leaderboard = leaderboard
        self._sweep = sweep
        self._holder = uuid4().hex
        self._has_journal = journal is not None
        self._row: dict[str, Any] = {
            "holder": self._holder,
            "machine": this_machine(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "journal": "" if journal is None else journal.id,
            "folder": "" if journal is None else str(journal.path.parent.absolute()),
        }
        self._lost: LeaseLostError | None = None
        self.on_lost: Callable[[], None] = lambda: None
        """Called once, from any thread, when another driver has taken over the sweep."""
        self._trying = threading.Lock()
        self._tried = _read_uptime()
        self._closing = threading.Event()
        with leaderboard.writing(alone=False) as session:
            now = self._row["since"] = server_time(session)
            row = {**self._row, "heartbeat": now}
            is_first = insert_once(session, SweepLeaseRecord, {"sweep": sweep}, row)
            record = self._lock_lease_record(session)
            if journal is not None:
                refuse_name_of_other_journal(session, sweep, row["journal"], row["folder"])
            if not is_first:
                self._refuse_if_held(holder_of(record, now))
                self._put_into(record, now)

        def renew_forever() -> None:
            while not self._closing.wait(HEARTBEAT_SECONDS):
                self._try_to_renew()

        self._thread = threading.Thread(target=renew_forever, name="lease", daemon=True)
        self._thread.start()

    @property
    def is_lost(self) -> bool:
        """Whether another driver is known to have taken over the sweep."""
        return self._lost is not None

    def check(self) -> None:
        """Raise LeaseLostError if another driver has taken over the sweep."""
        if self._lost is None and _read_uptime() - self._tried > LEASE_SECONDS:  # we were suspended
            self._try_to_renew()
        if self._lost is not None:
            raise self._lost

    def confirm(self) -> None:
        """Renew the lease now. Raises LeaseLostError if another driver has taken over the sweep."""
        self._try_to_renew(waits=True)
        if self._lost is not None:
            raise self._lost

    def renew(self, session: Session) -> None:
        """Renew the lease; no other driver can take the sweep before this transaction ends.

        A leaderboard that was made anew, or an older copy that has its place, gets the lease again.
        Raises LeaseLostError if another driver has taken over the sweep, StoreError if a
        leaderboard with another sweep of this name has taken its place.
        """
        now, key, is_closing = server_time(session), {"sweep": self._sweep}, self._closing.is_set()
        if is_closing:
            is_anew = session.get(SweepLeaseRecord, key) is None  # made for a last batch
        else:
            row = {**self._row, "heartbeat": now}
            is_anew = insert_once(session, SweepLeaseRecord, key, row)
        here = self._row["journal"], self._row["folder"]
        if is_anew:
            if self._has_journal:
                _refuse_other_sweep(session, self._sweep, *here)
            return
        record = self._lock_lease_record(session)
        if record.holder == self._holder:
            record.heartbeat = now
        if record.holder == self._holder or (record.holder is None and is_closing):
            return  # once released and not taken by others, a last batch may still be written
        owner = holder_of(record, now)
        is_later = record.journal == self._row["journal"] and record.since > self._row["since"]
        if owner.lives or not self._has_journal or is_later:
            first = self._lost is None
            self._lost = LeaseLostError(
                f"process {owner.pid} on {owner.host} took over sweep {self._sweep!r} at "
                f"{utc(owner.since)}, because this driver had gone silent; it stops its trials "
                "and writes nothing more"
            )
            if first and not is_closing:
                self.on_lost()
            raise self._lost
        _refuse_other_sweep(session, self._sweep, *here)
        self._put_into(record, now)
        if is_closing:
            record.holder = None

    def close(self) -> None:
        """Release the lease; a second call does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join(timeout=HANG_SECONDS)
        with suppress(StoreError), self._leaderboard.writing(alone=False) as session:
            record = self._lock_lease_record(session)
            if record.holder == self._holder and not record.journal:
                session.delete(record)  # no driver has ever held the sweep
            elif record.holder == self._holder:
                record.holder = None

    def forget(self, session: Session) -> None:
        """Delete the row of the lease, because its sweep is deleted, and stop renewing it.

        Call `renew` before, in the same transaction.
        """
        self._closing.set()
        session.delete(self._lock_lease_record(session))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Release the lease. Raises LeaseLostError if it was lost, even in place of another
        exception.
        """
        self.close()
        if self._lost is not None:
            raise self._lost

    def _refuse_if_held(self, holder: LeaseOwner) -> None:
        """Raise SweepRefusedError if a driver lives; one elsewhere is named with its folder."""
        if not holder.lives:
            return
        place = other = ""
        here = self._row["host"], self._row["folder"]
        if self._has_journal and (holder.host, holder.folder) != here:
            place, other = f" in {holder.folder}", f", or {_NEW_NAME}"
        raise SweepRefusedError(
            f"sweep {self._sweep!r} is held by process {holder.pid} on {holder.host}{place} since "
            f"{utc(holder.since)}, last heard of {holder.silent:.0f} s ago; wait until it "
            f"ends, or end it with cse-sweep stop {self._sweep}{other}; if it has died, the sweep "
            f"is free after {LEASE_SECONDS:g} s"
        )

    def _put_into(self, record: SweepLeaseRecord, now: datetime) -> None:
        """Put this lease into a record; without a journal, the one that it names stays."""
        for name, value in {**self._row, "heartbeat": now}.items():
            if self._has_journal or name not in ("journal", "folder", "host"):
                setattr(record, name, value)

    def _lock_lease_record(self, session: Session) -> SweepLeaseRecord:
        """Lock the row, so that no other transaction changes it until this one has ended."""
        query = select(SweepLeaseRecord).where(SweepLeaseRecord.sweep == self._sweep)
        return session.scalars(query.with_for_update()).one()

    def _try_to_renew(self, *, waits: bool = False) -> None:
        if not self._trying.acquire(blocking=waits):
            return  # another thread is trying
        try:
            self._tried = _read_uptime()
            with (
                suppress(StoreError, LeaseLostError),
                self._leaderboard.writing(alone=False) as session,
            ):
                self.renew(session)
        finally:
            self._trying.release()


def _read_uptime() -> float:
    """Read a monotonic clock in seconds, including suspended time where the platform counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def add_request(leaderboard: Store, request: SweepRequested) -> None:
    """Store a request for the driver of the sweep: the running one, or else the next one."""
    event = request.model_dump(mode="json")
    with leaderboard.writing() as session:
        session.add(SweepRequestRecord(sweep=request.sweep, event=event))


def waiting_requests(session: Session, sweep: str) -> list[SweepRequested]:
    """Read the requests that no driver has taken yet, in the order in which they were made.

    What this version cannot parse waits for a driver of the version that made it.
    """
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == sweep, SweepRequestRecord.taken.is_(None)
    )
    requests = []
    for record in session.scalars(query.order_by(SweepRequestRecord.id)):
        try:
            requests.append(SweepRequested.model_validate(record.event))
        except ValidationError:
            _warn_unreadable(sweep, record.id)
    return requests


@cache  # once for each request
def _warn_unreadable(sweep: str, number: int) -> None:
    says = "request %s to sweep %s is of another version of cse-platform, whose driver it waits for"
    _log.warning(says, number, sweep)
