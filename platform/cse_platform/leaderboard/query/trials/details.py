"""Everything that the leaderboard knows about one trial, put together."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from cse_platform.leaderboard.query.annotations import annotations, annotations_of
from cse_platform.leaderboard.query.trials.curves import dev_point
from cse_platform.leaderboard.query.trials.details_record import (
    SweepPlace,
    SweepStart,
    TrialDetails,
)
from cse_platform.leaderboard.query.trials.find import find_trial
from cse_platform.leaderboard.query.trials.summary import find_summaries
from cse_platform.leaderboard.query.trials.test_access import as_test_access
from cse_platform.leaderboard.row import Configuration, DevSets
from cse_platform.leaderboard.store.score_tables import ScoreRecord
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.sweep.space.dimensions import canonical_json
from cse_platform.tracking.events import TrialScore

_WITH_ALL = (
    joinedload(TrialRecord.configuration).joinedload(ConfigurationRecord.group),
    joinedload(TrialRecord.machine),
    selectinload(TrialRecord.places)
    .joinedload(SweepTrialRecord.sweep)
    .options(selectinload(SweepRecord.starts), selectinload(SweepRecord.tags)),
    selectinload(TrialRecord.points),
    selectinload(TrialRecord.scores),
    selectinload(TrialRecord.test_accesses),
)


def trial_details(session: Session, key: str) -> TrialDetails:
    """Everything about a trial.

    Raises:
        NotFoundError: if it names no trial.
        AmbiguousError: if it names several.
    """
    key = find_trial(session, key).key
    query = select(TrialRecord).where(TrialRecord.key == key).options(*_WITH_ALL)
    trial = session.scalars(query).one()
    configuration, sweeps = trial.configuration, [place.sweep for place in trial.places]
    starts = _starts(trial, sweeps)
    written = annotations_of(session, "trial", trial.key)
    of_configuration = annotations_of(session, "configuration", configuration.hash)
    of_sweeps = annotations(session, "sweep", [sweep.name for sweep in sweeps])
    tags = {tag.tag for sweep in sweeps for tag in sweep.tags}
    tags.update(written.words, of_configuration.words, *(one.words for one in of_sweeps.values()))
    return TrialDetails(
        **_copied(trial),
        method=configuration.group.method,
        revision=configuration.revision,
        backbone=configuration.group.backbone,
        corpus=configuration.corpus,
        configuration=Configuration(
            configuration.hash, configuration.values, configuration.searched, configuration.code
        ),
        dev=dev_set(configuration.group),
        gpu_hours=trial.gpu_seconds / 3600,
        machine=f"{trial.machine.host} · {trial.machine.hardware}" if trial.machine else None,
        untrained=trial.start_value,
        sweeps=tuple(SweepPlace(one.sweep.name, one.number, one.role) for one in trial.places),
        tags=tuple(sorted(tags)),
        written=written,
        of_configuration=of_configuration,
        starts=starts,
        spec=_spec(sweeps, starts),
        curve=tuple(dev_point(one, best_step=trial.best_step) for one in trial.points),
        scores=_scores(trial.scores),
        test_accesses=tuple(as_test_access(key, one) for one in trial.test_accesses),
        siblings=_siblings(session, trial),
    )


def dev_set(group: GroupRecord) -> DevSets:
    """The dev sets that all trials of a group share."""
    return DevSets(group.dev_checkpoint, group.dev_search, group.dev_identity, group.dev_source)


def _copied(trial: TrialRecord) -> dict[str, Any]:
    names = (
        *("key", "seed", "state", "error", "started", "finished", "wall_seconds", "costs"),
        *("best_step", "best_value", "model", "model_deleted", "provenance"),
    )
    copied = {name: getattr(trial, name) for name in names}
    return copied | {"provenance": _texts(trial.provenance)}


def _texts(stored: Any) -> dict[str, str]:
    """Facts by name. They may come from another leaderboard, so they can be any JSON."""
    facts = stored if isinstance(stored, dict) else {"stored": stored}
    return {k: v if isinstance(v, str) else canonical_json(v) for k, v in facts.items()}


def _starts(trial: TrialRecord, sweeps: Sequence[SweepRecord]) -> tuple[SweepStart, ...]:
    """The starts that the trial ran under; `TrialDetails.starts` says which.

    Of the sweeps that hold the trial, the last one started before it is the one that ran it.
    """
    starts = sorted(
        (
            SweepStart(
                sweep.name,
                one.started,
                _texts(one.provenance),
                _texts(one.packages),
                _texts(one.diffs),
            )
            for sweep in sweeps
            for one in sweep.starts
            if trial.finished is None or one.started <= trial.finished
        ),
        key=lambda start: start.started,
    )
    before = [start for start in starts if start.started <= trial.started]
    if not before:
        return ()
    later = starts[len(before) :]
    return (before[-1], *(start for start in later if start.sweep == before[-1].sweep))


def _spec(sweeps: Sequence[SweepRecord], starts: Sequence[SweepStart]) -> dict[str, Any]:
    """The file of the sweep that ran it; where that is unknown, of the first."""
    ran = starts[0].sweep if starts else sweeps[0].name
    return next(sweep.spec for sweep in sweeps if sweep.name == ran)


def _scores(stored: Sequence[ScoreRecord]) -> tuple[TrialScore, ...]:
    ordered = sorted(stored, key=lambda one: (one.split, one.task, one.metric, one.identity))
    return tuple(TrialScore.model_validate(one, from_attributes=True) for one in ordered)


def _siblings(session: Session, trial: TrialRecord) -> tuple[TrialSummary, ...]:
    same = TrialRecord.configuration_id == trial.configuration_id
    found = find_summaries(session, same, TrialRecord.id != trial.id)
    return tuple(sorted(found, key=lambda one: one.seed))
