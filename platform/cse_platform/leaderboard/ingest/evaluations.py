"""Stores evaluations and the dev scores of trials; storing one twice changes nothing."""

import logging
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_newest, insert_once, upsert
from cse_platform.leaderboard.tables import (
    FREE_METRICS,
    ConfigurationRecord,
    EvaluationRecord,
    GroupRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    TrialRecord,
)
from cse_platform.tracking.events import PairSimilarities, TrialEvaluated, TrialScore
from cse_platform.tracking.packing import compressed, unpack_gold

_log = logging.getLogger(__name__)

SCORE_KEY = ("trial_id", "task", "split", "metric", "identity")


def add_identities(session: Session, event: TrialEvaluated) -> None:
    """Store the settings behind each identity of an evaluation."""
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        add_identity(session, identity=identity, settings=settings, source=source)


def add_evaluation(session: Session, trial: TrialRecord, event: TrialEvaluated) -> None:
    """Store scores and similarities, replacing those of an earlier evaluation of equal identity."""
    outdated = {
        (score.task, score.identity)
        for score in event.scores
        if not add_score(session, trial, score, measured=event.time)
    }
    for similarities in event.similarities:
        if (similarities.task, similarities.identity) not in outdated:
            _add_similarities(session, trial, similarities)


def add_identity(
    session: Session, *, identity: str, settings: dict[str, Any], source: str | None
) -> None:
    """Store the settings that an identity is the hash of, unless the identity is already stored.

    A missing source is filled in.
    """
    values = {"settings": settings, "source": source}
    insert_once(session, EvaluationRecord, {"identity": identity}, values)
    stored = session.get_one(EvaluationRecord, identity)
    if stored.source is None:
        stored.source = source


def add_score(
    session: Session, trial: TrialRecord, score: TrialScore, *, measured: datetime
) -> bool:
    """Store one score. Returns False if a newer one is stored.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    free = score.metric in FREE_METRICS and math.isfinite(score.value)
    if not free and not -1 <= score.value <= 1:
        name = f"{score.split}/{score.task}_{score.metric}"
        _log.warning("trial %s: %s=%s is not a fraction, not stored", trial.key, name, score.value)
        return True
    row = score.model_dump() | {"trial_id": trial.id, "measured": measured}
    return insert_newest(session, ScoreRecord, SCORE_KEY, [row]) == 1


def _add_similarities(session: Session, trial: TrialRecord, event: PairSimilarities) -> None:
    gold = compressed(event.gold)
    pairs = event.model_dump(include={"task", "split", "subsets"})
    pairs |= {"pairs": len(unpack_gold(gold)), "gold": gold}
    insert_once(session, PairSetRecord, {"data_sha256": event.data_sha256}, pairs)
    key = {"trial_id": trial.id, "task": event.task, "identity": event.identity}
    values = {"data_sha256": event.data_sha256, "cosines": compressed(event.cosines)}
    upsert(session, PairSimilaritiesRecord, key, values)


_DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


def replace_own_scores(
    session: Session, trial: TrialRecord, metrics: Mapping[str, float | None]
) -> None:
    """Store the dev scores among the metrics of a complete trial's best step."""
    identity = _find_dev_identity(session, trial)
    session.execute(delete(ScoreRecord).where(*_match_own_scores(trial, identity)))
    for name, value in metrics.items():
        if value is not None and (named := _DEV_SCORE.fullmatch(name)):
            measured = {"split": "dev", "value": value, "identity": identity}
            score = TrialScore.model_validate(named.groupdict() | measured)
            add_score(session, trial, score, measured=trial.finished or trial.started)


def own_metrics(session: Session, trial: TrialRecord) -> dict[str, Any]:
    """Read the dev scores of a trial, by the names of metrics."""
    own = select(ScoreRecord).where(*_match_own_scores(trial, _find_dev_identity(session, trial)))
    return {f"dev/{score.task}_{score.metric}": score.value for score in session.scalars(own)}


def drop_foreign_scores(session: Session, trial: TrialRecord) -> None:
    """Delete all similarities, and all scores but the trial's own dev scores.

    They belong to a model that the trial no longer shows.
    """
    foreign = ScoreRecord.identity != _find_dev_identity(session, trial)
    session.execute(delete(ScoreRecord).where(ScoreRecord.trial_id == trial.id, foreign))
    similarities = PairSimilaritiesRecord.trial_id == trial.id
    session.execute(delete(PairSimilaritiesRecord).where(similarities))


def _match_own_scores(trial: TrialRecord, identity: str) -> list[ColumnElement[bool]]:
    """Match the trial's own dev scores."""
    score = ScoreRecord
    return [score.trial_id == trial.id, score.identity == identity, score.split == "dev"]


def _find_dev_identity(session: Session, trial: TrialRecord) -> str:
    query = select(GroupRecord.dev_identity).join(GroupRecord.configurations)
    return session.scalars(query.where(ConfigurationRecord.id == trial.configuration_id)).one()
