"""Attempts over there at trials that are here: each is offered, and the best stands for the trial.

Of one journal's attempt both sides may have heard, one of them more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.attempts import Attempt, curve_of, finish, settle
from cse_platform.leaderboard.ingest.own_scores import own_metrics
from cse_platform.leaderboard.ingest.upserts import insert_missing
from cse_platform.leaderboard.store.attempt import ATTEMPT_COLUMNS, POINT_COLUMNS
from cse_platform.leaderboard.store.contested_tables import OtherAttemptRecord
from cse_platform.leaderboard.store.tables import TrialRecord

MergeOutcome = Literal["new", "completed", "newer", "differing", "here"]


@dataclass(frozen=True)
class Merged:
    """What became of a trial that both sides have."""

    outcome: MergeOutcome
    points: int
    """Of dev curves, that came."""
    same_model: bool
    """Whether their scores are of the model that stands for the trial here now."""


def merge_attempts(
    ours: Session,
    theirs: Session,
    both: Sequence[tuple[TrialRecord, TrialRecord]],
    others: Mapping[int, Sequence[OtherAttemptRecord]],
    machines: Mapping[int, int],
) -> dict[int, Merged]:
    """Offer their attempts at these trials, pairs of ours and theirs; by the ids there.

    `others` has what does not stand for a trial, by the trial's id there; `machines` has the ids
    here by the ids there.
    """
    merged = {}
    for here, there in both:
        before = here.best_value if here.state == "COMPLETE" else None
        attempts: list[Attempt] = [there, *others[there.id]]
        came = {
            attempt.journal: points
            for attempt in attempts
            if (points := _offer(ours, theirs, here, attempt, machines)) is not None
        }
        if came:
            settle(ours, here)
        theirs_value = there.best_value if there.state == "COMPLETE" else None
        outcome: MergeOutcome = "newer" if here.journal in came else "here"
        if before is not None:
            outcome = "here" if theirs_value in (None, before) else "differing"
        elif here.state == "COMPLETE":
            outcome = "completed"
        same_model = theirs_value in (None, here.best_value)
        merged[there.id] = Merged(outcome, sum(came.values()), same_model)
    return merged


def _offer(
    ours: Session,
    theirs: Session,
    trial: TrialRecord,
    offered: Attempt,
    machines: Mapping[int, int],
) -> int | None:
    """Take over an attempt unless as much of it is here; then None, else how many points came."""
    mine = _same(ours, trial, offered)
    if mine is None:
        mine = OtherAttemptRecord(
            trial_id=trial.id,
            journal=offered.journal,
            state="RUNNING",
            started=offered.started,
            provenance={},
        )
        ours.add(mine)
    elif mine.state == "COMPLETE" or _heard(theirs, offered) <= _heard(ours, mine):
        return None
    metrics = (
        own_metrics(theirs, offered) if isinstance(offered, TrialRecord) else offered.best_metrics
    )
    for name in ATTEMPT_COLUMNS:
        setattr(mine, name, getattr(offered, name))
    mine.machine_id = None if offered.machine_id is None else machines[offered.machine_id]
    ours.flush()
    came = _copy_curve(ours, theirs, offered, mine)
    if isinstance(mine, OtherAttemptRecord):
        mine.best_metrics = metrics
    else:
        finish(ours, mine, metrics)
    return came


def _same(session: Session, trial: TrialRecord, offered: Attempt) -> Attempt | None:
    """What is here of that attempt; without journals, one that began at that moment is the one."""
    if trial.journal == offered.journal:
        return trial
    if not (trial.journal and offered.journal) and trial.started == offered.started:
        return trial
    return session.get(OtherAttemptRecord, (trial.id, offered.journal))


def _heard(session: Session, attempt: Attempt) -> tuple[bool, datetime, datetime, bool]:
    """Later starts stand before earlier ones; after one start, what was heard of last."""
    table, which = curve_of(attempt)
    point = session.scalar(select(func.max(table.reported_at)).where(*which))
    started, finished = attempt.started, attempt.finished
    last = max(finished or started, point or started)
    return attempt.state == "COMPLETE", started, last, finished is not None


def _copy_curve(ours: Session, theirs: Session, offered: Attempt, mine: Attempt) -> int:
    there, at_theirs = curve_of(offered)
    here, at_ours = curve_of(mine)
    ours.execute(delete(here).where(*at_ours))
    of: dict[str, Any] = {"trial_id": mine.id if isinstance(mine, TrialRecord) else mine.trial_id}
    if isinstance(mine, OtherAttemptRecord):
        of["journal"] = mine.journal
    query = select(*(getattr(there, name) for name in POINT_COLUMNS)).where(*at_theirs)
    rows = [{**point, **of} for point in theirs.execute(query).mappings()]
    return insert_missing(ours, here, [*of, "step"], rows)
