"""The scores that a trial has of its own training, on its dev sets, and those of its model."""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.evaluations import add_score
from cse_platform.leaderboard.store.score_tables import PairSimilaritiesRecord, ScoreRecord
from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord, TrialRecord
from cse_platform.tracking.events import TrialScore

_DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


def replace_own_scores(
    session: Session, trial: TrialRecord, metrics: Mapping[str, float | None]
) -> None:
    """Store the dev scores among the metrics of a complete trial's best step."""
    identity = _dev_identity(session, trial)
    session.execute(delete(ScoreRecord).where(*_own(trial, identity)))
    for name, value in metrics.items():
        if value is not None and (named := _DEV_SCORE.fullmatch(name)):
            measured = {"split": "dev", "value": value, "identity": identity}
            score = TrialScore.model_validate(named.groupdict() | measured)
            add_score(session, trial, score, measured=trial.finished or trial.started)


def own_metrics(session: Session, trial: TrialRecord) -> dict[str, Any]:
    """The dev scores of a trial, by the names of metrics."""
    own = select(ScoreRecord).where(*_own(trial, _dev_identity(session, trial)))
    return {f"dev/{one.task}_{one.metric}": one.value for one in session.scalars(own)}


def drop_foreign_scores(session: Session, trial: TrialRecord) -> None:
    """Drop all scores but the trial's own: they are of another model than it has from now on."""
    foreign = ScoreRecord.identity != _dev_identity(session, trial)
    session.execute(delete(ScoreRecord).where(ScoreRecord.trial_id == trial.id, foreign))
    similarities = PairSimilaritiesRecord.trial_id == trial.id
    session.execute(delete(PairSimilaritiesRecord).where(similarities))


def _own(trial: TrialRecord, identity: str) -> list[ColumnElement[bool]]:
    score = ScoreRecord
    return [score.trial_id == trial.id, score.identity == identity, score.split == "dev"]


def _dev_identity(session: Session, trial: TrialRecord) -> str:
    query = select(GroupRecord.dev_identity).join(GroupRecord.configurations)
    return session.scalars(query.where(ConfigurationRecord.id == trial.configuration_id)).one()
