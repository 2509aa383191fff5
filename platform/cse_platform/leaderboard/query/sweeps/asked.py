"""What was asked of sweeps from elsewhere, and what has to be known of one that is to be asked."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.holders import Holder, holders
from cse_platform.leaderboard.store.driver_tables import SweepRequestRecord
from cse_platform.leaderboard.store.tables import SweepStartRecord, SweepTrialRecord, TrialRecord


@dataclass(frozen=True)
class Asked:
    """What was asked of one sweep."""

    waiting: tuple[str, ...] = ()
    """What its driver has not heard yet, in the order in which it was asked."""
    paused: bool = False
    """Whether it was paused, and not resumed since."""
    enqueued: int = 0
    """Configurations that were put in beside those that its search takes."""


def requests_by_sweep(session: Session) -> Mapping[str, Asked]:
    """What was asked of each sweep, by its name."""
    found: dict[str, Asked] = defaultdict(Asked)
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        known, action = found[record.sweep], record.event["action"]
        if record.taken is None:
            found[record.sweep] = replace(known, waiting=(*known.waiting, action))
        elif action in ("pause", "resume"):
            found[record.sweep] = replace(known, paused=action == "pause")
        elif action == "enqueue":
            found[record.sweep] = replace(known, enqueued=known.enqueued + 1)
    return found


@dataclass(frozen=True)
class AskedSweep:
    """A sweep of which something is to be asked."""

    name: str
    state: str
    """As its journal says."""
    spec: dict[str, Any]
    """Its file, as JSON."""
    trials: dict[int, str]
    """The state of each by its number."""
    holder: Holder | None
    """Its driver, if that lives."""
    started_by: dict[str, str]
    """Provenance of its last start."""


def sweep_to_ask(session: Session, name: str) -> AskedSweep:
    """What has to be known of a sweep.

    Raises:
        NotFoundError: if there is none of that name.
    """
    sweep, holder = find_sweep(session, name), holders(session, name).get(name)
    held = select(SweepTrialRecord.number, TrialRecord.state).join(SweepTrialRecord.trial)
    starts = select(SweepStartRecord.provenance).where(SweepStartRecord.sweep_id == sweep.id)
    last = starts.order_by(SweepStartRecord.started.desc()).limit(1)
    return AskedSweep(
        name=name,
        state=sweep.state,
        spec=sweep.spec,
        trials={
            row.number: row.state
            for row in session.execute(held.where(SweepTrialRecord.sweep_id == sweep.id))
        },
        holder=holder if holder is not None and holder.lives else None,
        started_by=session.scalars(last).first() or {},
    )
