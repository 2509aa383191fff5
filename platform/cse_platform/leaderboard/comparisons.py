"""Compares rows on test sets or on dev, and tests whether a difference is significant."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from cse_methods.data.shared_sentences import Groups
from cse_methods.errors import CseError
from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.families import (
    BoardFamily,
    FamilyName,
    families_beside,
    family_named,
    is_clean,
    task_of,
)
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.ranking import build_contenders, common_seeds
from cse_platform.leaderboard.records import LeaderboardRow, mean_change
from cse_platform.leaderboard.row_names import find_row, find_row_beside, name_pair, named_rows
from cse_platform.leaderboard.seed_scores import read_evaluations
from cse_platform.leaderboard.statistics.compare import (
    AllRows,
    ComparedRow,
    Comparison,
    Matrix,
    ReadingDifference,
    SharedConfiguration,
    compare,
    compare_all,
    join_comparisons,
)
from cse_platform.leaderboard.statistics.intervals import RESAMPLES, Contender
from cse_platform.leaderboard.statistics.resampling import Progress
from cse_platform.numbers import HASH_DIGITS
from cse_platform.stores.sql.tables import EvaluationRecord
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.values import group_by

SAME_SCORE = 0.005
"""Tolerance between the dev score of a kept model and that of its trial: scores computed on
different machines differ in the last digits.
"""

_ALIKE = "name rows by sweep or METHOD@CONFIGURATION, or score both alike with cse-evaluate"
COMPARED = {
    "unchecked": "data that are not known to be the same; compare recorded rows with those of "
    "their sweep and imported rows with imported ones: import both, or score both models with "
    "cse-evaluate",
    "data_sha256": f"other data; {_ALIKE}",
    "protocol": f"another protocol; {_ALIKE}",
}
"""What two scores must share, and how to call it, and what to do, if they do not."""


class DevPairs(NamedTuple):
    """The pairs of a dev set: gold scores, cosines of a trial's kept model, and groups."""

    gold: NDArray[np.float64]
    cosines: NDArray[np.float32]
    groups: Groups | None = None
    """The groups of pairs that share a sentence."""


PairsOf = Callable[[str], DevPairs]
"""Returns the dev pairs by a trial's key; raises CseError if its model or its dev data is gone."""


def shared_tasks(
    rows: Mapping[str, LeaderboardRow], family: FamilyName
) -> tuple[list[str], str | None]:
    """Find the tasks that all rows have a score on, and the average over exactly these.

    The average is None if there is none; ranking has two averages, one per metric, so its is None
    too. Rows that have averages alone, as a spreadsheet does, share these instead of tasks.
    """
    known = family_named(family, rows.values())
    single = [column for column in known.columns if column not in known.averages]
    shared = [task for task in single if all(task in row.scores for row in rows.values())]
    shared = shared or [a for a in known.averages if all(a in row.scores for row in rows.values())]
    whole = len(known.averages) == 1 and shared == list(known.columns_of(known.averages[0]))
    return shared, known.averages[0] if whole else None


def compare_named(
    session: Session,
    a: str | tuple[str, LeaderboardRow],
    b: str | tuple[str, LeaderboardRow],
    filters: Filters = EVERY_ROW,
    *,
    tasks: FamilyName = "sts",
    progress: Progress | None = None,
) -> Comparison:
    """Compare A with B: how much better it is, and how sure that is.

    Each is a name, or a name and its row, as `row` returns them. Raises QueryError if a name
    does not mean exactly one row, or the two cannot be compared.
    """
    named = [row for row in (a, b) if isinstance(row, str)]
    find = partial(find_row_beside, beside=named, filters=filters, tasks=tasks, scored=True)
    rows = [find(session, row) if isinstance(row, str) else row for row in (a, b)]
    return compare_rows(session, name_pair(rows), family=tasks, progress=progress)


