"""Merges another leaderboard into this one; merging it twice changes nothing."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import RowMapping, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.ingest.evaluations import add_identity
from cse_platform.leaderboard.ingest.journal_sink import apply_event, apply_held_back, put_newest
from cse_platform.leaderboard.ingest.merge_sweeps import (
    match_sweeps,
    merge_sweep_trials,
    merge_sweeps,
)
from cse_platform.leaderboard.ingest.merge_trials import TakesModel, check_keys, merge_trials
from cse_platform.leaderboard.ingest.sweep_events import holds_rehearsals
from cse_platform.leaderboard.ingest.upserts import insert_missing, trial_or_none
from cse_platform.leaderboard.store import SLICE_ROWS, Store
from cse_platform.leaderboard.tables import (
    AnnotationRecord,
    Base,
    DevPointRecord,
    EarlyEventRecord,
    EvaluationRecord,
    PairSetRecord,
    TrialRecord,
)
from cse_platform.tracking.events import EVENT, TrialFinished


def merge_annotations(ours: Session, theirs: Session, rename: Mapping[str, str]) -> None:
    """Merge their annotations; `rename` maps their names of sweeps to ours."""
    for row in theirs.execute(select(*AnnotationRecord.__table__.c)).mappings():
        name = rename.get(row["name"], row["name"]) if row["about"] == "sweep" else row["name"]
        put_newest(ours, AnnotationRecord(**{**row, "name": name}))


_BATCH = 500
"""Most trials per slice; a slice is held in memory with its dev curves and scores."""

MergeProgress = Callable[[int, int], None]
"""Called with the number of trials done and the total."""


@dataclass(frozen=True)
class MergeSummary:
    """Counts of what a merge brought."""

    sweeps: int
    """New sweeps."""
    trials: int
    """All trials of the other leaderboard."""
    new: int
    completed: int
    """Trials that were incomplete here and are complete now."""
    newer: int
    """Trials complete on neither side whose shown attempt came from the other leaderboard or was
    updated.
    """
    differing: int
    """Trials complete on both sides with different dev values; the one completed first is shown."""
    points: int
    """Dev points that were copied."""
    scores: int

    @property
    def already_here(self) -> int:
        """Trials of the other leaderboard that brought nothing new for the one here."""
        return self.trials - self.new - self.completed - self.newer


def takes_none(_place: str, _trial: str) -> bool:
    """Refuse every model."""
    return False


def merge(
    target: Store,
    source: Store,
    *,
    rename: Mapping[str, str] | None = None,
    takes_model: TakesModel = takes_none,
    progress: MergeProgress | None = None,
) -> MergeSummary:
    """Merge all of another leaderboard, some trials at a time; the source is only read.

    Each slice is a transaction, and others can write between two of them. Refusals come before the
    first slice. A merge that was interrupted is completed by running it again.

    Of all attempts at a trial on both sides, the best one is shown, as if one leaderboard had
    applied all journals: a complete one, else the one that came furthest. Of two copies of one
    attempt, the more recent one counts. A complete trial gets the scores that it lacks, unless the
    dev values differ: then the other side's scores belong to another model.

    Args:
        target: the leaderboard to merge into.
        source: the other leaderboard. Its content is not trusted where it could do harm.
        rename: our names by their names, for different sweeps that share a name.
        takes_model: whether to accept a location as that of a trial's model; by default, no models
            are taken.
        progress: called after each slice of trials.

    Raises:
        ImportRefusedError: if different sweeps share a name, `rename` is invalid, a sweep or trial
            has an invalid name, or only one side holds rehearsals.
        StoreError: if one of the databases fails.
    """
    with source.session() as theirs:
        check_keys(theirs)
        with target.writing() as ours:
            _refuse_rehearsals(ours, theirs)
            pairs = match_sweeps(ours, theirs, rename or {})
            sweeps, new_sweeps = merge_sweeps(ours, theirs, pairs)
            for row in _read_all_rows(theirs, EvaluationRecord):
                add_identity(ours, **row)
            for row in _read_all_rows(theirs, PairSetRecord):
                insert_missing(ours, PairSetRecord, ["data_sha256"], [row])
        total = theirs.scalar(select(func.count()).select_from(TrialRecord)) or 0
        done, came = 0, Counter[str]()
        for batch in _iterate_slices(theirs):
            target.let_others_write()
            with target.writing() as ours:
                taken, counts = merge_trials(ours, theirs, batch, takes_model)
                merge_sweep_trials(ours, theirs, sweeps, taken)
            done, came = done + len(taken), came + counts
            theirs.expunge_all()
            if progress is not None:
                progress(done, total)
        target.let_others_write()
        with target.writing() as ours:
            merge_annotations(ours, theirs, rename or {})
            _merge_early_events(ours, theirs, rename or {}, takes_model)
    names = ("new", "completed", "newer", "differing", "points", "scores")
    return MergeSummary(sweeps=new_sweeps, trials=total, **{name: came[name] for name in names})


def _refuse_rehearsals(ours: Session, theirs: Session) -> None:
    here, there = holds_rehearsals(ours), holds_rehearsals(theirs)
    if there and not here:
        raise ImportRefusedError(
            "that leaderboard holds rehearsals, made by cse-sweep --smoke: their numbers mean "
            "nothing, and stay there; run the sweeps themselves"
        )
    if here and there is False:
        raise ImportRefusedError(
            "this leaderboard holds rehearsals, made by cse-sweep --smoke, and the next one "
            "removes it; name another one by --runs or --store"
        )


def _iterate_slices(theirs: Session) -> Iterator[Sequence[TrialRecord]]:
    """Read their trials in slices that have a bounded number of dev points."""
    last = 0
    query = select(TrialRecord).order_by(TrialRecord.id).limit(_BATCH)
    while batch := theirs.scalars(query.where(TrialRecord.id > last)).all():
        some = batch[: _count_fitting(_count_points(theirs, batch))]
        last = some[-1].id
        yield some


def _count_points(theirs: Session, batch: Sequence[TrialRecord]) -> list[int]:
    """Count the dev points of each trial."""
    trial = DevPointRecord.trial_id
    query = select(trial, func.count()).where(trial.in_([one.id for one in batch])).group_by(trial)
    points = {row[0]: row[1] for row in theirs.execute(query)}
    return [points.get(one.id, 0) for one in batch]


def _count_fitting(points: Sequence[int]) -> int:
    """Count the leading trials that together have at most `SLICE_ROWS` points; at least one."""
    return max(1, bisect_right(list(accumulate(points)), SLICE_ROWS))


def _merge_early_events(
    ours: Session, theirs: Session, rename: Mapping[str, str], takes_model: TakesModel
) -> None:
    """Apply or keep the events that either side held back for a trial that it lacked."""
    for key in ours.scalars(select(EarlyEventRecord.trial).distinct()).all():
        if trial_or_none(ours, key) is not None:
            apply_held_back(ours, key)
    for held in theirs.scalars(select(EarlyEventRecord)):
        event = EVENT.validate_json(held.event)
        event = event.model_copy(update={"sweep": rename.get(event.sweep, event.sweep)})
        if isinstance(event, TrialFinished) and event.model is not None:
            taken = event.model if takes_model(event.model, event.trial) else None
            event = event.model_copy(update={"model": taken})
        apply_event(ours, held.journal, held.position, event)


def _read_all_rows(theirs: Session, table: type[Base]) -> Iterable[RowMapping]:
    return theirs.execute(select(*table.__table__.c)).mappings()
