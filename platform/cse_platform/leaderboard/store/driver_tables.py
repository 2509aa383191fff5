"""The tables between a sweep's driver and others: who holds it, and what is asked of it."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from cse_platform.leaderboard.store.base import Base


class SweepLeaseRecord(Base):
    """Which driver holds a sweep, or held it last. Times are the database server's."""

    __tablename__ = "sweep_leases"

    sweep: Mapped[str] = mapped_column(primary_key=True)
    """Its name: a lease is taken before the sweep has a row."""
    holder: Mapped[str | None]
    """What this driver alone knows; None once it has given the sweep back."""
    journal: Mapped[str]
    """Identity of the journal that the sweep goes on from."""
    folder: Mapped[str]
    """Where the journal lies on the host."""
    host: Mapped[str]
    machine: Mapped[str]
    """Equal where a process number means the same process; a host's name is not enough."""
    pid: Mapped[int]
    since: Mapped[datetime]
    heartbeat: Mapped[datetime]


class SweepRequestRecord(Base):
    """What a person has asked of a sweep from elsewhere. The driver takes it into its journal."""

    __tablename__ = "sweep_requests"

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep: Mapped[str] = mapped_column(index=True)
    event: Mapped[dict[str, Any]]
    """As the journal gets it."""
    taken: Mapped[datetime | None]
    """When it came here from the driver's journal; None before."""
