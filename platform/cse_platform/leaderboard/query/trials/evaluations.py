"""What evaluations have left on the leaderboard, and the trials that they were of."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, cast

from sqlalchemy import ColumnElement, Row, Select, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreError
from cse_platform.leaderboard.store.score_tables import (
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    TestAccessRecord,
)
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Similarities, Split

SHOWN = 10
"""Of the trials of a configuration, in an error."""

TRIAL_KEY = re.compile(r"[0-9a-f]{6,64}")
"""A trial's key, or how it begins."""


@dataclass(frozen=True)
class TrialRef:
    """A trial, as a person names it by its key."""

    key: str
    sweep: str
    """The first that holds it."""
    method: str
    backbone: str
    seed: int
    model: str | None
    """Folder of its best checkpoint."""
    configuration: str
    """Hash: the key without the seed."""


@dataclass(frozen=True)
class ScoreRow:
    """One test score of a trial."""

    task: str
    split: str
    metric: str
    value: float
    identity: str


@dataclass(frozen=True)
class TestAccess:
    """One opening of test sets."""

    trial: str
    opened: datetime
    who: str
    command: str
    tasks: list[str]
    source: str


def find_trial(session: Session, prefix: str) -> TrialRef:
    """The one trial whose key begins so.

    Args:
        session: of an open leaderboard.
        prefix: at least 6 hexadecimal digits.

    Raises:
        StoreError: if it is shorter or something else, or begins the key of no trial or several.
    """
    prefix = prefix.lower()
    if not TRIAL_KEY.fullmatch(prefix):
        raise StoreError(
            f"a trial goes by the first 6 or more of its key's hexadecimal digits, got {prefix!r}"
        )
    found = _refs(session, TrialRecord.key.startswith(prefix))
    if not found and (trials := _refs(session, ConfigurationRecord.hash.startswith(prefix))):
        listed = ", ".join(f"{one.key[:8]} (seed {one.seed})" for one in trials[:SHOWN])
        raise StoreError(f"{prefix!r} is a configuration; its trials are {listed}")
    if not found:
        raise StoreError(f"no trial's key begins with {prefix!r}")
    if len(found) > 1:
        longer = ", ".join(f"{one.key[: len(prefix) + 4]}…" for one in found[:3])
        raise StoreError(f"{prefix!r} begins the keys of several trials ({longer}); write more")
    return found[0]


def trial_of_key(session: Session, key: str) -> TrialRef | None:
    """The trial of that whole key; None where it is not on this leaderboard."""
    found = _refs(session, TrialRecord.key == key)
    return found[0] if found else None


def test_scores(session: Session, trial_key: str) -> list[ScoreRow]:
    """The test scores of a trial, of all identities, in order of task, metric and identity."""
    query = (
        select(
            ScoreRecord.task,
            ScoreRecord.split,
            ScoreRecord.metric,
            ScoreRecord.value,
            ScoreRecord.identity,
        )
        .join(TrialRecord, TrialRecord.id == ScoreRecord.trial_id)
        .where(TrialRecord.key == trial_key, ScoreRecord.split == "test")
        .order_by(ScoreRecord.task, ScoreRecord.metric, ScoreRecord.identity)
    )
    return [ScoreRow(*row) for row in session.execute(query)]


def similarities(
    session: Session, trial_key: str, task: str, identity: str | None = None
) -> "Similarities":
    """The cosines that a trial gives to the pairs of a task, and their gold scores.

    Args:
        session: of an open leaderboard.
        trial_key: the trial's whole key.
        task: one of the STS tasks.
        identity: of the evaluation; left out, it is the only one on the task's test pairs.

    Raises:
        StoreError: if there are none, or several and no identity is given.
    """
    which = (
        PairSetRecord.split == "test"  # STS-B's dev pairs may be there too, of the geometry
        if identity is None
        else PairSimilaritiesRecord.identity == identity
    )
    found = session.execute(_similarities_of(trial_key, task).where(which)).all()
    if not found:
        under = "" if identity is None else f" under identity {identity!r}"
        raise StoreError(
            f"trial {trial_key!r} has no similarities on {task!r}{under}; "
            "cse-evaluate on the trial stores them"
        )
    if len(found) > 1:
        names = ", ".join(one.PairSimilaritiesRecord.identity for one in found)
        raise StoreError(
            f"trial {trial_key!r} has similarities on {task!r} under several identities; "
            f"name one of {names}"
        )
    return _unpacked(found[0])


def test_accesses(session: Session, trial_key: str | None = None) -> list[TestAccess]:
    """The openings of test sets, of one trial or of all, oldest first."""
    query = (
        select(
            TrialRecord.key,
            TestAccessRecord.opened,
            TestAccessRecord.who,
            TestAccessRecord.command,
            TestAccessRecord.tasks,
            TestAccessRecord.source,
        )
        .join(TrialRecord, TrialRecord.id == TestAccessRecord.trial_id)
        .order_by(TestAccessRecord.opened, TestAccessRecord.id)
    )
    if trial_key is not None:
        query = query.where(TrialRecord.key == trial_key)
    return [TestAccess(*row) for row in session.execute(query)]


def _refs(session: Session, which: ColumnElement[bool]) -> list[TrialRef]:
    first = (
        select(func.min(SweepTrialRecord.sweep_id))
        .where(SweepTrialRecord.trial_id == TrialRecord.id)
        .scalar_subquery()
    )
    query = (
        select(
            TrialRecord.key,
            SweepRecord.name,
            GroupRecord.method,
            GroupRecord.backbone,
            TrialRecord.seed,
            TrialRecord.model,
            ConfigurationRecord.hash,
        )
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .join(GroupRecord, GroupRecord.id == ConfigurationRecord.contest_id)
        .join(SweepRecord, SweepRecord.id == first)
        .where(which)
        .order_by(TrialRecord.id)
    )
    return [TrialRef(*row) for row in session.execute(query)]


def _similarities_of(trial_key: str, task: str) -> Select[PairSimilaritiesRecord, PairSetRecord]:
    return (
        select(PairSimilaritiesRecord, PairSetRecord)
        .join(TrialRecord, TrialRecord.id == PairSimilaritiesRecord.trial_id)
        .join(PairSetRecord, PairSetRecord.data_sha256 == PairSimilaritiesRecord.data_sha256)
        .where(TrialRecord.key == trial_key, PairSimilaritiesRecord.task == task)
        .order_by(PairSimilaritiesRecord.identity)
    )


def _unpacked(row: Row[PairSimilaritiesRecord, PairSetRecord]) -> "Similarities":
    from cse_methods.evaluation.results import Similarities
    from cse_platform.tracking.packing import unpack_cosines, unpack_gold

    stored, pairs = row
    return Similarities(
        task=stored.task,
        split=cast("Split", pairs.split),
        identity=stored.identity,
        cosines=unpack_cosines(stored.cosines),
        gold=unpack_gold(pairs.gold),
        subsets=pairs.subsets,
        data_sha256=pairs.data_sha256,
    )
