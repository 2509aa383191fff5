"""Merges the trials of another leaderboard, a batch at a time, with their attempts and scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from sqlalchemy import RowMapping, delete, func, select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.ingest.attempts import (
    Attempt,
    count_complete,
    curve_of,
    finish,
    settle,
)
from cse_platform.leaderboard.ingest.evaluations import SCORE_KEY, own_metrics
from cse_platform.leaderboard.ingest.upserts import (
    add_searched,
    insert_missing,
    insert_newest,
    insert_once,
)
from cse_platform.leaderboard.tables import (
    ATTEMPT_COLUMNS,
    POINT_COLUMNS,
    Base,
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    MachineRecord,
    OtherAttemptRecord,
    OtherPointRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    TestAccessRecord,
    TrialRecord,
)
from cse_platform.sweep.blocks import slug_problem

_READ_AT_ONCE = 10_000

MergeOutcome = Literal["new", "completed", "newer", "differing", "here"]


@dataclass(frozen=True)
class Merged:
    """The outcome of merging a trial that both sides have."""

    outcome: MergeOutcome
    points: int
    """Dev points that were copied."""
    same_model: bool
    """Whether their scores belong to the model that the trial here now shows."""


def merge_attempts(
    ours: Session,
    theirs: Session,
    both: Sequence[tuple[TrialRecord, TrialRecord]],
    others: Mapping[int, Sequence[OtherAttemptRecord]],
    machines: Mapping[int, int],
) -> dict[int, Merged]:
    """Merge their attempts at trials that both sides have. Returns outcomes by their trial ids.

    `others` holds their attempts that are not shown, by their trial ids; `machines` maps their
    machine ids to ours.
    """
    merged = {}
    for here, there in both:
        before = here.best_value if here.state == "COMPLETE" else None
        attempts: list[Attempt] = [there, *others[there.id]]
        came = {
            attempt.journal: points
            for attempt in attempts
            if (points := _merge_attempt(ours, theirs, here, attempt, machines)) is not None
        }
        if came:
            settle(ours, here)
        theirs_value = there.best_value if there.state == "COMPLETE" else None
        outcome: MergeOutcome = "newer" if here.journal in came else "here"
        if before is not None:
            outcome = "here" if theirs_value in (None, before) else "differing"
        elif here.state == "COMPLETE":
            outcome = "completed"
        same_model = theirs_value in (None, here.best_value)
        merged[there.id] = Merged(outcome, sum(came.values()), same_model)
    return merged


def _merge_attempt(
    ours: Session,
    theirs: Session,
    trial: TrialRecord,
    offered: Attempt,
    machines: Mapping[int, int],
) -> int | None:
    """Copy an attempt unless ours is complete or as recent. Returns the points copied, or None."""
    mine = _find_same_attempt(ours, trial, offered)
    if mine is None:
        mine = OtherAttemptRecord(
            trial_id=trial.id,
            journal=offered.journal,
            state="RUNNING",
            started=offered.started,
            provenance={},
        )
        ours.add(mine)
    elif mine.state == "COMPLETE" or _make_recency_key(theirs, offered) <= _make_recency_key(
        ours, mine
    ):
        return None
    metrics = (
        own_metrics(theirs, offered) if isinstance(offered, TrialRecord) else offered.best_metrics
    )
    for name in ATTEMPT_COLUMNS:
        setattr(mine, name, getattr(offered, name))
    mine.machine_id = None if offered.machine_id is None else machines[offered.machine_id]
    ours.flush()
    came = _copy_curve(ours, theirs, offered, mine)
    if isinstance(mine, OtherAttemptRecord):
        mine.best_metrics = metrics
    else:
        finish(ours, mine, metrics)
    return came


def _find_same_attempt(session: Session, trial: TrialRecord, offered: Attempt) -> Attempt | None:
    """Find our copy of an attempt: that of its journal or, without journals, of the same start
    time.
    """
    if trial.journal == offered.journal:
        return trial
    if not (trial.journal and offered.journal) and trial.started == offered.started:
        return trial
    return session.get(OtherAttemptRecord, (trial.id, offered.journal))


def _make_recency_key(session: Session, attempt: Attempt) -> tuple[bool, datetime, datetime, bool]:
    """Return a sort key of an attempt: complete, later start, later last report, finished."""
    table, which = curve_of(attempt)
    point = session.scalar(select(func.max(table.reported_at)).where(*which))
    started, finished = attempt.started, attempt.finished
    last = max(finished or started, point or started)
    return attempt.state == "COMPLETE", started, last, finished is not None


def _copy_curve(ours: Session, theirs: Session, offered: Attempt, mine: Attempt) -> int:
    there, at_theirs = curve_of(offered)
    here, at_ours = curve_of(mine)
    ours.execute(delete(here).where(*at_ours))
    owner: dict[str, Any] = {
        "trial_id": mine.id if isinstance(mine, TrialRecord) else mine.trial_id
    }
    if isinstance(mine, OtherAttemptRecord):
        owner["journal"] = mine.journal
    query = select(*(getattr(there, name) for name in POINT_COLUMNS)).where(*at_theirs)
    rows = [{**point, **owner} for point in theirs.execute(query).mappings()]
    return insert_missing(ours, here, [*owner, "step"], rows)


TakesModel = Callable[[str, str], bool]
"""Whether to accept a location as that of a trial's model; takes the location and the trial's key.
"""

Row = RowMapping | Mapping[str, Any]
Made = TypeVar("Made", bound=Base)

GROUP_KEY = ("method", "backbone", "dev_identity")
MACHINE_KEY = ("host", "hardware")
SIMILARITIES_KEY = ("trial_id", "task", "identity")
RELEASE_KEY = ("trial_id", "opened", "who")
IDLE = {"trials": 0, "gpu_seconds": 0.0}
UNTRIED = {**IDLE, "n": 0, "mean": None, "m2": 0.0}
"""Initial counters of a configuration; `IDLE` has those of a group."""


def merge_trials(
    ours: Session, theirs: Session, batch: Sequence[TrialRecord], takes_model: TakesModel
) -> tuple[dict[int, int], Counter[str]]:
    """Merge a batch of their trials, and update the counters of configurations and groups.

    Models that `takes_model` refuses are not copied. Returns our trial ids by theirs, and the
    number of trials by outcome, of points and of scores.
    """
    attempts = _read_their_attempts(theirs, batch, takes_model)
    known = _find_trials_by_key(ours, batch)
    machines = _merge_machines(ours, theirs, batch)
    configurations, groups = _merge_configurations(ours, theirs, batch)
    made = {}
    for row in batch:
        if row.key not in known:
            configuration = configurations[row.configuration_id]
            made[row.key] = _add_trial(ours, row, configuration, machines)
            groups[configuration.group_id].trials += 1
    ours.flush()
    for configuration_id in sorted({trial.configuration_id for trial in made.values()}):
        count_complete(ours, [configuration_id])
    trials = known | made
    ids = {row.id: trials[row.key].id for row in batch}
    new = {row.id: ids[row.id] for row in batch if row.key in made}
    points = _copy_missing_rows(ours, theirs, DevPointRecord, ("trial_id", "step"), new)
    _add_attempts(ours, {new[there]: attempts[there] for there in new}, machines)
    _copy_missing_rows(ours, theirs, OtherPointRecord, ("trial_id", "journal", "step"), new)
    both = [(known[row.key], row) for row in batch if row.key in known]
    merged = merge_attempts(ours, theirs, both, attempts, machines)
    same = new | {there: ids[there] for there, result in merged.items() if result.same_model}
    scores = _copy_scores(ours, theirs, same, new)
    _copy_missing_rows(ours, theirs, PairSimilaritiesRecord, SIMILARITIES_KEY, same)
    _copy_missing_rows(ours, theirs, TestAccessRecord, RELEASE_KEY, ids)
    points += sum(result.points for result in merged.values())
    outcomes = Counter[str](result.outcome for result in merged.values())
    return ids, outcomes + Counter(new=len(new), points=points, scores=scores)


def check_keys(theirs: Session) -> None:
    """Refuse invalid keys and hashes, because files are named after them.

    Raises:
        ImportRefusedError: names the first invalid one.
    """
    for names in (select(TrialRecord.key), select(ConfigurationRecord.hash)):
        for name in theirs.scalars(names.execution_options(yield_per=_READ_AT_ONCE)):
            if problem := slug_problem(name):
                raise ImportRefusedError(f"a trial there has a key that none can have: {problem}")


def _read_their_attempts(
    theirs: Session, batch: Sequence[TrialRecord], takes_model: TakesModel
) -> dict[int, list[OtherAttemptRecord]]:
    """Read their attempts at these trials that are not shown, by their trial ids.

    Refused models are removed from these attempts and from the trials, in memory only.
    """
    keys = {trial.id: trial.key for trial in batch}
    query = select(OtherAttemptRecord).where(OtherAttemptRecord.trial_id.in_(keys))
    attempts: dict[int, list[OtherAttemptRecord]] = {trial: [] for trial in keys}
    for attempt in theirs.scalars(query.order_by(OtherAttemptRecord.journal)):
        attempts[attempt.trial_id].append(attempt)
    for trial in batch:
        offered: list[Attempt] = [trial, *attempts[trial.id]]
        for candidate in offered:
            if candidate.model is not None and not takes_model(candidate.model, trial.key):
                set_committed_value(candidate, "model", None)
    return attempts


def _find_trials_by_key(ours: Session, batch: Sequence[TrialRecord]) -> dict[str, TrialRecord]:
    query = select(TrialRecord).where(TrialRecord.key.in_([row.key for row in batch]))
    return {trial.key: trial for trial in ours.scalars(query)}


def _add_trial(
    ours: Session, row: TrialRecord, configuration: ConfigurationRecord, machines: Mapping[int, int]
) -> TrialRecord:
    """Add a trial that is not here yet."""
    copied = {name: getattr(row, name) for name in ("key", "seed", *ATTEMPT_COLUMNS)}
    trial = TrialRecord(**copied, configuration_id=configuration.id, gpu_seconds=0.0)
    trial.machine_id = None if row.machine_id is None else machines[row.machine_id]
    ours.add(trial)
    configuration.trials += 1
    return trial


def _merge_configurations(
    ours: Session, theirs: Session, trials: Sequence[TrialRecord]
) -> tuple[dict[int, ConfigurationRecord], dict[int, GroupRecord]]:
    """Find or add configurations and groups. Returns configurations by their ids, groups by our
    ids.
    """
    there = _read_rows_by_id(
        theirs, ConfigurationRecord, {trial.configuration_id for trial in trials}
    )
    groups = {
        row["id"]: _merge_group(ours, row)
        for row in _read_rows_by_id(theirs, GroupRecord, {row["group_id"] for row in there})
    }
    rows = [row | UNTRIED | {"group_id": groups[row["group_id"]].id} for row in there]
    for row in rows:
        del row["id"]
    insert_missing(ours, ConfigurationRecord, ["hash"], rows)
    hashes = ConfigurationRecord.hash.in_([row["hash"] for row in there])
    here = {
        configuration.hash: configuration
        for configuration in ours.scalars(select(ConfigurationRecord).where(hashes))
    }
    for row in there:
        add_searched(here[row["hash"]], row["searched"])
    by_id = {group.id: group for group in groups.values()}
    return {row["id"]: here[row["hash"]] for row in there}, by_id


def _merge_group(ours: Session, row: Row) -> GroupRecord:
    """Find or add a group here; its code becomes that of the newest trial on either side."""
    group = _find_or_insert(ours, GroupRecord, GROUP_KEY, {**row, **IDLE})
    since = row["code_since"]
    if since is not None and (group.code_since is None or group.code_since < since):
        group.code, group.code_since = row["code"], since
    return group


def _merge_machines(ours: Session, theirs: Session, batch: Sequence[TrialRecord]) -> dict[int, int]:
    """Map their machine ids to ours; missing machines are added."""
    others = select(OtherAttemptRecord.machine_id).where(
        OtherAttemptRecord.trial_id.in_([trial.id for trial in batch])
    )
    used = {*theirs.scalars(others), *(trial.machine_id for trial in batch)}
    there = _read_rows_by_id(
        theirs, MachineRecord, [machine_id for machine_id in used if machine_id is not None]
    )
    return {row["id"]: _find_or_insert(ours, MachineRecord, MACHINE_KEY, row).id for row in there}


def _find_or_insert(ours: Session, table: type[Made], key: Sequence[str], row: Row) -> Made:
    which = {name: row[name] for name in key}
    values = {name: value for name, value in row.items() if name not in ("id", *key)}
    insert_once(ours, table, which, values)
    return ours.scalars(select(table).filter_by(**which)).one()


def _read_rows_by_id(
    theirs: Session, table: type[Base], ids: Iterable[int]
) -> list[dict[str, Any]]:
    columns = table.__table__.c
    query = select(*columns).where(columns.id.in_(ids)).order_by(columns.id)
    return [dict(zip(columns.keys(), row, strict=True)) for row in theirs.execute(query)]


def _add_attempts(
    ours: Session,
    attempts: Mapping[int, Sequence[OtherAttemptRecord]],
    machines: Mapping[int, int],
) -> None:
    """Add the attempts that are not shown to trials that are new here, by our trial ids."""
    rows = [
        {name: getattr(attempt, name) for name in (*ATTEMPT_COLUMNS, "best_metrics")}
        | {"trial_id": here, "machine_id": machines.get(attempt.machine_id or 0)}
        for here, several in attempts.items()
        for attempt in several
    ]
    insert_missing(ours, OtherAttemptRecord, ["trial_id", "journal"], rows)


def _copy_missing_rows(
    ours: Session,
    theirs: Session,
    table: type[Base],
    key: Sequence[str],
    ids: Mapping[int, int],
) -> int:
    """Copy the rows of these trials that are missing here. Returns how many were copied."""
    return insert_missing(ours, table, key, _read_rows_of_trials(theirs, table, ids))


def _copy_scores(
    ours: Session, theirs: Session, ids: Mapping[int, int], new: Mapping[int, int]
) -> int:
    """Add or update scores. Returns how many were stored.

    For trials that were here before, `merge_attempts` has already stored their own dev scores.
    """
    own = [*theirs.scalars(select(GroupRecord.dev_identity))]
    known = {here for there, here in ids.items() if there not in new}
    rows = [
        row
        for row in _read_rows_of_trials(theirs, ScoreRecord, ids)
        if row["trial_id"] not in known or row["identity"] not in own
    ]
    return len(insert_newest(ours, ScoreRecord, SCORE_KEY, rows))


def _read_rows_of_trials(
    theirs: Session, table: type[Base], ids: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Read their rows of these trials, with trial ids replaced by ours."""
    columns = [column for column in table.__table__.c if column.key != "id"]
    query = select(*columns).where(table.__table__.c.trial_id.in_(ids))
    return [{**row, "trial_id": ids[row["trial_id"]]} for row in theirs.execute(query).mappings()]
