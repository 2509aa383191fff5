"""Compares rows on test sets or on dev, and tests whether a difference is significant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_methods.data.shared_sentences import Groups
from cse_methods.errors import CseError
from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.ranking import Progress, build_contenders, common_seeds
from cse_platform.leaderboard.records import (
    FamilyName,
    LeaderboardRow,
    family_named,
    is_clean,
    task_of,
)
from cse_platform.leaderboard.references import describe_row, shared_tasks
from cse_platform.leaderboard.statistics.compare import compare, compare_all
from cse_platform.leaderboard.statistics.contenders import Contender
from cse_platform.leaderboard.statistics.results import Comparison, Matrix
from cse_platform.render.formats import signed_percent
from cse_platform.stores.sql.tables import EvaluationRecord

_RESAMPLES = 10_000


def compare_rows(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the first row with the second, on the tasks that both have.

    Raises:
        ComparisonError: if they have no task in common, or were scored on different data or by
            different protocols.
    """
    tasks, average = shared_tasks(rows, family)
    _refuse_disjoint_rows(rows, tasks, family)
    notes = _collect_reading_notes(_read_settings(session, rows, tasks), rows, tasks)
    notes |= set(_describe_clean_change(rows, average or tasks[0]))
    a, b = build_contenders(session, rows, tasks)
    notes |= _note_unknown_groups([a, b])
    return compare_contenders(
        rows,
        (a, b),
        tasks=tasks,
        average=average,
        seeds={name: common_seeds(row, tasks) for name, row in rows.items()},
        notes=sorted(notes),
        progress=progress,
    )


def _describe_clean_change(rows: Mapping[str, LeaderboardRow], column: str) -> Iterator[str]:
    """Describe how much the difference of two rows changes if only clean rows are scored."""
    whole = task_of(column)
    if is_clean(column) and all(whole in row.scores for row in rows.values()):
        (a, first), (b, second) = rows.items()
        kept, all_rows = (
            first.scores[score].mean - second.scores[score].mean for score in (column, whole)
        )
        yield (
            f"on all rows, the papers' protocol, {a} - {b} is {signed_percent(all_rows)} on "
            f"{whole}: clean rows change it by {signed_percent(kept - all_rows)}"
        )


def compare_contenders(
    rows: Mapping[str, LeaderboardRow],
    compared: tuple[Contender, Contender],
    *,
    tasks: Sequence[str],
    average: str | None,
    seeds: Mapping[str, Sequence[int]],
    notes: Sequence[str],
    progress: Progress | None,
) -> Comparison:
    """Compare two contenders, and describe both rows with the `seeds` that were compared."""
    a, b = compared
    step = _make_progress_step(progress, compared)
    comparison = compare(a, b, tasks=tasks, average=average, resamples=_RESAMPLES, progress=step)
    lines = tuple(
        f"{side}: {describe_row(row, seeds[name])}"
        for side, (name, row) in zip("AB", rows.items(), strict=True)
    )
    return replace(comparison, notes=(*comparison.notes, *notes), told=lines)


