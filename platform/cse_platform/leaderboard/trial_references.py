"""Finds trials by reference (a key, its first digits, or SWEEP#NUMBER), and their neighbours."""

import re
from collections.abc import Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trials import FIRST_PLACE, read_trials, select_trials
from cse_platform.stores.sql.stored_sweeps import find_sweep, next_number
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
)

_NAMED = 3
"""Maximum number of matches that an error lists."""

_KEY = re.compile(r"[0-9a-f]{6,64}")
_IN_SWEEP = re.compile(r"(?P<sweep>[^#/]+)#(?P<number>\d{1,9})")


def is_trial_reference(text: str) -> bool:
    """Whether a text has the form of a trial's key, its first digits, or SWEEP#NUMBER."""
    return bool(_KEY.fullmatch(text.lower()) or _IN_SWEEP.fullmatch(text))


def find_trial(session: Session, reference: str) -> Trial:
    """Find the one trial of a key, of its first digits, or of SWEEP#NUMBER.

    Raises:
        NotFoundError: if there is no such trial or sweep, or the reference has another form.
        AmbiguousError: if several keys start with it, or it is a configuration's hash.
    """
    if place := _IN_SWEEP.fullmatch(reference):
        return _find_by_number(session, place["sweep"], int(place["number"]))
    prefix = reference.lower()
    if not _KEY.fullmatch(prefix):
        raise NotFoundError(
            f"a trial goes by the first 6 or more of its key's hexadecimal digits or by "
            f"SWEEP#NUMBER, got {prefix!r}"
        )
    trial = TrialRecord
    keys = session.scalars(
        select(trial.key).where(begins_with(trial.key, prefix)).order_by(trial.key).limit(_NAMED)
    ).all()
    if not keys:
        raise _explain_no_trial(session, prefix)
    if len(keys) > 1:
        longer = ", ".join(f"{key[: len(prefix) + 4]}…" for key in keys)
        raise AmbiguousError(f"{prefix!r} begins the keys of several trials ({longer}); write more")
    return read_trials(session, FIRST_PLACE, trial.key == keys[0])[0]


def begins_with(column: InstrumentedAttribute[str], digits: str) -> ColumnElement[bool]:
    """Match keys or hashes that start with these digits, as a range that can use an index.

    LIKE cannot use the index in SQLite, nor with most collations in PostgreSQL.
    """
    digits = digits.lower()
    return (column >= digits) & (column < f"{digits}g")  # hexadecimal digits end with f


def _explain_no_trial(session: Session, prefix: str) -> NotFoundError | AmbiguousError:
    """Make the error for digits that no key starts with, but maybe a configuration's hash."""
    configurations = session.scalars(
        select(ConfigurationRecord.id)
        .where(begins_with(ConfigurationRecord.hash, prefix))
        .order_by(ConfigurationRecord.hash)
        .limit(_NAMED)
    ).all()
    seeds = session.execute(
        select(TrialRecord.key, TrialRecord.seed)
        .where(TrialRecord.configuration_id.in_(configurations))
        .order_by(TrialRecord.configuration_id, TrialRecord.seed)
        .limit(10)
    ).all()
    if not seeds:
        return NotFoundError(f"no trial's key begins with {prefix!r}")
    named = ", ".join(f"{key[:8]} (seed {seed})" for key, seed in seeds)
    return AmbiguousError(f"{prefix!r} is a configuration; its trials are {named}")


def _find_by_number(session: Session, sweep: str, number: int) -> Trial:
    record = find_sweep(session, sweep)
    query = select_trials(TrialRecord.key).where(SweepTrialRecord.sweep_id == record.id)
    key = session.scalar(query.where(SweepTrialRecord.number == number))
    if key is None:
        count = next_number(session, sweep)
        there = f"its last one is {sweep}#{count - 1}" if count else "it has none yet"
        raise NotFoundError(f"sweep {sweep!r} has no trial {number}; {there}")
    return read_trials(session, FIRST_PLACE, TrialRecord.key == key)[0]


def stored_trials(session: Session, keys: Sequence[str]) -> dict[str, TrialRecord]:
    """Read the stored ones among these trials, by key."""
    trials: dict[str, TrialRecord] = {}
    for batch in in_batches(keys):
        query = select(TrialRecord).where(TrialRecord.key.in_(batch))
        trials |= {trial.key: trial for trial in session.scalars(query)}
    return trials


def best_kept_trial(
    session: Session, *, method: str, backbone: str, dev_identity: str
) -> Trial | None:
    """Find the complete trial with the highest dev score that kept its model.

    Of trials with equal scores, the older one counts.
    """
    best = (
        select(TrialRecord.id)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .where(
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            GroupRecord.dev_identity == dev_identity,
            TrialRecord.state == "COMPLETE",
            TrialRecord.model.is_not(None),
        )
        .order_by(TrialRecord.best_value.desc(), TrialRecord.id)
        .limit(1)
    )
    return next(iter(read_trials(session, FIRST_PLACE, TrialRecord.id.in_(best))), None)
