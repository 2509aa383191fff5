"""Brings what another leaderboard holds onto this one; doing it again changes nothing.

Rows are matched by what they are, never by their ids: trials by key, configurations by hash, sweeps
by name. What is complete here stays as it is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import RowMapping, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.evaluations import add_identity
from cse_platform.leaderboard.ingest.merge_sweeps import matched, merge_sweep_trials, merge_sweeps
from cse_platform.leaderboard.ingest.merge_trials import merge_trials
from cse_platform.leaderboard.ingest.upserts import insert_missing
from cse_platform.leaderboard.store.base import Base
from cse_platform.leaderboard.store.opening import Store
from cse_platform.leaderboard.store.score_tables import EvaluationRecord, PairSetRecord
from cse_platform.leaderboard.store.tables import TrialRecord

_BATCH = 500
"""Trials that are in memory at once, with their dev curves and scores."""

MergeProgress = Callable[[int, int], None]
"""Called with how many trials are done, and of how many."""


@dataclass(frozen=True)
class MergeSummary:
    """What came, in numbers."""

    sweeps: int
    """New ones."""
    trials: int
    """All that are there."""
    new: int
    completed: int
    """That were here and not complete."""
    newer: int
    """Complete on neither side, and heard of later there."""
    differing: int
    """Complete on both sides with different dev values; ours stayed, theirs' scores too."""
    points: int
    """Of dev curves."""
    scores: int

    @property
    def here(self) -> int:
        """Trials that were here already, as far as they are there."""
        return self.trials - self.new - self.completed - self.newer


def merge(
    target: Store,
    source: Store,
    *,
    rename: Mapping[str, str] | None = None,
    progress: MergeProgress | None = None,
) -> MergeSummary:
    """Take over everything in one transaction; the source is only read.

    A trial that is complete on one side wins over one that is not, with its dev curve. Of trials
    that are complete on neither side, the attempt that was started last wins, and of one attempt
    what was heard of last. Complete on both, ours stays, and gets the scores that it lacks; where
    their dev values differ, theirs are scores of another model and stay away.

    `rename` has names here by the names there, for sweeps that only share their name.

    Raises:
        ImportRefusedError: if sweeps of one name are not one sweep, or `rename` means nothing.
        StoreError: if one of the databases fails.
    """
    with source.session() as theirs, target.writing() as ours:
        pairs = matched(ours, theirs, rename or {})
        sweeps, new_sweeps = merge_sweeps(ours, theirs, pairs)
        for row in _all(theirs, EvaluationRecord):
            add_identity(ours, **row)
        for row in _all(theirs, PairSetRecord):
            insert_missing(ours, PairSetRecord, ["data_sha256"], [row])
        total = theirs.scalar(select(func.count()).select_from(TrialRecord)) or 0
        ids: dict[int, int] = {}
        came: Counter[str] = Counter()
        for batch in _batches(theirs):
            taken, counts = merge_trials(ours, theirs, batch)
            ids |= taken
            came += counts
            ours.flush()
            ours.expunge_all()
            if progress is not None:
                progress(len(ids), total)
        merge_sweep_trials(ours, theirs, sweeps, ids)
    names = ("new", "completed", "newer", "differing", "points", "scores")
    return MergeSummary(sweeps=new_sweeps, trials=total, **{name: came[name] for name in names})


def _batches(theirs: Session) -> Iterator[Sequence[RowMapping]]:
    last = 0
    query = select(*TrialRecord.__table__.c).order_by(TrialRecord.id).limit(_BATCH)
    while batch := theirs.execute(query.where(TrialRecord.id > last)).mappings().all():
        yield batch
        last = batch[-1]["id"]


def _all(theirs: Session, table: type[Base]) -> Iterable[RowMapping]:
    return theirs.execute(select(*table.__table__.c)).mappings()
