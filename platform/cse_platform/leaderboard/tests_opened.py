"""What the leaderboard's rows show of test sets: means over seeds, and when they were opened."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.evaluation_models import ReleaseRecord, ScoreRecord
from cse_platform.leaderboard.models import ConfigurationRecord, TrialRecord
from cse_platform.tracking.events import MAIN_METRICS

BUILTIN = "builtin"
"""The source of the project's own sets: what they show tells nothing of real ones."""


@dataclass(frozen=True)
class TestMean:
    """One task's test score over the seeds of one configuration."""

    value: float
    identity: str
    """The scores are all of this one."""
    seeds: int


def test_means(session: Session, configurations: Select[int]) -> dict[int, dict[str, TestMean]]:
    """By configuration and task, the mean over the complete seeds that were scored.

    Where a task was scored under several identities, that with the most seeds stands, and of
    equals the one that was measured last.

    Args:
        session: of an open leaderboard.
        configurations: their ids.
    """
    group = (TrialRecord.configuration_id, ScoreRecord.task, ScoreRecord.identity)
    seeds = func.count()
    query = (
        select(*group, func.avg(ScoreRecord.value), seeds)
        .join(TrialRecord, TrialRecord.id == ScoreRecord.trial_id)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            TrialRecord.state == "COMPLETE",
            ScoreRecord.split == "test",
            ScoreRecord.metric.in_(sorted(MAIN_METRICS)),
        )
        .group_by(*group)
        .order_by(ScoreRecord.task, seeds, func.max(ScoreRecord.measured), ScoreRecord.identity)
    )
    found: dict[int, dict[str, TestMean]] = {}
    for configuration, task, identity, mean, n in session.execute(query):
        found.setdefault(configuration, {})[task] = TestMean(mean, identity, n)  # the last stands
    return found


def first_releases(session: Session) -> dict[tuple[str, bool], datetime]:
    """When test sets were first opened for a trial of a method.

    What they showed may have picked any configuration whose first trial started later. One that
    was tried before, and promoted since, counts as picked before.

    Args:
        session: of an open leaderboard.

    Returns:
        By method and whether the sets were the built-in ones, on whatever dev sets the trial ran.
    """
    first = func.min(ReleaseRecord.opened)
    query = (
        select(ConfigurationRecord.method, ReleaseRecord.source, first)
        .join(TrialRecord, TrialRecord.configuration_id == ConfigurationRecord.id)
        .join(ReleaseRecord, ReleaseRecord.trial_id == TrialRecord.id)
        .group_by(ConfigurationRecord.method, ReleaseRecord.source)
        .order_by(first.desc())
    )
    # Hub and folder are one kind; the earlier of the two is the last, and stands.
    return {(method, source == BUILTIN): at for method, source, at in session.execute(query)}
