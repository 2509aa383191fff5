"""Stores evaluations and the dev scores of trials; storing one twice changes nothing."""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from cse_platform.stores.sql.tables import (
    FREE_METRICS,
    ConfigurationRecord,
    EvaluationRecord,
    GroupRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.stores.sql.upserts import insert_newest, insert_once, upsert
from cse_platform.tracking.events import TrialEvaluated, TrialScore
from cse_platform.tracking.packing import compressed, unpack_gold

_log = logging.getLogger(__name__)

SCORE_KEY = ("trial_id", "task", "split", "metric", "identity")


def add_identities(session: Session, event: TrialEvaluated) -> None:
    """Store the settings behind each identity of an evaluation; fill in a missing source."""
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        values = {"settings": settings, "source": source}
        insert_once(session, EvaluationRecord, {"identity": identity}, values)
        stored = session.get_one(EvaluationRecord, identity)
        if stored.source is None:
            stored.source = source


def add_evaluation(session: Session, trial: TrialRecord, event: TrialEvaluated) -> None:
    """Store scores and similarities, replacing those of an earlier evaluation of equal identity."""
    write_own_scores(session)
    rows = _make_score_rows(trial, event.scores, measured=event.time)
    stored = insert_newest(session, ScoreRecord, SCORE_KEY, rows)
    outdated = {(row["task"], row["identity"]) for row in rows}
    outdated -= {(row.task, row.identity) for row in stored}
    for similarities in event.similarities:
        if (similarities.task, similarities.identity) not in outdated:
            gold = compressed(similarities.gold)
            pairs = similarities.model_dump(include={"task", "split", "subsets"})
            pairs |= {"pairs": len(unpack_gold(gold)), "gold": gold}
            sha256 = {"data_sha256": similarities.data_sha256}
            insert_once(session, PairSetRecord, sha256, pairs)
            key = {"trial_id": trial.id} | similarities.model_dump(include={"task", "identity"})
            values = {**sha256, "cosines": compressed(similarities.cosines)}
            upsert(session, PairSimilaritiesRecord, key, values)


def _make_score_rows(
    trial: TrialRecord, scores: Iterable[TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for score in scores:
        free = score.metric in FREE_METRICS and math.isfinite(score.value)
        if free or -1 <= score.value <= 1:
            rows.append(score.model_dump() | {"trial_id": trial.id, "measured": measured})
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction, not stored", trial.key, name)
    return rows


_DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


def replace_own_scores(
    session: Session, trial: TrialRecord, metrics: Mapping[str, float | None]
) -> None:
    """Store the dev scores among the metrics of a complete trial's best step."""
    identity = _find_dev_identity(session, trial)
    scores = [
        TrialScore(split="dev", value=value, identity=identity, **named.groupdict())
        for name, value in metrics.items()
        if value is not None and (named := _DEV_SCORE.fullmatch(name))
    ]
    rows = _make_score_rows(trial, scores, measured=trial.finished or trial.started)
    held: OwnScores = session.info[OWN_SCORES]
    held.setdefault(identity, {})[trial.id] = rows


OwnScores = dict[str, dict[int, list[dict[str, Any]]]]
OWN_SCORES = "own scores"
"""Key in the `info` of a session that holds back trials' own dev scores until `write_own_scores`:
their rows, by dev identity and trial.
"""


def write_own_scores(session: Session) -> None:
    """Write the dev scores that are held back, so that a query finds them."""
    held: OwnScores = session.info[OWN_SCORES]
    for identity, scores in held.items():
        for ids in in_batches(list(scores)):
            some = ScoreRecord.trial_id.in_(ids)
            own = ScoreRecord.identity == identity, ScoreRecord.split == "dev"
            session.execute(delete(ScoreRecord).where(some, *own))
        rows = [row for rows in scores.values() for row in rows]
        insert_newest(session, ScoreRecord, SCORE_KEY, rows)
    held.clear()


def drop_foreign_scores(session: Session, trial: TrialRecord) -> None:
    """Delete all similarities, and all scores but the trial's own dev scores.

    They belong to a model that the trial no longer shows.
    """
    write_own_scores(session)
    foreign = ScoreRecord.identity != _find_dev_identity(session, trial)
    session.execute(delete(ScoreRecord).where(ScoreRecord.trial_id == trial.id, foreign))
    similarities = PairSimilaritiesRecord.trial_id == trial.id
    session.execute(delete(PairSimilaritiesRecord).where(similarities))


def _find_dev_identity(session: Session, trial: TrialRecord) -> str:
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    return session.get_one(GroupRecord, configuration.group_id).dev_identity