def compare_all_rows(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    progress: Progress | None = None,
) -> Matrix:
    """Compare every row with every other, on the mean over the tasks that all have scores on.

    A row is left out, and a note names it, if it lacks the family's average and others have it, or
    if it cannot be compared with the first of the others; so `rows` should begin with the most
    important. Of a family of ranking tasks, only those of the first metric are compared.

    Raises:
        ComparisonError: if there are fewer than two rows that can be compared.
    """
    columns = family_named(family, rows.values())
    headline = next(iter(columns.averages), None)
    whole = {n: row for n, row in rows.items() if headline in row.scores}
    kept = whole if len(whole) > 1 else dict(rows)
    tasks = [
        task
        for task in (columns.over(headline) if headline else columns.columns)
        if all(task in r.scores for r in kept.values())
    ]
    settings = _read_settings(session, kept, tasks)
    first = next(iter(kept), "")
    notes: set[str] = set()
    for name, row in list(kept.items())[1:]:
        try:
            notes |= _collect_reading_notes(settings, {first: kept[first], name: row}, tasks)
        except ComparisonError:
            del kept[name]
    if len(kept) < 2 or not tasks:
        raise ComparisonError(
            f"a comparison takes two rows with test scores of {family} on the same data, got "
            f"{len(kept)}"
        )
    _refuse_disjoint_rows(kept, tasks, family)
    if left_out := [name for name in rows if name not in kept]:
        notes.add(f"left out, scored on other tasks or data: {', '.join(left_out)}")
    compared = build_contenders(session, kept, tasks)
    notes |= _note_unknown_groups(compared)
    step = _make_progress_step(progress, compared)
    matrix = compare_all(compared, tasks=tasks, resamples=_RESAMPLES, progress=step)
    lines = tuple(
        f"{name}: {describe_row(row, common_seeds(row, tasks))}" for name, row in kept.items()
    )
    return replace(matrix, notes=(*matrix.notes, *sorted(notes)), tasks=tuple(tasks), told=lines)


def _refuse_disjoint_rows(
    rows: Mapping[str, LeaderboardRow], tasks: Sequence[str], family: FamilyName
) -> None:
    if not tasks:
        raise ComparisonError(
            f"{' and '.join(rows)} share no task of {family} that they are scored on"
            + _CLEAN * (family == "clean")
        )
    for name, row in rows.items():
        if not common_seeds(row, tasks):
            raise ComparisonError(f"no seed of {name} is scored on all of {', '.join(tasks)}")


_CLEAN = "; `cse-evaluate TRIAL --tasks sts` computes clean scores of a trial"


def _make_progress_step(
    progress: Progress | None, compared: Sequence[Contender]
) -> Callable[[int], None] | None:
    """Wrap `progress` in a function of the step alone, for a known total."""
    if progress is None:
        return None
    total = _RESAMPLES * sum(contender.seeds * len(contender.cosines) for contender in compared)
    return lambda done: progress(done, total)


def _note_unknown_groups(contenders: Sequence[Contender]) -> set[str]:
    """Note the tasks whose pairs are resampled one by one because their sentences are not known."""
    unknown = sorted({task for each in contenders for task in each.gold.keys() - each.groups})
    if not unknown:
        return set()
    return {
        f"which pairs of {', '.join(unknown)} share a sentence is not known: where many do, the "
        "intervals are too short"
    }


