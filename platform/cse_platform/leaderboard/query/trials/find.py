"""The trial that a person or a program means."""

import re
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.query.trials.summary import find_summaries
from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord, TrialRecord
from cse_platform.leaderboard.trial import TrialSummary

_BATCH = 500
"""Keys in one query: databases limit its parameters."""

TRIAL_KEY = re.compile(r"[0-9a-f]{6,64}")
"""A trial's key, or how it begins."""


def find_trial(session: Session, prefix: str) -> TrialSummary:
    """The one trial whose key begins so.

    Raises:
        NotFoundError: if the prefix is shorter or something else, or no trial's key begins so.
        AmbiguousError: if several trials' keys begin so, or it is a configuration's hash.
    """
    prefix = prefix.lower()
    if not TRIAL_KEY.fullmatch(prefix):
        raise NotFoundError(
            f"a trial goes by the first 6 or more of its key's hexadecimal digits, got {prefix!r}"
        )
    found = find_summaries(session, TrialRecord.key.startswith(prefix))
    if not found:
        if trials := find_summaries(session, ConfigurationRecord.hash.startswith(prefix)):
            named = ", ".join(f"{one.key[:8]} (seed {one.seed})" for one in trials[:10])
            raise AmbiguousError(f"{prefix!r} is a configuration; its trials are {named}")
        raise NotFoundError(f"no trial's key begins with {prefix!r}")
    if len(found) > 1:
        longer = ", ".join(f"{one.key[: len(prefix) + 4]}…" for one in found[:3])
        raise AmbiguousError(f"{prefix!r} begins the keys of several trials ({longer}); write more")
    return found[0]


def trial_of_key(session: Session, key: str) -> TrialSummary | None:
    """The trial of that whole key; None where it is not on this leaderboard."""
    found = find_summaries(session, TrialRecord.key == key)
    return found[0] if found else None


def stored_trials(session: Session, keys: Sequence[str]) -> dict[str, TrialRecord]:
    """Those of these trials that are on the leaderboard, by key."""
    found: dict[str, TrialRecord] = {}
    for start in range(0, len(keys), _BATCH):
        query = select(TrialRecord).where(TrialRecord.key.in_(keys[start : start + _BATCH]))
        found |= {trial.key: trial for trial in session.scalars(query)}
    return found


def best_kept_trial(
    session: Session, *, method: str, backbone: str, dev_identity: str
) -> TrialSummary | None:
    """The complete trial with the highest dev score that kept its model; the older of equals."""
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
    found = find_summaries(session, TrialRecord.id.in_(best))
    return found[0] if found else None
