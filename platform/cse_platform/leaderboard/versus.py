"""One row against another, or all against all: whether what they show is more than luck."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreError
from cse_platform.leaderboard.compared import common_seeds, contenders
from cse_platform.leaderboard.evaluation_models import EvaluationRecord
from cse_platform.leaderboard.references import tasks_of_both
from cse_platform.leaderboard.row import FamilyName, LeaderboardRow
from cse_platform.leaderboard.statistics.compare import compare, compare_all
from cse_platform.leaderboard.statistics.contenders import Contender
from cse_platform.leaderboard.statistics.results import Comparison, Matrix

RESAMPLES = 10_000

Progress = Callable[[int, int], None]
"""Told how many correlations were computed since the last time, and how many there are."""


def versus(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
) -> Comparison:
    """The first row against the second, on the tasks that both have.

    Args:
        session: of the leaderboard that the rows are of.
        rows: two, by name.
        family: of the tasks.
        resamples: of pairs and seeds.
        progress: of the resampling.

    Raises:
        StoreError: if they have no task in common, or were scored on other data or by another
            protocol.
    """
    tasks, average = _tasks(rows, family)
    notes = list(_readings(session, rows, tasks))
    a, b = contenders(session, rows, tasks)
    step = _stepping(progress, (a, b), tasks, resamples)
    found = compare(a, b, tasks=tasks, average=average, resamples=resamples, progress=step)
    return replace(found, notes=(*found.notes, *notes))


def everyone(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
) -> Matrix:
    """Every row against every other, on the mean over the tasks that all have; as `versus`.

    Args:
        session: of the leaderboard that the rows are of.
        rows: at least two, by name.
        family: of the tasks.
        resamples: of pairs and seeds.
        progress: of the resampling.

    Raises:
        StoreError: as in `versus`, or if there are fewer than two rows.
    """
    if len(rows) < 2:
        raise StoreError(
            f"a comparison takes two rows with test scores of {family}, got {len(rows)}"
        )
    tasks, _ = _tasks(rows, family)
    notes = list(_readings(session, rows, tasks))
    compared = contenders(session, rows, tasks)
    step = _stepping(progress, compared, tasks, resamples)
    found = compare_all(compared, tasks=tasks, resamples=resamples, progress=step)
    return replace(found, notes=(*found.notes, *notes))


def _tasks(rows: Mapping[str, LeaderboardRow], family: FamilyName) -> tuple[list[str], str | None]:
    tasks, average = tasks_of_both(rows, family)
    if not tasks:
        raise StoreError(f"{' and '.join(rows)} share no task of {family} that they are scored on")
    for name, row in rows.items():
        if not common_seeds(row, tasks):
            raise StoreError(f"no seed of {name} is scored on all of {', '.join(tasks)}")
    return tasks, average


def _stepping(
    progress: Progress | None, compared: Sequence[Contender], tasks: Sequence[str], resamples: int
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    total = resamples * sum(one.seeds * len(one.cosines) for one in compared)
    return lambda done: progress(done, total)


def _readings(
    session: Session, rows: Mapping[str, LeaderboardRow], tasks: Sequence[str]
) -> Iterator[str]:
    """How encoders that are compared read their texts, where that is not alike."""
    query = select(EvaluationRecord.identity, EvaluationRecord.settings)
    names = {row.scores[task].identity for row in rows.values() for task in tasks}
    stored = query.where(EvaluationRecord.identity.in_(sorted(names)))
    told = {one.identity: one.settings for one in session.execute(stored)}
    said: set[str] = set()
    for (a, mine), (b, other) in combinations(rows.items(), 2):
        for task in tasks:
            ids = (mine.scores[task].identity, other.scores[task].identity)
            if ids[0] != ids[1]:
                said.add(_difference(a, b, task, *(told.get(one) for one in ids)))
    yield from sorted(said)


def _difference(
    a: str, b: str, task: str, mine: dict[str, Any] | None, other: dict[str, Any] | None
) -> str:
    """Only how texts are read may differ: that is part of an encoder."""
    if mine is None or other is None:
        raise StoreError(
            f"{a} and {b} have other evaluation identities on {task}, and of one it is not known "
            "what it stands for; score both with cse-evaluate"
        )
    for name in ("data_sha256", "protocol"):
        if mine.get(name) != other.get(name):
            what = "other data" if name == "data_sha256" else "another protocol"
            raise StoreError(
                f"{a} and {b} were scored on {task} with {what}; score both alike with cse-evaluate"
            )
    theirs = other.get("reading", {})
    parts = [
        f"{name} {value} against {theirs.get(name)}"
        for name, value in mine.get("reading", {}).items()
        if value != theirs.get(name)
    ]
    return f"{a} and {b} read their texts unlike each other: {', '.join(parts)}"
