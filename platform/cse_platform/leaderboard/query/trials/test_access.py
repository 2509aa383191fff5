"""When test sets were opened, as the leaderboard's rows tell it."""

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.score_tables import TestAccessRecord
from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord, TrialRecord

BUILTIN = "builtin"
"""The source of the project's own sets: what they show tells nothing of real ones."""


def first_test_accesses(session: Session) -> dict[tuple[str, bool], datetime]:
    """When test sets were first opened for a trial of a method.

    What they showed may have picked any configuration whose first trial started later. One that
    was tried before, and promoted since, counts as picked before.

    Args:
        session: of an open leaderboard.

    Returns:
        By method and whether the sets were the built-in ones, on whatever dev sets the trial ran.
    """
    first = func.min(TestAccessRecord.opened)
    query = (
        select(GroupRecord.method, TestAccessRecord.source, first)
        .join(ConfigurationRecord, ConfigurationRecord.contest_id == GroupRecord.id)
        .join(TrialRecord, TrialRecord.configuration_id == ConfigurationRecord.id)
        .join(TestAccessRecord, TestAccessRecord.trial_id == TrialRecord.id)
        .group_by(GroupRecord.method, TestAccessRecord.source)
        .order_by(first.desc())
    )
    # Hub and folder are one kind; the earlier of the two is the last, and stands.
    return {(method, source == BUILTIN): at for method, source, at in session.execute(query)}