def _read_settings(
    session: Session, rows: Mapping[str, LeaderboardRow], tasks: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Read the evaluation settings of these scores, by identity."""
    names = {row.scores[task].identity for row in rows.values() for task in tasks}
    query = select(EvaluationRecord.identity, EvaluationRecord.settings)
    stored = query.where(EvaluationRecord.identity.in_(sorted(names)))
    return {evaluation.identity: evaluation.settings for evaluation in session.execute(stored)}


def _collect_reading_notes(
    settings: Mapping[str, dict[str, Any]], rows: Mapping[str, LeaderboardRow], tasks: Sequence[str]
) -> set[str]:
    """Note how two encoders read their texts differently; raise on any other difference."""
    (a, mine), (b, other) = rows.items()
    notes: set[str] = set()
    for task in tasks:
        ids = (mine.scores[task].identity, other.scores[task].identity)
        if ids[0] != ids[1]:
            notes.add(
                _describe_reading_difference(
                    a, b, task, *(settings.get(identity) for identity in ids)
                )
            )
    return notes


def _describe_reading_difference(
    a: str, b: str, task: str, mine: dict[str, Any] | None, other: dict[str, Any] | None
) -> str:
    """Describe how two encoders read their texts differently, such as in length or prompt.

    Only the reading may differ, because it is part of an encoder; other differences raise
    ComparisonError.
    """
    if mine is None or other is None:
        raise ComparisonError(
            f"{a} and {b} have other evaluation identities on {task}, and of one it is not known "
            "what it stands for; score both with cse-evaluate"
        )
    for name in ("data_sha256", "protocol"):
        if mine.get(name) != other.get(name):
            what = "other data" if name == "data_sha256" else "another protocol"
            raise ComparisonError(
                f"{a} and {b} were scored on {task} with {what}; narrow it down by backbone or "
                "identity, or score both alike with cse-evaluate"
            )
    ours, theirs = mine.get("reading", {}), other.get("reading", {})
    parts = [
        f"{name} {ours.get(name)} against {theirs.get(name)}"
        for name in ours | theirs
        if ours.get(name) != theirs.get(name)
    ]
    return f"{a} and {b} read their texts unlike each other: {', '.join(parts)}"


SAME_SCORE = 0.005
"""Tolerance between the dev score of a kept model and that of its trial: scores computed on
different machines differ in the last digits.
"""


class DevPairs(NamedTuple):
    """The pairs of a dev set: gold scores, cosines of a trial's kept model, and groups."""

    gold: NDArray[np.float64]
    cosines: NDArray[np.float32]
    groups: Groups | None = None
    """The groups of pairs that share a sentence."""


PairsOf = Callable[[str], DevPairs]
"""Returns the dev pairs by a trial's key; raises CseError if its model or its dev data is gone."""


def compare_dev_rows(
    rows: Mapping[str, LeaderboardRow], pairs_of: PairsOf, *, progress: Progress | None = None
) -> Comparison:
    """Compare the first row with the second on the dev set that both searches climb.

    If the pairs of a row are not available, or a kept model does not score as its trial did, the
    intervals are over seeds only, and a note says why.

    Raises:
        ComparisonError: if the rows have different dev sets.
    """
    (a, first), (b, second) = rows.items()
    if first.dev.identity != second.dev.identity:
        raise ComparisonError(
            f"{a} and {b} are judged by other dev sets: {_describe_dev_set(first)} and "
            f"{_describe_dev_set(second)}; narrow it down by --identity, or run one of them with "
            "the dev sets of the other"
        )
    task, notes = f"dev {first.dev.search}", list[str]()
    compared = [_make_dev_contender(name, row, task, pairs_of, notes) for name, row in rows.items()]
    return compare_contenders(
        rows,
        (compared[0], compared[1]),
        tasks=[task],
        average=None,
        seeds={name: row.seeds for name, row in rows.items()},
        notes=notes,
        progress=progress,
    )


def _make_dev_contender(
    name: str, row: LeaderboardRow, task: str, pairs_of: PairsOf, notes: list[str]
) -> Contender:
    """Build a contender on dev; without pairs it has scores only, and a note says why."""
    scores = {task: [row.dev_score.values[seed] for seed in row.seeds]}
    try:
        pairs_by_seed = [
            _check_dev_score(row, seed, pairs_of(row.keys[seed])) for seed in row.seeds
        ]
    except CseError as problem:
        notes.append(f"{name} is compared over its seeds only: {problem}")
        return Contender(name, scores)
    cosines: NDArray[Any] = np.stack([pairs.cosines for pairs in pairs_by_seed])
    pairs = pairs_by_seed[0]
    groups = {} if pairs.groups is None else {task: pairs.groups}
    return Contender(name, scores, {task: cosines}, {task: pairs.gold}, groups)


def _check_dev_score(row: LeaderboardRow, seed: int, pairs: DevPairs) -> DevPairs:
    """Return the pairs if the kept model scores on them as its trial did; else raise."""
    from cse_methods.metrics import spearman  # torch: a second

    recorded, score = row.dev_score.values[seed], spearman(pairs.cosines, pairs.gold)
    if not abs(score - recorded) <= SAME_SCORE:
        raise ComparisonError(
            f"the kept model of trial {row.keys[seed][:16]} scores {score:.4f} on dev "
            f"{row.dev.search} here, and {recorded:.4f} is on record"
        )
    return pairs


def _describe_dev_set(row: LeaderboardRow) -> str:
    return f"{row.dev.search} ({row.dev.source}, identity {row.dev.identity[:8]})"
