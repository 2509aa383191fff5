"""The trials of another leaderboard, a batch at a time, with all that hangs on them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from sqlalchemy import RowMapping, delete, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_missing, insert_once
from cse_platform.leaderboard.store.base import Base
from cse_platform.leaderboard.store.score_tables import (
    PairSimilaritiesRecord,
    ScoreRecord,
    TestAccessRecord,
)
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    MachineRecord,
    TrialRecord,
)

Row = RowMapping | Mapping[str, Any]
Made = TypeVar("Made", bound=Base)
_Outcome = Literal["new", "completed", "newer", "differing", "here"]

GROUP_KEY = ("method", "backbone", "dev_identity")
MACHINE_KEY = ("host", "hardware")
SCORE_KEY = ("trial_id", "task", "split", "metric", "identity")
SIMILARITIES_KEY = ("trial_id", "task", "identity")
RELEASE_KEY = ("trial_id", "opened", "who")
OWN_FIELDS = {"id", "key", "configuration_id", "seed", "machine_id", "gpu_seconds"}
"""What is not copied as it is; GPU time follows from the sweeps that it was spent in."""
IDLE = {"trials": 0, "gpu_seconds": 0.0}
UNTRIED = {**IDLE, "n": 0, "mean": None, "m2": 0.0}
"""The counters of a group and a configuration that nothing has been added to."""
COPIED = [column.key for column in TrialRecord.__table__.c if column.key not in OWN_FIELDS]


def merge_trials(
    ours: Session, theirs: Session, batch: Sequence[Row]
) -> tuple[dict[int, int], Counter[str]]:
    """Take over a batch of trials; the counters of configurations and groups stay right.

    The batch has rows of `trials` over there. The ids here by the ids there are returned, and how
    many trials of each outcome, points and scores came.
    """
    known = _by_key(ours, batch)
    outcomes = _outcomes(ours, theirs, batch, known)
    taken = [row for row in batch if outcomes[row["id"]] in ("new", "completed", "newer")]
    trials = known | _take(ours, theirs, taken, known)
    ours.flush()
    ids = {row["id"]: trials[row["key"]].id for row in batch}
    curves = {row["id"]: ids[row["id"]] for row in taken}
    ours.execute(delete(DevPointRecord).where(DevPointRecord.trial_id.in_(curves.values())))
    points = _copy(ours, theirs, DevPointRecord, ("trial_id", "step"), curves)
    same = {there: here for there, here in ids.items() if outcomes[there] != "differing"}
    scores = _copy(ours, theirs, ScoreRecord, SCORE_KEY, same)
    _copy(ours, theirs, PairSimilaritiesRecord, SIMILARITIES_KEY, same)
    _copy(ours, theirs, TestAccessRecord, RELEASE_KEY, ids)
    return ids, Counter([*outcomes.values()]) + Counter(points=points, scores=scores)


def _by_key(ours: Session, batch: Sequence[Row]) -> dict[str, TrialRecord]:
    query = select(TrialRecord).where(TrialRecord.key.in_([row["key"] for row in batch]))
    return {trial.key: trial for trial in ours.scalars(query)}


def _outcomes(
    ours: Session, theirs: Session, batch: Sequence[Row], known: Mapping[str, TrialRecord]
) -> dict[int, _Outcome]:
    unfinished = [row for row in batch if row["key"] in known and row["state"] != "COMPLETE"]
    there = _last_points(theirs, [row["id"] for row in unfinished])
    here = _last_points(ours, [known[row["key"]].id for row in unfinished])

    def outcome(row: Row) -> _Outcome:
        mine = known.get(row["key"])
        if mine is None:
            return "new"
        if mine.state == "COMPLETE":
            equal = row["state"] != "COMPLETE" or row["best_value"] == mine.best_value
            return "here" if equal else "differing"
        if row["state"] == "COMPLETE":
            return "completed"
        theirs_heard = _heard(row["started"], row["finished"], there.get(row["id"]))
        ours_heard = _heard(mine.started, mine.finished, here.get(mine.id))
        return "newer" if theirs_heard > ours_heard else "here"

    return {row["id"]: outcome(row) for row in batch}


def _last_points(session: Session, trials: Sequence[int]) -> dict[int, datetime]:
    last = func.max(DevPointRecord.reported_at)
    query = select(DevPointRecord.trial_id, last).where(DevPointRecord.trial_id.in_(trials))
    found = session.execute(query.group_by(DevPointRecord.trial_id)).all()
    return {trial: at for trial, at in found if at is not None}


def _heard(
    started: datetime, finished: datetime | None, point: datetime | None
) -> tuple[datetime, datetime, bool]:
    """Later attempts stand before earlier ones; in one attempt, what was heard of last."""
    return started, max(finished or started, point or started), finished is not None


def _take(
    ours: Session, theirs: Session, taken: Sequence[Row], known: Mapping[str, TrialRecord]
) -> dict[str, TrialRecord]:
    """Make or overwrite the trials; those made are returned by key."""
    made = {}
    configurations, groups = _configurations(ours, theirs, taken)
    machines = _machines(ours, theirs, taken)
    for row in taken:
        configuration = configurations[row["configuration_id"]]
        trial = known.get(row["key"])
        if trial is None:
            place = {"configuration_id": configuration.id, "seed": row["seed"], "gpu_seconds": 0.0}
            trial = made[row["key"]] = TrialRecord(key=row["key"], **place)
            ours.add(trial)
            configuration.trials += 1
            groups[configuration.group_id].trials += 1
        for name in COPIED:
            setattr(trial, name, row[name])
        trial.machine_id = machines.get(row["machine_id"])
        if row["state"] == "COMPLETE":
            configuration.count_in(row["best_value"])
    return made


def _configurations(
    ours: Session, theirs: Session, taken: Sequence[Row]
) -> tuple[dict[int, ConfigurationRecord], dict[int, GroupRecord]]:
    """Those of the trials, made where they are not here, by their id there; groups by that here."""
    there = _rows(theirs, ConfigurationRecord, {row["configuration_id"] for row in taken})
    groups = {
        row["id"]: _found_or_made(ours, GroupRecord, GROUP_KEY, row | IDLE)
        for row in _rows(theirs, GroupRecord, {row["group_id"] for row in there})
    }
    rows = [row | UNTRIED | {"group_id": groups[row["group_id"]].id} for row in there]
    for row in rows:
        del row["id"]
    insert_missing(ours, ConfigurationRecord, ["hash"], rows)
    hashes = ConfigurationRecord.hash.in_([row["hash"] for row in there])
    here = {one.hash: one for one in ours.scalars(select(ConfigurationRecord).where(hashes))}
    by_id = {group.id: group for group in groups.values()}
    return {row["id"]: here[row["hash"]] for row in there}, by_id


def _machines(ours: Session, theirs: Session, taken: Sequence[Row]) -> dict[int, int]:
    """The ids here by the ids there."""
    there = _rows(theirs, MachineRecord, {row["machine_id"] for row in taken})
    return {row["id"]: _found_or_made(ours, MachineRecord, MACHINE_KEY, row).id for row in there}


def _found_or_made(ours: Session, table: type[Made], key: Sequence[str], row: Row) -> Made:
    which = {name: row[name] for name in key}
    values = {name: value for name, value in row.items() if name not in ("id", *key)}
    insert_once(ours, table, which, values)
    return ours.scalars(select(table).filter_by(**which)).one()


def _rows(theirs: Session, table: type[Base], ids: Iterable[int]) -> list[dict[str, Any]]:
    columns = table.__table__.c
    query = select(*columns).where(columns.id.in_(ids)).order_by(columns.id)
    return [dict(zip(columns.keys(), row, strict=True)) for row in theirs.execute(query)]


def _copy(
    ours: Session, theirs: Session, table: type[Base], key: Sequence[str], ids: Mapping[int, int]
) -> int:
    """Add the rows that hang on these trials and are not here; how many came."""
    columns = [column for column in table.__table__.c if column.key != "id"]
    query = select(*columns).where(table.__table__.c.trial_id.in_(ids))
    rows = [{**row, "trial_id": ids[row["trial_id"]]} for row in theirs.execute(query).mappings()]
    return insert_missing(ours, table, key, rows)
