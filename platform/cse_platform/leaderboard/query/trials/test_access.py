"""When test sets were opened, for which trials and by whom."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.score_tables import TestAccessRecord
from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord, TrialRecord

BUILTIN = "builtin"
"""The source of the project's own sets: what they show says nothing about real ones."""
TEST_SOURCES = frozenset({BUILTIN, "hub", "senteval"})
"""Where the test sets are from that can be opened."""


@dataclass(frozen=True)
class TestAccess:
    """One opening of test sets."""

    trial: str
    opened: datetime
    who: str
    command: str
    tasks: list[str]
    source: str


def as_test_access(trial: str, stored: TestAccessRecord) -> TestAccess:
    """A stored opening of test sets for the trial of that key."""
    return TestAccess(trial, stored.opened, stored.who, stored.command, stored.tasks, stored.source)


def first_test_accesses(session: Session) -> dict[tuple[str, str, bool], datetime]:
    """When test sets were first opened for a trial of a method on a backbone.

    What they showed may have helped to pick any configuration whose first trial started later. A
    configuration that was tried before, and promoted since, counts as picked before. The key is
    the method, the backbone and whether the sets were the built-in ones, whatever the trial's dev
    sets were.
    """
    first = func.min(TestAccessRecord.opened)
    query = (
        select(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source, first)
        .join(GroupRecord.configurations)
        .join(ConfigurationRecord.seeds)
        .join(TrialRecord.test_accesses)
        .group_by(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source)
        .order_by(first.desc())
    )
    # Hub and folder are one kind: of the two, the earlier comes last and overwrites the later.
    lines = session.execute(query)
    return {(method, backbone, source == BUILTIN): at for method, backbone, source, at in lines}
