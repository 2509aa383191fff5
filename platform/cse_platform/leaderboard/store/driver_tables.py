"""The tables between the driver of a sweep and those who are not: who holds the sweep."""

from datetime import datetime

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
