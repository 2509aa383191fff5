"""Which trials a sweep holds, under which numbers, and what it spent on them."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_missing
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepTrialRecord,
    TrialRecord,
)

_BATCH = 500
"""Trials that one query asks for."""


def add_sweep_trials(session: Session, sweep: int, links: Sequence[Mapping[str, Any]]) -> None:
    """Put trials into a sweep; those that it holds stay under their numbers.

    A link has `trial_id`, `role`, `search_number`, and the `number` that its trial gets unless
    another one has it; then it gets the next free one. It has `reused` and `reused_from`, too: a
    trial that ran in the sweep by one journal is not reused, whatever another one says.
    """
    last = select(func.max(SweepTrialRecord.number)).filter_by(sweep_id=sweep)
    wanted = [link["number"] for link in links]
    free = count(max([session.scalar(last) or 0, *wanted]) + 1)
    for start in range(0, len(links), _BATCH):
        some = links[start : start + _BATCH]
        held = _held(session, sweep, some)
        taken = set(held.values())
        rows = [
            {
                **link,
                "sweep_id": sweep,
                "number": next(free) if link["number"] in taken else link["number"],
            }
            for link in some
            if link["trial_id"] not in held
        ]
        insert_missing(session, SweepTrialRecord, ["sweep_id", "trial_id"], rows)
        _settle_reuse(session, sweep, [link for link in some if link["trial_id"] in held])


def _settle_reuse(session: Session, sweep: int, links: Sequence[Mapping[str, Any]]) -> None:
    """Of two that say so, the first has reused a trial."""
    told = {link["trial_id"]: (link["reused"], link["reused_from"]) for link in links}
    query = select(SweepTrialRecord).where(
        SweepTrialRecord.sweep_id == sweep, SweepTrialRecord.trial_id.in_(told)
    )
    for own in session.scalars(query) if told else ():
        other = told[own.trial_id]
        if own.reused is None or other[0] is None:
            own.reused, own.reused_from = None, None
        else:
            one = (own.reused, own.reused_from)
            own.reused, own.reused_from = min(one, other, key=lambda said: (said[0], said[1] or ""))


def _held(session: Session, sweep: int, links: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Numbers by trial, of what a sweep holds of these trials and under these numbers."""
    trial, number = SweepTrialRecord.trial_id, SweepTrialRecord.number
    same_trial = trial.in_([link["trial_id"] for link in links])
    same_number = number.in_([link["number"] for link in links])
    query = select(trial, number).where(SweepTrialRecord.sweep_id == sweep)
    found = session.execute(query.where(or_(same_trial, same_number)))
    return {row.trial_id: row.number for row in found}


def add_gpu_seconds(session: Session, sweep: int, seconds: Mapping[int, float]) -> None:
    """Count what a sweep's trials took; their sums move along, up to the group.

    A trial that was cut off reports its whole time when it ends again. Of all reports on one trial
    in one sweep the highest counts, so that a repeated report changes nothing. Seconds are of whole
    GPUs, by the trial's id. The sweep holds the trials.
    """
    query = (
        select(SweepTrialRecord, TrialRecord, ConfigurationRecord, GroupRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .where(SweepTrialRecord.sweep_id == sweep)
    )
    spent = [trial for trial, took in seconds.items() if took > 0]
    for start in range(0, len(spent), _BATCH):
        some = SweepTrialRecord.trial_id.in_(spent[start : start + _BATCH])
        for link, trial, configuration, group in session.execute(query.where(some)).all():
            more = max(0.0, seconds[link.trial_id] - link.gpu_seconds)
            link.gpu_seconds += more
            trial.gpu_seconds += more
            configuration.gpu_seconds += more
            group.gpu_seconds += more
