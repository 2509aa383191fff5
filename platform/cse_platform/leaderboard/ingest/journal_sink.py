"""Applies journals to the leaderboard, event by event, each event once."""

import math
import re
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.evaluations import add_evaluation, add_score
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.ingest.sweep_trials import add_gpu_seconds, add_sweep_trials
from cse_platform.leaderboard.ingest.test_access import add_test_access
from cse_platform.leaderboard.ingest.upserts import insert_once, sweep_of, trial_if_here, trial_of
from cse_platform.leaderboard.store.opening import Store
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    JournalCursorRecord,
    MachineRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.tracking.events import (
    Event,
    SweepFinished,
    SweepStarted,
    TestAccessed,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialScore,
    TrialStarted,
)

DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


class LeaderboardSink:
    """The SQL leaderboard as a sink: a batch and its cursor are one transaction.

    With the lease of the sweep's driver, it takes nothing once another driver holds the sweep.
    """

    name = "leaderboard"

    def __init__(self, leaderboard: Store, lease: Lease | None = None) -> None:
        self._leaderboard, self._lease = leaderboard, lease

    def position(self, journal: str) -> int:
        """End offset of the last event applied from this journal; 0 when it is new here."""
        with self._leaderboard.session() as session:
            return _position(session, journal)

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Take over all of these events, or none.

        Raises:
            StoreError: if the database is down, or an event contradicts what is stored.
            LeaseLostError: if another driver has taken the sweep over.
        """
        with self._leaderboard.writing() as session:
            if self._lease is not None:
                self._lease.renew(session)
            position = _position(session, journal)
            for end, event in entries:
                if end > position:
                    _apply(session, event)
                    position = end
            insert_once(session, JournalCursorRecord, {"journal": journal}, {"position": 0})
            session.get_one(JournalCursorRecord, journal).position = position


def _position(session: Session, journal: str) -> int:
    cursor = session.get(JournalCursorRecord, journal)
    return 0 if cursor is None else cursor.position


def _apply(session: Session, event: Event) -> None:
    match event:
        case SweepStarted():
            _start_sweep(session, event)
        case TrialStarted():
            _start_trial(session, event)
        case TrialPoint():
            _add_point(session, event)
        case TrialFinished():
            _finish_trial(session, event)
        case TrialReused():
            if trial := trial_if_here(session, event.trial, sweep=event.sweep):
                _link(session, event, trial)
        case TestAccessed():
            if trial := trial_if_here(session, event.trial, sweep=event.sweep):
                add_test_access(session, trial, event)
        case TrialEvaluated():
            if trial := trial_if_here(session, event.trial, sweep=event.sweep):
                add_evaluation(session, trial, event)
        case SweepFinished():
            sweep = sweep_of(session, event.sweep)
            sweep.state, sweep.finished = event.state, event.time


def _start_sweep(session: Session, event: SweepStarted) -> None:
    """Store a sweep and its start; one that is resumed keeps the time of its first start."""
    first = event.model_dump(include={"method", "backbone", "spec"})
    first |= {"state": "RUNNING", "started": event.time}
    insert_once(session, SweepRecord, {"name": event.sweep}, first)
    sweep = sweep_of(session, event.sweep)
    sweep.spec, sweep.state, sweep.finished = event.spec, "RUNNING", None
    start = {"sweep_id": sweep.id, "started": event.time}
    facts = event.model_dump(include={"provenance", "packages", "diffs"})
    insert_once(session, SweepStartRecord, start, facts)
    session.execute(delete(SweepTagRecord).where(SweepTagRecord.sweep_id == sweep.id))
    for tag in event.spec.get("tags", ()):
        insert_once(session, SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


def _start_trial(session: Session, event: TrialStarted) -> None:
    configuration = _configuration(session, event)
    first = {"configuration_id": configuration.id, "seed": event.seed, "state": "RUNNING"}
    if insert_once(session, TrialRecord, {"key": event.trial}, {**first, "started": event.time}):
        configuration.trials += 1
        group = session.get_one(GroupRecord, configuration.group_id)
        group.trials += 1
        group.code = event.code
    trial = trial_of(session, event.trial)
    _link(session, event, trial)
    if trial.state == "COMPLETE":
        return
    if event.resumed_from is None:  # an earlier attempt does not count
        session.execute(delete(DevPointRecord).where(DevPointRecord.trial_id == trial.id))
        trial.started, trial.start_value = event.time, None
    trial.state, trial.finished, trial.error, trial.model = "RUNNING", None, None, None
    trial.best_step, trial.best_value, trial.wall_seconds = None, None, None


def _configuration(session: Session, event: TrialStarted) -> ConfigurationRecord:
    first = event.model_dump(include={"revision", "code", "values", "searched"})
    first |= {"group_id": _group(session, event), "corpus": event.dev["corpus"]}
    insert_once(session, ConfigurationRecord, {"hash": event.configuration}, first)
    query = select(ConfigurationRecord).where(ConfigurationRecord.hash == event.configuration)
    return session.scalars(query).one()


def _group(session: Session, event: TrialStarted) -> int:
    key = event.model_dump(include={"method", "backbone"}) | {"dev_identity": event.dev["identity"]}
    dev = {f"dev_{name}": event.dev[name] for name in ("checkpoint", "search", "source")}
    insert_once(session, GroupRecord, key, dev)
    return session.scalars(select(GroupRecord.id).filter_by(**key)).one()


def _link(session: Session, event: TrialStarted | TrialReused, trial: TrialRecord) -> None:
    """Put a trial into its sweep, in the place of the failed one that it tries again."""
    sweep = sweep_of(session, event.sweep).id
    failed = select(TrialRecord.id).where(TrialRecord.state == "FAIL", TrialRecord.id != trial.id)
    session.execute(
        delete(SweepTrialRecord).where(
            SweepTrialRecord.sweep_id == sweep,
            SweepTrialRecord.number == event.number,
            SweepTrialRecord.trial_id.in_(failed),
        )
    )
    link = event.model_dump(include={"number", "role", "search_number"})
    add_sweep_trials(session, sweep, [{**link, "trial_id": trial.id}])
    held = session.get_one(SweepTrialRecord, {"sweep_id": sweep, "trial_id": trial.id})
    held.search_number = event.search_number  # a second attempt has its own


def _add_point(session: Session, event: TrialPoint) -> None:
    """Store a point of a dev curve; the first value of a step stays."""
    trial = trial_of(session, event.trial)
    if trial.state == "COMPLETE":
        return
    point = {
        "reported_at": event.time,
        "value": _number(event.value),
        "metrics": {name: _number(value) for name, value in event.metrics.items()},
    }
    insert_once(session, DevPointRecord, {"trial_id": trial.id, "step": event.step}, point)
    if event.step == 0 and trial.start_value is None:
        trial.start_value = _number(event.value)


def _finish_trial(session: Session, event: TrialFinished) -> None:
    trial = trial_of(session, event.trial)
    took = (event.wall_seconds or 0.0) * event.gpus
    add_gpu_seconds(session, sweep_of(session, event.sweep).id, {trial.id: took})
    if trial.state == "COMPLETE":
        return
    trial.state, trial.finished, trial.error = event.state, event.time, event.error
    trial.best_step, trial.best_value = event.best_step, _number(event.best_value)
    trial.model, trial.wall_seconds = event.model, event.wall_seconds
    trial.provenance = dict(event.provenance)
    trial.machine_id = _machine(session, event.provenance)
    if event.state == "COMPLETE" and trial.best_value is not None:
        configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
        configuration.count_in(trial.best_value)
        _add_dev_scores(session, trial, event)


def _machine(session: Session, provenance: Mapping[str, str]) -> int | None:
    hardware = provenance.get("gpu") or provenance.get("cpu")
    if not hardware or "host" not in provenance:
        return None
    key = {"host": provenance["host"], "hardware": hardware}
    insert_once(session, MachineRecord, key, {})
    return session.scalars(select(MachineRecord.id).filter_by(**key)).one()


def _add_dev_scores(session: Session, trial: TrialRecord, event: TrialFinished) -> None:
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    group = session.get_one(GroupRecord, configuration.group_id)
    for name, value in event.best_metrics.items():
        if named := DEV_SCORE.fullmatch(name):
            measured = {"split": "dev", "value": value, "identity": group.dev_identity}
            score = TrialScore.model_validate(named.groupdict() | measured)
            add_score(session, trial, score, measured=event.time)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
