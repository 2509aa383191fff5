"""The lease on a sweep: only one driver at a time runs it, wherever its runs folder lies.

The lease is a row of the leaderboard, which all drivers of a sweep share. A driver that dies stops
renewing it and loses it; one that was suspended finds on waking whether another driver holds it.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import LeaseLostError, StoreError, SweepRefusedError
from cse_platform.render.formats import utc
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import (
    LEASE_SECONDS,
    LeaseOwner,
    holder_of,
    server_time,
    sweep_or_none,
    this_machine,
)
from cse_platform.stores.sql.tables import SweepLeaseRecord
from cse_platform.stores.sql.upserts import insert_once
from cse_platform.tracking.journal import Journal

HEARTBEAT_SECONDS = 10.0

_WAYS_OUT = (
    "run it as another sweep, which takes over the trials that are complete: --set "
    "sweep=NEWNAME. If the leaderboard is an old or foreign one, make it anew from the journals: "
    "cse-leaderboard rebuild"
)


class Lease:
    """A lease on a sweep, held until it is closed; thread-safe.

    A background thread renews it. While the leaderboard is down, renewal fails and the sweep
    continues, because no other driver can take the lease either. The command that deletes
    the sweep holds the lease without a journal.

    Raises:
        SweepRefusedError: if another driver holds the sweep, or the sweep continues from another
            journal.
    """

    def __init__(self, leaderboard: Store, sweep: str, journal: Journal | None) -> None:
        self._leaderboard = leaderboard
        self._sweep = sweep
        self._holder = uuid4().hex
        self._driver: dict[str, Any] = {"machine": this_machine(), "pid": os.getpid()}
        self._journal: dict[str, str] = {"journal": "", "folder": "", "host": socket.gethostname()}
        self._has_journal = journal is not None
        if journal is not None:
            folder = str(journal.path.parent.absolute())
            self._journal |= {"journal": journal.id, "folder": folder}
        self._lost: LeaseLostError | None = None
        self._on_lost: Callable[[], None] = lambda: None
        self._trying = threading.Lock()
        self._tried = _read_uptime()
        self._closing = threading.Event()
        with leaderboard.writing(alone=False) as session:
            self._take_lease(session)
        self._thread = threading.Thread(target=self._renew_forever, name="lease", daemon=True)
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

        Raises:
            LeaseLostError: if another driver has taken over the sweep.
            StoreError: if a leaderboard with another sweep of this name has taken the place of it.
        """
        now = server_time(session)
        is_closing = self._closing.is_set()
        if not is_closing and insert_once(
            session, SweepLeaseRecord, {"sweep": self._sweep}, self._make_lease_row(now)
        ):
            self._refuse_other_sweep(session)
            return
        if is_closing and session.get(SweepLeaseRecord, self._sweep) is None:
            self._refuse_other_sweep(session)  # the leaderboard was made anew for a last batch
            return
        record = self._lock_lease_record(session)
        if record.holder == self._holder:
            record.heartbeat = now
        if record.holder == self._holder or (record.holder is None and is_closing):
            return  # once released and not taken by others, a last batch may still be written
        owner = holder_of(record, now)
        is_ours = self._has_journal and record.journal == self._journal["journal"]
        if owner.lives or not self._has_journal or (is_ours and record.since > self._since):
            raise self._mark_lost(owner)
        self._refuse_other_sweep(session)
        self._put_into(record, now)
        if is_closing:
            record.holder = None

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, from any thread, when another driver has taken over the sweep."""
        self._on_lost = callback

    def close(self) -> None:
        """Release the lease; a second call does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join(timeout=1.0)  # do not wait for a renewal on a store that hangs
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

    def _take_lease(self, session: Session) -> None:
        now = self._since = server_time(session)
        if insert_once(
            session, SweepLeaseRecord, {"sweep": self._sweep}, self._make_lease_row(now)
        ):
            self._refuse_other_sweep(session)
            return
        record = self._lock_lease_record(session)
        holder = holder_of(record, now)
        if holder.lives:
            raise SweepRefusedError(_explain_held(self._sweep, holder))
        is_other = self._has_journal and record.journal != self._journal["journal"]
        if is_other and sweep_or_none(session, self._sweep):
            raise SweepRefusedError(_explain_other_journal(self._sweep, holder, here=self._journal))
        self._put_into(record, now)

    def _refuse_other_sweep(self, session: Session) -> None:
        """Raise StoreError if the leaderboard has a sweep of this name of another journal."""
        sweep = sweep_or_none(session, self._sweep)
        if self._has_journal and sweep and sweep.journal != self._journal["journal"]:
            raise StoreError(
                f"it has another sweep of the name {self._sweep!r}, whose journal is not that in "
                f"{self._journal['folder']}; {_WAYS_OUT}"
            )

    def _make_lease_row(self, now: datetime) -> dict[str, Any]:
        taken = {"holder": self._holder, "since": self._since, "heartbeat": now}
        return self._journal | self._driver | taken

    def _put_into(self, record: SweepLeaseRecord, now: datetime) -> None:
        """Put this lease into a record; without a journal, the one that it names stays."""
        for name, value in self._make_lease_row(now).items():
            if self._has_journal or name not in self._journal:
                setattr(record, name, value)

    def _lock_lease_record(self, session: Session) -> SweepLeaseRecord:
        """Lock the row, so that no other transaction changes it until this one has ended."""
        query = select(SweepLeaseRecord).where(SweepLeaseRecord.sweep == self._sweep)
        return session.scalars(query.with_for_update()).one()

    def _renew_forever(self) -> None:
        while not self._closing.wait(HEARTBEAT_SECONDS):
            self._try_to_renew()

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

    def _mark_lost(self, holder: LeaseOwner) -> LeaseLostError:
        """Record that the lease is lost; call back the first time. Returns the error to raise."""
        first = self._lost is None
        self._lost = LeaseLostError(_explain_taken_over(self._sweep, holder))
        if first and not self._closing.is_set():
            self._on_lost()
        return self._lost


def _explain_held(sweep: str, holder: LeaseOwner) -> str:
    return (
        f"sweep {sweep!r} is held by process {holder.pid} on {holder.host} since "
        f"{utc(holder.since)}, last heard of {holder.silent:.0f} s ago; wait for its end, or "
        f"end it: cse-sweep stop {sweep}; one that has died loses it after {LEASE_SECONDS:g} s"
    )


def _explain_other_journal(sweep: str, holder: LeaseOwner, *, here: Mapping[str, Any]) -> str:
    if (holder.host, holder.folder) == (here["host"], here["folder"]):
        lost = (
            f"the journal that sweep {sweep!r} goes on from is gone from {holder.folder}, which "
            "has a new one; put the newest copy of journal.jsonl back"
        )
    else:
        lost = (
            f"sweep {sweep!r} goes on from the journal in {holder.folder} on {holder.host}, and "
            f"that in {here['folder']} is another one; start it there, copy that folder to here"
        )
    return f"{lost}, or {_WAYS_OUT}"


def _explain_taken_over(sweep: str, holder: LeaseOwner) -> str:
    return (
        f"process {holder.pid} on {holder.host} has taken sweep {sweep!r} over at "
        f"{utc(holder.since)}, while this driver was not heard of; its trials are stopped here, "
        "and nothing more is written"
    )


def _read_uptime() -> float:
    """Read a monotonic clock in seconds, including suspended time where the platform counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
