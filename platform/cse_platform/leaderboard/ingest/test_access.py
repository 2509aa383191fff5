"""Stores that test sets were opened for a trial; storing it again changes nothing."""

from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_once
from cse_platform.leaderboard.store.score_tables import TestAccessRecord
from cse_platform.leaderboard.store.tables import TrialRecord
from cse_platform.tracking.events import TestAccessed


def add_test_access(session: Session, trial: TrialRecord, event: TestAccessed) -> None:
    """Note that the test sets were opened for the trial."""
    key = {"trial_id": trial.id, "opened": event.time, "who": event.who}
    what = {"command": event.command, "tasks": list(event.tasks), "source": event.source}
    insert_once(session, TestAccessRecord, key, what)
