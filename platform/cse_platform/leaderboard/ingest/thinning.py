"""Thins the dev curves of an archived sweep, and restores its dev points from the journal.

Of a curve with more than `MOST_POINTS` points, these are kept: the first and the last, that of the
kept checkpoint, that of the highest score, and those among `EVEN_POINTS` evenly spaced steps. These
steps are chosen from all steps of the configuration's seeds, so that a mean over seeds has the same
steps in each. Kept points keep all their metrics. So a curve's start, best checkpoint and end are
unchanged, and plots have fewer points.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, inspect, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.attempts import Attempt, curve_of
from cse_platform.leaderboard.ingest.removal import SLICE_POINTS
from cse_platform.leaderboard.ingest.trial_events import make_point_row
from cse_platform.leaderboard.ingest.upserts import insert_missing
from cse_platform.leaderboard.tables import (
    DevPointRecord,
    OtherAttemptRecord,
    OtherPointRecord,
    TrialRecord,
)
from cse_platform.tracking.events import (
    Event,
    TrialFinished,
    TrialPoint,
    TrialStarted,
)

EVEN_POINTS = 24
MOST_POINTS = EVEN_POINTS + 4
"""Maximum number of points of a thinned curve; a curve of this size is not thinned again."""

_BATCH = 500

Surplus = list[tuple[Attempt, list[int]]]
"""Attempts, each with the steps to remove."""


def find_slices(session: Session, journal: str) -> list[list[int]]:
    """Group the configurations of a journal so that each group's dev points fit one transaction."""
    counts: dict[int, int] = defaultdict(int)
    of_trial = TrialRecord.id == DevPointRecord.trial_id
    shown = select(TrialRecord.configuration_id, func.count()).join(DevPointRecord, of_trial)
    of_other = TrialRecord.id == OtherPointRecord.trial_id
    other = select(TrialRecord.configuration_id, func.count()).join(OtherPointRecord, of_other)
    for query in (
        shown.where(TrialRecord.journal == journal),
        other.where(OtherPointRecord.journal == journal),
    ):
        for configuration, count in session.execute(query.group_by(TrialRecord.configuration_id)):
            counts[configuration] += count
    slices, rows = [list[int]()], 0
    for configuration in sorted(counts):
        rows += counts[configuration]
        if rows > SLICE_POINTS and slices[-1]:
            slices.append([])
            rows = counts[configuration]
        slices[-1].append(configuration)
    return [one for one in slices if one]


def find_surplus(session: Session, journal: str, configurations: Collection[int]) -> Surplus:
    """Find the steps to remove from a journal's curves of these configurations."""
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    of_these = TrialRecord.configuration_id.in_(configurations)
    for trial in session.scalars(
        select(TrialRecord).where(of_these, TrialRecord.journal == journal)
    ):
        attempts[trial.configuration_id].append(trial)
    others = (
        select(TrialRecord.configuration_id, OtherAttemptRecord)
        .join(OtherAttemptRecord, OtherAttemptRecord.trial_id == TrialRecord.id)
        .where(of_these, OtherAttemptRecord.journal == journal)
    )
    for configuration, attempt in session.execute(others):
        attempts[configuration].append(attempt)
    return [found for some in attempts.values() for found in _choose_surplus(session, some)]


def remove_surplus(session: Session, surplus: Surplus) -> None:
    """Delete these dev points."""
    for attempt, steps in surplus:
        table, which = curve_of(attempt)
        for start in range(0, len(steps), _BATCH):
            some = table.step.in_(steps[start : start + _BATCH])
            session.execute(delete(table).where(*which, some))


def choose_evenly(steps: Collection[int], count: int) -> set[int]:
    """Choose `count` evenly spaced steps in their order, including the first and the last."""
    ordered = sorted(steps)
    if len(ordered) <= count:
        return set(ordered)
    return {ordered[round(n * (len(ordered) - 1) / (count - 1))] for n in range(count)}


def _choose_surplus(session: Session, attempts: Sequence[Attempt]) -> Iterator[Any]:
    """Yield the steps to remove for each attempt; the attempts are those of one configuration."""
    curves = []
    for attempt in attempts:
        table, which = curve_of(attempt)
        points = session.execute(select(table.step, table.value).where(*which)).all()
        curves.append({row.step: row.value for row in points})
    even = choose_evenly(set().union(*curves), EVEN_POINTS)
    for attempt, curve in zip(attempts, curves, strict=True):
        if len(curve) > MOST_POINTS:
            known = [step for step, value in curve.items() if value is not None]
            highest = max(known, key=lambda step: curve[step], default=None)
            kept = even | {min(curve), max(curve), attempt.best_step, highest}
            yield attempt, sorted(curve.keys() - kept)


def list_points(events: Iterable[Event]) -> dict[str, dict[int, TrialPoint]]:
    """Collect the dev points of a journal by trial and step, as the store would keep them.

    A start without a checkpoint drops earlier points, of a repeated step the first point counts,
    and a complete trial gets no more points.
    """
    points: dict[str, dict[int, TrialPoint]] = defaultdict(dict)
    complete = set()
    for event in events:
        match event:
            case TrialStarted() if event.trial not in complete and event.resumed_from is None:
                points[event.trial].clear()
            case TrialPoint() if event.trial not in complete:
                points[event.trial].setdefault(event.step, event)
            case TrialFinished(state="COMPLETE"):
                complete.add(event.trial)
            case _:
                pass
    return points


def restore_points(session: Session, journal: str, points: Sequence[TrialPoint]) -> None:
    """Insert the dev points that are missing from the curves of a journal's attempts."""
    keys = {point.trial for point in points}
    shown: dict[str, tuple[int, str]] = {
        key: (id_, told)
        for key, id_, told in session.execute(
            select(TrialRecord.key, TrialRecord.id, TrialRecord.journal).where(
                TrialRecord.key.in_(keys)
            )
        )
    }
    others = set(
        session.scalars(
            select(OtherAttemptRecord.trial_id).where(
                OtherAttemptRecord.journal == journal,
                OtherAttemptRecord.trial_id.in_([id_ for id_, _ in shown.values()]),
            )
        )
    )
    rows: dict[Any, list[Mapping[str, Any]]] = {DevPointRecord: [], OtherPointRecord: []}
    for point in points:
        id_, told = shown.get(point.trial, (None, ""))
        row = {"trial_id": id_, **make_point_row(point)}
        if id_ is not None and told == journal:
            rows[DevPointRecord].append(row)
        elif id_ in others:
            rows[OtherPointRecord].append({**row, "journal": journal})
    for table, made in rows.items():
        insert_missing(session, table, [key.name for key in inspect(table).primary_key], made)
