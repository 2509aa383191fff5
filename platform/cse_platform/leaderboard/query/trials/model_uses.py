"""Who needs the models that trials have kept."""

import re
from collections.abc import Iterator, Sequence

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.tracking.events import MODEL_DIGITS

_BATCH = 500
_FOLDER = re.compile(rf"models/([0-9a-f]{{{MODEL_DIGITS}}})")


def used_elsewhere(session: Session, keys: Sequence[str], *, sweep: str) -> set[str]:
    """Which of these trials of a sweep other sweeps need the models of.

    These are trials that other sweeps hold too, and models that a stored configuration names, as
    its teacher, or that trials have as their backbone.
    """
    named = set(_named(session)) if keys else set()
    return {key for key in keys if key[:MODEL_DIGITS] in named} | _held(session, keys, sweep)


def _held(session: Session, keys: Sequence[str], sweep: str) -> set[str]:
    # By name: the leaderboard may be behind the journal, and not have this sweep yet.
    places = select(TrialRecord.key).join(TrialRecord.places).join(SweepTrialRecord.sweep)
    query = places.where(SweepRecord.name != sweep)
    found: set[str] = set()
    for start in range(0, len(keys), _BATCH):
        some = keys[start : start + _BATCH]
        found.update(session.scalars(query.where(TrialRecord.key.in_(some))))
    return found


def _named(session: Session) -> Iterator[str]:
    values = cast(ConfigurationRecord.values, Text)
    for column in (values, GroupRecord.backbone):
        for text in session.scalars(select(column).where(column.contains("models/"))):
            yield from _FOLDER.findall(text)
