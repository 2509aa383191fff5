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

        Raises:
            LeaseLostError: if another driver has taken over the sweep.
        """
        now = server_time(session)
        if not self._closing.is_set() and insert_once(
            session, SweepLeaseRecord, {"sweep": self._sweep}, self._make_lease_row(now)
        ):
            return  # the row was missing: the leaderboard was restored from a copy
        record = self._lock_lease_record(session)
        if record.holder is None and self._closing.is_set():
            return  # released, and nobody has taken it: a last batch may still be written
        if record.holder != self._holder:
            holder, first = holder_of(record, now), self._lost is None
            self._lost = LeaseLostError(
                f"process {holder.pid} on {holder.host} has taken sweep {self._sweep!r} over at "
                f"{utc(holder.since)}, while this driver was not heard of; its trials are stopped "
                "here, and nothing more is written"
            )
            if first and not self._closing.is_set():
                self._on_lost()
            raise self._lost
        record.heartbeat = now

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
        now, sweep = server_time(session), sweep_or_none(session, self._sweep)
        if insert_once(
            session, SweepLeaseRecord, {"sweep": self._sweep}, self._make_lease_row(now)
        ):
            if self._has_journal and sweep and sweep.journal != self._journal["journal"]:
                raise SweepRefusedError(
                    f"the leaderboard has another sweep of the name {self._sweep!r}, whose journal "
                    f"is not that in {self._journal['folder']}; run this one as another sweep, "
                    "which takes over the trials that are complete: --set sweep=NEWNAME"
                )
            return
        record = self._lock_lease_record(session)
        holder = holder_of(record, now)
        if holder.lives:
            raise SweepRefusedError(
                f"sweep {self._sweep!r} is held by process {holder.pid} on {holder.host} since "
                f"{utc(holder.since)}, last heard of {holder.silent:.0f} s ago; wait for its end, "
                f"or end it: cse-sweep stop {self._sweep}; one that has died loses it after "
                f"{LEASE_SECONDS:g} s"
            )
        row = self._make_lease_row(now)
        if not self._has_journal:
            row = {name: value for name, value in row.items() if name not in self._journal}
        elif record.journal != row["journal"] and sweep:
            raise SweepRefusedError(_explain_other_journal(self._sweep, holder, here=row))
        for name, value in row.items():
            setattr(record, name, value)

    def _make_lease_row(self, now: datetime) -> dict[str, Any]:
        taken = {"holder": self._holder, "since": now, "heartbeat": now}
        return self._journal | self._driver | taken

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
    return (
        f"{lost}, or run it as another sweep, which takes over the trials that are complete: "
        "--set sweep=NEWNAME. If the leaderboard is an old or foreign one, make it anew from the "
        "journals: cse-leaderboard rebuild"
    )


def _read_uptime() -> float:
    """Read a monotonic clock in seconds, including suspended time where the platform counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
