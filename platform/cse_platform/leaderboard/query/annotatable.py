"""The trial, configuration or sweep that a person means to write about."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.query.sweeps.find import find_sweep, sweep_or_none
from cse_platform.leaderboard.query.trials.find import (
    begins_with,
    find_trial,
    is_trial_reference,
)
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.tracking.events import Annotatable


@dataclass(frozen=True)
class Subject:
    """What is written about."""

    about: Annotatable
    name: str
    """A trial's key, a configuration's hash, a sweep's name."""
    sweep: str
    """One that has it."""
    experiment: str
    """The one in MLflow that this sweep is in."""

    def __str__(self) -> str:
        digits = len(self.name) if self.about == "sweep" else HASH_DIGITS
        return f"{self.about} {self.name[:digits]}"


def find_subject(session: Session, reference: str) -> Subject:
    """What a reference means: a sweep's name, METHOD@CONFIGURATION, a trial's key, SWEEP#NUMBER.

    The first 6 or more digits of a key or of a configuration's hash are enough; where both begin
    so, it is the trial.

    Raises:
        NotFoundError: if it is none of them.
        AmbiguousError: if several keys or hashes begin so.
    """
    if (sweep := sweep_or_none(session, reference)) is not None:
        return _subject("sweep", sweep.name, sweep)
    method, at, digits = reference.partition("@")
    if at:
        return _configuration(session, digits, GroupRecord.method == method, named=reference)
    if not is_trial_reference(reference):
        raise NotFoundError(
            f"{reference!r} is not a sweep of this leaderboard; name one, METHOD@CONFIGURATION, a "
            "trial's key or its first digits, or SWEEP#NUMBER"
        )
    keys = select(TrialRecord.id).where(begins_with(TrialRecord.key, reference)).limit(1)
    if "#" in reference or session.scalar(keys):
        trial = find_trial(session, reference)
        return _subject("trial", trial.key, find_sweep(session, trial.sweep))
    return _configuration(session, reference, named=reference)


def _configuration(
    session: Session, digits: str, *conditions: ColumnElement[bool], named: str
) -> Subject:
    query = select(ConfigurationRecord).join(ConfigurationRecord.group)
    begins = begins_with(ConfigurationRecord.hash, digits)
    found = session.scalars(query.where(begins, *conditions).limit(2)).all() if digits else []
    if not found:
        raise NotFoundError(f"{named!r} is neither a configuration nor a trial of this leaderboard")
    if len(found) > 1:
        raise AmbiguousError(f"several configurations begin as {named!r}; write more digits")
    holds = (
        select(SweepRecord)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == found[0].id)
        .order_by(SweepRecord.id)
        .limit(1)
    )
    return _subject("configuration", found[0].hash, session.scalars(holds).one())


def _subject(about: Annotatable, name: str, sweep: SweepRecord) -> Subject:
    return Subject(about, name, sweep.name, sweep.spec.get("experiment", "cse"))
