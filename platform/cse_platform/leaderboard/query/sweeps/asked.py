"""What was asked of sweeps from elsewhere."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.driver_tables import SweepRequestRecord


@dataclass(frozen=True)
class Asked:
    """What was asked of one sweep."""

    waiting: tuple[str, ...] = ()
    """What its driver has not heard yet, in the order in which it was asked."""
    paused: bool = False
    """Whether it was paused, and not resumed since."""


def requests_by_sweep(session: Session) -> Mapping[str, Asked]:
    """What was asked of each sweep, by its name."""
    found: dict[str, Asked] = defaultdict(Asked)
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        known, action = found[record.sweep], record.event["action"]
        if record.taken is None:
            found[record.sweep] = replace(known, waiting=(*known.waiting, action))
        elif action in ("pause", "resume"):
            found[record.sweep] = replace(known, paused=action == "pause")
    return found