def summarize_row(
    row: LeaderboardRow,
    name: str = "",
    tasks: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
) -> ComparedRow:
    """Return what tells a row from others, with the seeds that are compared; by default all.

    It says which seeds that count lack a score on one of `tasks`.
    """
    compared = row.seeds if seeds is None else seeds
    scored = {seed: [t for t in tasks if seed in row.scores[t].values] for seed in row.seeds}
    lacking = {
        seed: tuple(task for task in tasks if known and task not in known)
        for seed, known in scored.items()
        if len(known) < len(tasks)
    }
    return ComparedRow(
        name=name,
        reference=row.reference,
        marks=row.seen_on(tasks).marks,
        backbone=row.backbone,
        dev_search=row.dev.search,
        dev_source=row.dev.source,
        seeds=tuple(compared),
        unscored_seeds=lacking,
        chosen_by=row.chosen_by,
    )


def compare_rows(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the first row with the second, on the tasks that both have.

    Each task is compared over the seeds that count in its score, and the average over those that
    count in all, as the leaderboard counts them. Raises ComparisonError if the rows have no task in
    common, or other data or protocols.
    """
    tasks, average = shared_tasks(rows, family)
    _refuse_disjoint_rows(rows, tasks, family)
    scored = (row.scores[task].identity for row in rows.values() for task in tasks)
    readings = _compare_readings(read_evaluations(session, scored), rows, tasks)

    def compare_on(tasks: Sequence[str], average: str | None) -> Comparison:
        a, b = build_contenders(session, rows, tasks)
        resamples = RESAMPLES["comparison"]
        return compare(a, b, tasks=tasks, average=average, resamples=resamples, progress=progress)

    def seeds_on(task: str) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(common_seeds(row, [task])) for row in rows.values())

    groups = [*group_by(tasks, seeds_on).values()]
    parts = [compare_on(group, average if group == tasks else None) for group in groups]
    if average and len(groups) > 1 and all(common_seeds(row, tasks) for row in rows.values()):
        parts.append(compare_on(tasks, average))
    comparison = join_comparisons(parts, tasks)
    column, on_all_rows = average or tasks[0], None
    whole = task_of(column)
    if is_clean(column) and all(whole in row.scores for row in rows.values()):
        ours, theirs = (mean_change(row.scores[column], row.scores[whole]) for row in rows.values())
        change = None if ours is None or theirs is None else ours - theirs
        mine, other = (row.scores[whole].mean for row in rows.values())
        on_all_rows = AllRows(whole, mine - other, change)
    seeds = [
        sorted({seed for task in tasks for seed in common_seeds(row, [task])})
        for row in rows.values()
    ]
    return _add_rows(comparison, rows, tasks, seeds, readings=tuple(readings), all_rows=on_all_rows)


_Compared = TypeVar("_Compared", Comparison, Matrix)


def _add_rows(
    compared: _Compared,
    rows: Mapping[str, LeaderboardRow],
    tasks: Sequence[str],
    seeds: Sequence[Sequence[int]],
    **limits: Any,
) -> _Compared:
    """Add the rows that are compared, and the limits that lie in them."""
    chosen = [
        name
        for name, row in rows.items()
        if any(row.counts_choice_in(row.scores[t]) for t in tasks)
    ]
    sides = (
        summarize_row(row, name, tasks, of_row)
        for (name, row), of_row in zip(rows.items(), seeds, strict=True)
    )
    opened = tuple(name for name, row in rows.items() if row.test_opened)
    limits |= {"chosen": tuple(chosen), "opened": opened, **_compare_training(rows)}
    limits["one_configuration"] = _find_shared_configurations(rows, tasks, seeds)
    return replace(compared, limits=replace(compared.limits, **limits), rows=tuple(sides))


def _find_shared_configurations(
    rows: Mapping[str, LeaderboardRow], tasks: Sequence[str], seeds: Sequence[Sequence[int]]
) -> tuple[SharedConfiguration, ...]:
    """Find the rows that are one configuration, scored alike on the tasks."""
    keys = {
        name: {row.keys[seed] for seed in of_row}
        for (name, row), of_row in zip(rows.items(), seeds, strict=True)
    }
    return tuple(
        SharedConfiguration(a, b, len(keys[a] & keys[b]))
        for (a, one), (b, other) in combinations(rows.items(), 2)
        if one.configuration == other.configuration
        and all(one.scores[task].identity == other.scores[task].identity for task in tasks)
    )


def _compare_training(rows: Mapping[str, LeaderboardRow]) -> dict[str, Any]:
    """Find the limits of a comparison that lie in the code, corpora and settings of its rows."""
    codes = {row.configuration.code for row in rows.values()}
    one_method = len({row.method for row in rows.values()}) == 1
    return {
        "fixed": _find_fixed_differences(rows),
        "corpora": _find_corpora(rows),
        "other_code": tuple(name for name, row in rows.items() if row.other_code),
        "mixes_code": one_method and None not in codes and len(codes) > 1,
    }


def _find_corpora(rows: Mapping[str, LeaderboardRow]) -> dict[str, str]:
    """Find the corpora of rows that were trained here, by name; none if all are one.

    Corpora are one if their sentences are, or, where the hash of some is unknown, their names.
    """
    trained = {
        name: row
        for name, row in rows.items()
        if row.dev.source not in UNCHECKED_DATA and not row.released
    }
    known = {name: row.configuration.corpus_sha256 for name, row in trained.items()}
    contents = {known[name] if all(known.values()) else row.corpus for name, row in trained.items()}
    if len(contents) < 2:
        return {}
    shown = {name: row.shown_corpus for name, row in trained.items()}
    if len({*shown.values()}) >= len(contents):
        return shown
    return {
        name: f"{row.corpus} ({(known[name] or '')[:HASH_DIGITS]})" for name, row in trained.items()
    }


def _find_fixed_differences(rows: Mapping[str, LeaderboardRow]) -> dict[str, dict[str, Any]]:
    """Find the settings that differ and that not every row has searched, by row and name."""
    searched = set.intersection(*({*row.configuration.searched} for row in rows.values()))
    values = {name: row.configuration.compared_values for name, row in rows.items()}
    of_setting = group_by(
        ((s, v) for known in values.values() for s, v in known.items()), itemgetter(0)
    )
    differ = [
        setting
        for setting, given in of_setting.items()
        if setting not in searched and any(one != other for one, other in pairwise(given))
    ]
    fixed = {name: {s: known[s] for s in differ if s in known} for name, known in values.items()}
    return {name: known for name, known in fixed.items() if known}


def compare_against(
    session: Session,
    rows: Sequence[LeaderboardRow],
    reference: str,
    filters: Filters = EVERY_ROW,
    *,
    tasks: FamilyName = "sts",
) -> dict[int, Comparison]:
    """Compare each row with one reference row. Returns comparisons by the index in `rows`.

    The reference row itself, rows without test scores, and those that cannot be compared with
    it are left out.
    """
    comparisons = {}
    name, other = find_row(session, reference, filters, tasks=tasks, scored=True)
    for index, row in enumerate(rows):
        if row.configuration != other.configuration and row.scores:
            with suppress(ComparisonError):  # scored on other data: it gets no mark
                pair = {f"row {index}": row, name: other}
                comparisons[index] = compare_rows(session, pair, family=tasks)
    return comparisons


def compare_every_row(
    session: Session,
    filters: Filters = EVERY_ROW,
    *,
    tasks: FamilyName = "sts",
    per_configuration: bool = False,
    progress: Progress | None = None,
) -> Matrix:
    """Compare every row with test scores with every other, on the mean over their tasks.

    Only the largest group of rows that share tasks and data is compared; `limits` names the
    others. Rows with the family's average come first. Of ranking tasks, only those of the first
    metric are compared. With `per_configuration`, all configurations are compared and not only the
    best of each group. Raises ComparisonError without two such rows.
    """
    families = families_beside(tasks)
    candidates = board_rows(
        session, filters, families=families, per_configuration=per_configuration
    )
    rows = named_rows([row for row in candidates if row.scores])
    columns = family_named(tasks, rows.values())
    headline = next(iter(columns.averages), None)
    scored = read_evaluations(
        session, (score.identity for row in rows.values() for score in row.scores.values())
    )
    kept, shared = _find_largest_group(rows, columns, scored)
    if len(kept) < 2:
        hint = f"; there is {next(iter(rows), 'none')}"
        hint += "; --all has every configuration" * bool(rows and not per_configuration)
        if len(rows) > 1:
            hint = f" on the same tasks and data; {', '.join(rows)} have different ones"
            hint += "; select others with --identity, or name two as METHOD@CONFIGURATION"
        raise ComparisonError(f"a comparison needs two rows with test scores of {tasks}{hint}")
    _refuse_disjoint_rows(kept, shared, tasks)
    for name, row in kept.items():
        if not common_seeds(row, shared):
            raise ComparisonError(f"no seed of {name} is scored on all of {', '.join(shared)}")
    (first, best), *others = kept.items()
    readings = list[ReadingDifference]()
    for name, row in others:
        readings += _compare_readings(scored, {first: best, name: row}, shared)
    contenders = build_contenders(session, kept, shared)
    is_whole = headline is not None and {*shared} == {*columns.columns_of(headline)}
    matrix = compare_all(
        contenders,
        tasks=shared,
        average=headline if is_whole else None,
        resamples=RESAMPLES["comparison"],
        progress=progress,
    )
    left_out = tuple(name for name in rows if name not in kept)
    seeds = [common_seeds(row, shared) for row in kept.values()]
    return _add_rows(matrix, kept, shared, seeds, readings=tuple(readings), left_out=left_out)


def _find_largest_group(
    rows: Mapping[str, LeaderboardRow],
    columns: BoardFamily,
    evaluations: Mapping[str, EvaluationRecord],
) -> tuple[dict[str, LeaderboardRow], list[str]]:
    """Find the most rows that share tasks and data, and these tasks.

    Among equals, data that is known comes first, then the first row. They share all tasks of the
    family's first average if two rows do, else any task.
    """
    headline = next(iter(columns.averages), None)
    tasks = columns.columns_of(headline) if headline else columns.columns
    if headline and not any(task in row.scores for row in rows.values() for task in tasks):
        tasks = (headline,)  # rows that have the average alone
    data = {
        name: {
            task: json.dumps(_read_data(row, task, evaluations), sort_keys=True)
            for task in tasks
            if task in row.scores
        }
        for name, row in rows.items()
    }
    with_average = [name for name, row in rows.items() if headline in row.scores and data[name]]
    groups = [*group_by(with_average, lambda name: tuple(data[name].items())).values()]
    if not any(len(group) > 1 for group in groups):
        scored = [(name, pair) for name in rows for pair in data[name].items()]
        pairs = group_by(scored, itemgetter(1)).values()
        groups = [[name for name, _ in group] for group in pairs]

    def is_known(name: str) -> bool:
        return UNCHECKED_DATA.isdisjoint(score.source for score in rows[name].scores.values())

    kept = max(groups, key=lambda group: (len(group), is_known(group[0])), default=[])
    shared = [
        task
        for task in tasks
        if kept and task in data[kept[0]] and len({data[name].get(task) for name in kept}) == 1
    ]
    return {name: rows[name] for name in kept}, shared


def _read_data(
    row: LeaderboardRow, task: str, evaluations: Mapping[str, EvaluationRecord]
) -> dict[str, Any]:
    """Return what a score must share with another to be compared with it, named as in `COMPARED`.

    Data without a checksum are known by the evaluation identity alone.
    """
    score = row.scores[task]
    known = evaluations.get(score.identity)
    if known is None or "data_sha256" not in known.settings:
        return {"unchecked": score.identity}
    return {name: known.settings[name] for name in COMPARED if name in known.settings}


def _refuse_disjoint_rows(
    rows: Mapping[str, LeaderboardRow], tasks: Sequence[str], family: FamilyName
) -> None:
    if not tasks:
        raise ComparisonError(
            f"{' and '.join(rows)} have no scored task of {family} in common"
            + "; `cse-evaluate TRIAL --tasks sts` computes clean scores of a trial"
            * (family == "clean")
        )


def _compare_readings(
    evaluations: Mapping[str, EvaluationRecord],
    rows: Mapping[str, LeaderboardRow],
    tasks: Sequence[str],
) -> list[ReadingDifference]:
    """Find how two encoders read their texts differently; without repetitions.

    Only the reading may differ, because it is part of an encoder; other differences raise
    ComparisonError.
    """
    a, b = rows
    readings = list[ReadingDifference]()
    for task in tasks:
        left, right = (_read_data(row, task, evaluations) for row in rows.values())
        for name, reason in COMPARED.items():
            if left.get(name) != right.get(name):
                if is_clean(task) and name == "protocol":
                    reason = (
                        "other clean rows, which follow from the dev sets that chose them; compare "
                        "them on all rows: --tasks sts"
                    )
                raise ComparisonError(f"{a} and {b} were scored on {task} with {reason}")
        if "unchecked" in left:
            continue
        ours, theirs = (
            evaluations[row.scores[task].identity].settings.get("reading", {})
            for row in rows.values()
        )
        values = {
            name: (ours.get(name), theirs.get(name))
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        }
        if values and (reading := ReadingDifference(a, b, values)) not in readings:
            readings.append(reading)
    return readings


def compare_dev_rows(
    rows: Mapping[str, LeaderboardRow], pairs_of: PairsOf, *, progress: Progress | None = None
) -> Comparison:
    """Compare the first row with the second on their dev set; see `Leaderboard.compare_on_dev`."""
    (a, first), (b, second) = rows.items()
    if first.dev.identity != second.dev.identity:
        sets = (
            f"{dev.search} ({dev.source}, identity {dev.identity[:HASH_DIGITS]})"
            for dev in (first.dev, second.dev)
        )
        sources = {first.dev.source, second.dev.source}
        if sources & UNCHECKED_DATA and first.dev.search == second.dev.search:
            raise ComparisonError(
                f"{a} and {b} were judged on dev sets that are not known to be the same: "
                f"{' and '.join(sets)}; "
                + (
                    "import the scores of both under one sweep"
                    if sources <= UNCHECKED_DATA
                    else "only rows of one source are compared on dev"
                )
            )
        way_out = "; select rows with --identity, or run one of them on the dev sets of the other"
        if sources & UNCHECKED_DATA:
            way_out = ", so no comparison on dev is possible"
        raise ComparisonError(
            f"{a} and {b} were judged on different dev sets: {' and '.join(sets)}{way_out}"
        )
    task, contenders, without_pairs = f"dev {first.dev.search}", list[Contender](), {}
    for name, row in rows.items():
        scores = {task: [row.dev_score.values[seed] for seed in row.seeds]}
        design = row.method, row.backbone, tuple(row.seeds)
        contender = Contender(name, scores, design=design)
        try:
            contenders.append(_add_dev_pairs(contender, row, task, pairs_of))
        except CseError as problem:
            without_pairs[name] = str(problem)
            contenders.append(contender)
    comparison = compare(
        *contenders,
        tasks=[task],
        average=None,
        resamples=RESAMPLES["comparison"],
        progress=progress,
    )
    chosen = tuple(name for name, row in rows.items() if row.counts_choice_in(row.dev_score))
    shared = _find_shared_configurations(rows, (), [row.seeds for row in rows.values()])
    limits = replace(
        comparison.limits,
        chosen=chosen,
        one_configuration=shared,
        without_pairs=without_pairs,
        **_compare_training(rows),
    )
    sides = tuple(summarize_row(row, name) for name, row in rows.items())
    return replace(comparison, limits=limits, rows=sides)


def _add_dev_pairs(
    contender: Contender, row: LeaderboardRow, task: str, pairs_of: PairsOf
) -> Contender:
    """Add the cosines of a row's kept models on the pairs of its dev set.

    Raises CseError if there are none, or a kept model does not score on them as its trial did.
    """
    from cse_methods.metrics import spearman  # torch: a second

    pairs_by_seed = list[DevPairs]()
    for seed in row.seeds:
        pairs = pairs_of(row.keys[seed])
        recorded, score = row.dev_score.values[seed], spearman(pairs.cosines, pairs.gold)
        if not abs(score - recorded) <= SAME_SCORE:
            raise ComparisonError(
                f"the kept model of trial {row.keys[seed][:16]} scores {score:.4f} on dev "
                f"{row.dev.search} here, but {recorded:.4f} was recorded"
            )
        pairs_by_seed.append(pairs)
    cosines: NDArray[Any] = np.stack([pairs.cosines for pairs in pairs_by_seed])
    groups = {} if pairs.groups is None else {task: pairs.groups}
    return replace(contender, values={task: cosines}, gold={task: pairs.gold}, groups=groups)
