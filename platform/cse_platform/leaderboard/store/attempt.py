"""What is stored of one attempt at a trial, whichever table holds it."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column


class AttemptColumns:
    """One attempt at a trial: a journal has one, which goes on where the sweep resumes it."""

    journal: Mapped[str] = mapped_column(default="")
    """The journal that tells of it; empty where it was stored before attempts were told apart."""
    state: Mapped[str]
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    best_step: Mapped[int | None]
    best_value: Mapped[float | None]
    start_value: Mapped[float | None]
    """The dev score at step 0: the untrained backbone."""
    model: Mapped[str | None]
    model_deleted: Mapped[datetime | None]
    """When the sweep deleted its model, to save disk; `model` is NULL then."""
    error: Mapped[str | None]
    why: Mapped[str | None]
    """Why it was stopped early, where it was and that is known."""
    wall_seconds: Mapped[float | None]
    costs: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """What else it took, by name, as far as it is known."""
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machines.id"))
    provenance: Mapped[dict[str, Any]] = mapped_column(default=dict)


class PointColumns:
    """One point of a dev curve."""

    reported_at: Mapped[datetime]
    value: Mapped[float | None]
    metrics: Mapped[dict[str, Any]]


ATTEMPT_COLUMNS = tuple(AttemptColumns.__annotations__)
POINT_COLUMNS = ("step", *PointColumns.__annotations__)
