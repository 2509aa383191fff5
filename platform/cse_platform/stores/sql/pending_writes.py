"""Leaves rows and decisions of a transaction of events to its end, and writes them there."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from cse_platform.counting_seeds import RIVALS
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.attempts import show_best_attempts
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.keyed_rows import (
    insert_rows,
)
from cse_platform.tracking.history import stored_confirmed

SCORE_KEY = ("attempt_id", "task", "split", "metric", "identity")


@dataclass
class PendingWrites:
    """The rows and decisions that a transaction of events leaves to its end."""

    points: list[dict[str, Any]] = field(default_factory=list)
    """The rows of dev points; the first value for a step stays."""
    own_scores: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the dev scores of complete attempts."""
    trials: set[int] = field(default_factory=set)
    """Those whose attempts or links have changed, by id."""
    configurations: set[int] = field(default_factory=set)
    """Those whose estimates are to be computed again."""
    sweeps: set[int] = field(default_factory=set)
    """Those that have started, by id."""
    waits: list[str] = field(default_factory=list)
    """A sentence on each trial for which events are held back from now on."""


@contextmanager
def collect_writes(session: Session) -> Iterator[PendingWrites]:
    """Collect what events leave to the end, and write it there, with what follows from it."""
    pending = session.info[PendingWrites] = PendingWrites()
    with session.no_autoflush:  # whoever needs something flushed does so
        yield pending
    write_points(session)
    insert_rows(session, tables.ScoreRecord, SCORE_KEY, pending.own_scores, newer_by="measured")
    show_best_attempts(session, pending.trials)
    changed = _find_changed_searches(session, pending.trials)
    for sweep in pending.sweeps | changed.keys():
        # The values of all trials of a search choose once two configurations have one.
        most = len(changed.get(sweep, ())) + 1
        compared = set(session.scalars(_select_compared(sweep).limit(most + 1)))
        if len(compared) <= most:
            pending.configurations |= compared
        pending.configurations |= _find_more_than_confirmed(session, sweep)
    estimate_configurations(session, pending.configurations)
    del session.info[PendingWrites]


def _find_changed_searches(session: Session, trials: Collection[int]) -> dict[int, set[int]]:
    """Find the sweeps that these trials are searched in, with their configurations."""
    link, changed = tables.SweepTrialRecord, defaultdict[int, set[int]](set)
    query = select(link.sweep_id, tables.TrialRecord.configuration_id).join(link.trial)
    for ids in tables.in_batches(sorted(trials)):
        for sweep, configuration in session.execute(query.where(_SEARCHED, link.trial_id.in_(ids))):
            changed[sweep].add(configuration)
    return changed


def _find_more_than_confirmed(session: Session, sweep: int) -> set[int]:
    """Find the configurations of a search that was to confirm all, and has tried more than that.

    A person has added one, or the budget was lowered. Then values choose, and the sweep says so.
    """
    record = session.get_one(tables.SweepRecord, sweep)
    if not record.confirms_all:
        return set()
    tried = set(session.scalars(select_tried(sweep, _SEARCHED)))
    if len(tried) <= stored_confirmed(record.spec):
        return set()
    record.confirms_all = False
    session.flush()
    return tried


_SEARCHED = tables.SweepTrialRecord.role != "confirm"


def select_tried(sweep: int, *conditions: Any) -> Select[int]:
    """Select the configurations of a sweep's trials that match all conditions, by id."""
    query = select(tables.TrialRecord.configuration_id).join(tables.TrialRecord.links).distinct()
    return query.where(tables.SweepTrialRecord.sweep_id == sweep, *conditions)


def _select_compared(sweep: int) -> Select[int]:
    """Select the configurations of which a search has a value to compare."""
    compared = tables.AttemptRecord.state.in_(RIVALS)
    return select_tried(sweep, _SEARCHED, compared).join(tables.TrialRecord.shown)


def write_points(session: Session) -> None:
    """Write the pending dev points, so that a query finds them."""
    rows = session.info[PendingWrites].points
    insert_rows(session, tables.DevPointRecord, ("attempt_id", "step"), rows)
    rows.clear()
