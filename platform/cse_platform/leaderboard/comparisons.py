"""Finds the rows that people name, compares rows on test sets or on dev, and tests whether a
difference is significant.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_methods.data.shared_sentences import Groups
from cse_methods.errors import CseError
from cse_platform.errors import AmbiguousError, ComparisonError, NotFoundError
from cse_platform.leaderboard.board import board_rows, read_evaluations
from cse_platform.leaderboard.ranking import build_contenders, common_seeds
from cse_platform.leaderboard.records import (
    EVERY_ROW,
    FamilyName,
    Filters,
    LeaderboardRow,
    families_beside,
    family_named,
    is_clean,
    mean_change,
    single_seed,
    task_of,
)
from cse_platform.leaderboard.statistics.compare import Comparison, Matrix, compare, compare_all
from cse_platform.leaderboard.statistics.intervals import (
    RESAMPLES,
    Contender,
    Progress,
    TrainingDesign,
)
from cse_platform.leaderboard.trials import NAMES, find_trial, is_trial_reference
from cse_platform.numbers import HASH_DIGITS, percent, signed_percent
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    EvaluationRecord,
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
    sweep_or_none,
)

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


class ComparisonQueries:
    """What a `Leaderboard` answers about the names of rows and filters, and differences of rows.

    A method or a sweep stands for its best configuration on dev; for a trial, the row holds only
    its seed. `filters` narrow down the candidates, of which those with test scores of the family
    `tasks` are preferred.

    The differences are those of the test scores of a family, `tasks`. `progress` is called with the
    progress of the resampling. QueryError is raised if a name does not mean exactly one row, or
    rows cannot be compared.
    """

    _store: Store

    def row(
        self,
        reference: str,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName | None = "sts",
        scored: bool = False,
    ) -> tuple[str, LeaderboardRow]:
        """Find the one row that a reference names, and a name for it.

        Without a family `tasks`, it has no test scores, and covers all evaluations; `scored`
        refuses a row that has none. Raises NotFoundError if there is no such row, AmbiguousError if
        there are several.
        """
        name, rows = self.candidates(reference, filters, tasks=tasks)
        if not rows:
            raise NotFoundError(
                f"{reference!r} is not a complete configuration that matches the filters; "
                "cse-leaderboard --all lists them"
            )
        if scored and not rows[0].scores:  # then no row has any
            raise NotFoundError(
                f"{reference!r} has no test scores of {tasks}; add them with `evaluate:` in its "
                "sweep file or cse-evaluate on its trials, or choose others with --tasks"
            )
        if len(rows) > 1:
            identities = (next((s.identity for s in row.scores.values()), "") for row in rows)
            listed = "; ".join(
                describe_row(row) + (f", evaluation {identity[:HASH_DIGITS]}" if identity else "")
                for row, identity in zip(rows, identities, strict=True)
            )
            raise AmbiguousError(
                f"{reference!r} matches several rows: {listed}; choose one with --backbone, "
                "--identity or METHOD@CONFIGURATION"
            )
        return name, rows[0]

    def candidates(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName | None = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Rows without test scores are dropped if others have some. Raises NotFoundError if there is
        no such method, configuration or trial, AmbiguousError if several keys start with it.
        """
        families = () if tasks is None else families_beside(tasks)
        method, at, configuration = reference.partition("@")
        if at and not configuration:
            raise NotFoundError(f"{reference!r} lacks a configuration: write METHOD@CONFIGURATION")
        with self._store.session() as session:
            read = partial(board_rows, session, families=families)
            every = partial(read, per_configuration=True)
            methods = sorted(session.scalars(select(GroupRecord.method).distinct()))
            name = reference
            if at:
                rows = every(replace(filters, method=method, configuration=configuration))
                name = f"{method}@{configuration[:HASH_DIGITS]}"
            elif sweep_or_none(session, reference) is not None:
                rows = read(replace(filters, sweep=reference))
            elif method in methods:
                rows = read(replace(filters, method=method))
            elif is_trial_reference(reference):
                trial = find_trial(session, reference)
                held = every(replace(filters, configuration=trial.configuration))
                rows = [single_seed(row, trial.seed) for row in held if trial.seed in row.keys]
                name = reference if "#" in reference else reference[:HASH_DIGITS]
            else:
                raise NotFoundError(
                    f"{reference!r} is not a method of this leaderboard; name one of "
                    f"{', '.join(methods) or 'none'}, {NAMES}"
                )
        return name, [row for row in rows if row.scores] or rows

    def catalogue(self) -> dict[str, list[str]]:
        """The values that filters take: the known methods, backbones, sweeps, tags and hardware."""
        with self._store.session() as session:

            def values(column: InstrumentedAttribute[str], *which: ColumnElement[bool]) -> set[str]:
                return {*session.scalars(select(column).where(*which).distinct())}

            written = AnnotationRecord
            tags = values(written.word, written.field == "tag", written.stands.is_(True))
            known = {
                "backbones": values(GroupRecord.backbone),
                "methods": values(GroupRecord.method),
                "sweeps": values(SweepRecord.name),
                "tags": values(SweepTagRecord.tag) | tags,
                "hardware": values(MachineRecord.hardware),
            }
            return {name: sorted(found) for name, found in known.items()}

    def compare(
        self,
        a: str | tuple[str, LeaderboardRow],
        b: str | tuple[str, LeaderboardRow],
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
        progress: Progress | None = None,
    ) -> Comparison:
        """Compare A with B: how much better it is, and how sure that is.

        Each is a name, or a name and its row, as `row` returns them.
        """
        with self._store.sharing() as session:
            rows = [
                self.row(row, filters, tasks=tasks, scored=True) if isinstance(row, str) else row
                for row in (a, b)
            ]
            return compare_rows(session, _name_pair(rows), family=tasks, progress=progress)

    def compare_on_dev(
        self,
        a: str,
        b: str,
        pairs_of: PairsOf,
        filters: Filters = EVERY_ROW,
        *,
        progress: Progress | None = None,
    ) -> Comparison:
        """Compare A with B on the dev set that both searches climb; opens no test set.

        `pairs_of` returns the dev pairs with the cosines of a trial's kept model, by the trial's
        key; `cse_platform.export` has one. If it has none for a row, or a kept model does not score
        as its trial did, the intervals are over seeds only, and a note says why.
        """
        with self._store.sharing():
            rows = _name_pair([self.row(name, filters, tasks=None) for name in (a, b)])
        (a, first), (b, second) = rows.items()
        if first.dev.identity != second.dev.identity:
            sets = (
                f"{dev.search} ({dev.source}, identity {dev.identity[:HASH_DIGITS]})"
                for dev in (first.dev, second.dev)
            )
            raise ComparisonError(
                f"{a} and {b} were judged on different dev sets: {' and '.join(sets)}; select "
                "rows with --identity, or run one of them on the dev sets of the other"
            )
        task, notes = f"dev {first.dev.search}", list[str]()
        left, right = (_make_dev_contender(*named, task, pairs_of, notes) for named in rows.items())
        comparison = compare(
            left,
            right,
            tasks=[task],
            average=None,
            resamples=RESAMPLES["comparison"],
            progress=progress,
        )
        seeds = {name: row.seeds for name, row in rows.items()}
        notes += sorted(_note_choices(rows, []))
        return _describe_compared(comparison, rows, seeds, notes)

    def compare_all(
        self,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
        per_configuration: bool = False,
        progress: Progress | None = None,
    ) -> Matrix:
        """Compare every row with test scores with every other, on the mean over their tasks.

        A row is left out, and a note names it, if it lacks the family's average and others have it,
        or if it cannot be compared with the first of the others. Of ranking tasks, only those of
        the first metric are compared. With `per_configuration`, all configurations are compared and
        not only the best of each group.
        """
        with self._store.session() as session:
            candidates = board_rows(
                session,
                filters,
                families=families_beside(tasks),
                per_configuration=per_configuration,
            )
            rows = named_rows([row for row in candidates if row.scores])
            columns = family_named(tasks, rows.values())
            headline = next(iter(columns.averages), None)
            whole = {n: row for n, row in rows.items() if headline in row.scores}
            kept = whole if len(whole) > 1 else dict(rows)
            on = [
                task
                for task in (columns.over(headline) if headline else columns.columns)
                if all(task in r.scores for r in kept.values())
            ]
            scored = read_evaluations(
                session, (r.scores[t].identity for r in kept.values() for t in on)
            )
            first = next(iter(kept), "")
            notes: set[str] = set()
            for name, row in list(kept.items())[1:]:
                try:
                    notes |= _collect_reading_notes(scored, {first: kept[first], name: row}, on)
                except ComparisonError:
                    del kept[name]
            if len(kept) < 2 or not on:
                found = f"; there is {next(iter(rows), 'none')}"
                if len(rows) > 1:
                    found = f" on the same tasks and data; {', '.join(rows)} have different ones"
                needs = f"a comparison needs two rows with test scores of {tasks}"
                raise ComparisonError(needs + found)
            _refuse_disjoint_rows(kept, on, tasks)
            if left_out := [name for name in rows if name not in kept]:
                notes.add(f"left out, scored on other tasks or data: {', '.join(left_out)}")
            compared = build_contenders(session, kept, on)
            notes |= _note_unknown_groups(compared) | _note_choices(kept, on)
            matrix = compare_all(
                compared, tasks=on, resamples=RESAMPLES["comparison"], progress=progress
            )
            lines = tuple(
                f"{name}: {describe_row(row, common_seeds(row, on))}" for name, row in kept.items()
            )
            return replace(
                matrix, notes=(*matrix.notes, *sorted(notes)), tasks=tuple(on), told=lines
            )

    def against(
        self,
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
        with self._store.sharing() as session:
            name, other = self.row(reference, filters, tasks=tasks, scored=True)
            for index, row in enumerate(rows):
                if row.configuration != other.configuration and row.scores:
                    with suppress(ComparisonError):  # scored on other data: it gets no mark
                        pair = {f"row {index}": row, name: other}
                        comparisons[index] = compare_rows(session, pair, family=tasks)
        return comparisons


def describe_row(row: LeaderboardRow, compared: Sequence[int] | None = None) -> str:
    """Describe a row in words: method and configuration, backbone, dev set and seeds.

    If only some of its seeds are compared, the others are listed as not scored.
    """
    used = row.seeds if compared is None else compared
    left = [seed for seed in row.seeds if seed not in used]
    without = f"; not scored: {_format_seeds(left)}" if left else ""
    choosing = ", ".join(map(percent, row.chosen_by.values()))
    chosen = f"; chosen by {choosing}" if row.chosen_by else ""
    return (
        f"{row.reference}{row.name_mark} on {row.backbone}, "
        f"{row.dev.search} ({row.dev.source}), {_format_seeds(used)}{without}{chosen}"
    )


def _format_seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {' '.join(map(str, seeds))}"


def shared_tasks(
    rows: Mapping[str, LeaderboardRow], family: FamilyName
) -> tuple[list[str], str | None]:
    """Find the tasks that all rows have a score on, and the average over exactly these.

    The average is None if there is none; ranking has two averages, one per metric, so its is None
    too.
    """
    known = family_named(family, rows.values())
    single = [column for column in known.columns if column not in known.averages]
    shared = [task for task in single if all(task in row.scores for row in rows.values())]
    whole = shared == single and len(known.averages) == 1
    return shared, known.averages[0] if whole else None


def named_rows(rows: Sequence[LeaderboardRow]) -> Mapping[str, LeaderboardRow]:
    """Name each row by its method, or by the shortest longer name that makes all names distinct."""
    for name in (
        lambda row: row.method + row.name_mark,
        lambda row: f"{row.method}{row.name_mark} {row.backbone}",
        lambda row: row.reference + row.name_mark,
    ):
        named = {name(row): row for row in rows}
        if len(named) == len(rows):
            return named
    return {f"{row.reference} {n}": row for n, row in enumerate(rows, 1)}


def _name_pair(named: Sequence[tuple[str, LeaderboardRow]]) -> dict[str, LeaderboardRow]:
    """Map the two rows to their names; equal names get a letter."""
    if named[0][0] != named[1][0]:
        return dict(named)
    return {f"{name} ({side})": row for side, (name, row) in zip("AB", named, strict=True)}


def compare_rows(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    *,
    family: FamilyName,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the first row with the second, on the tasks that both have.

    Raises ComparisonError if they have none in common, or other data or protocols.
    """
    tasks, average = shared_tasks(rows, family)
    _refuse_disjoint_rows(rows, tasks, family)
    scored = (row.scores[task].identity for row in rows.values() for task in tasks)
    notes = _collect_reading_notes(read_evaluations(session, scored), rows, tasks)
    a, b = build_contenders(session, rows, tasks)
    column, first, second = average or tasks[0], *rows.values()
    if is_clean(column) and all(task_of(column) in row.scores for row in rows.values()):
        whole = task_of(column)
        all_rows = first.scores[whole].mean - second.scores[whole].mean
        changes = [mean_change(row.scores[column], row.scores[whole]) for row in rows.values()]
        known = [change for change in changes if change is not None]
        by = f": clean rows change it by {signed_percent(known[0] - known[1])}" if known[1:] else ""
        notes.add(
            f"on all rows, the papers' protocol, {a.name} - {b.name} is {signed_percent(all_rows)} "
            f"on {whole}{by}"
        )
    notes |= _note_unknown_groups([a, b])
    notes |= _note_choices(rows, tasks)
    seeds = {name: common_seeds(row, tasks) for name, row in rows.items()}
    comparison = compare(
        a, b, tasks=tasks, average=average, resamples=RESAMPLES["comparison"], progress=progress
    )
    return _describe_compared(comparison, rows, seeds, sorted(notes))


def _describe_compared(
    comparison: Comparison,
    rows: Mapping[str, LeaderboardRow],
    seeds: Mapping[str, Sequence[int]],
    notes: Sequence[str],
) -> Comparison:
    """Add notes, and descriptions of both rows with the `seeds` that were compared."""
    lines = (
        f"{side}: {describe_row(row, seeds[name])}"
        for side, (name, row) in zip("AB", rows.items(), strict=True)
    )
    return replace(comparison, notes=(*comparison.notes, *notes), told=tuple(lines))


def _refuse_disjoint_rows(
    rows: Mapping[str, LeaderboardRow], tasks: Sequence[str], family: FamilyName
) -> None:
    if not tasks:
        raise ComparisonError(
            f"{' and '.join(rows)} have no scored task of {family} in common"
            + "; `cse-evaluate TRIAL --tasks sts` computes clean scores of a trial"
            * (family == "clean")
        )
    for name, row in rows.items():
        if not common_seeds(row, tasks):
            raise ComparisonError(f"no seed of {name} is scored on all of {', '.join(tasks)}")


def _note_unknown_groups(contenders: Sequence[Contender]) -> set[str]:
    """Note the tasks whose pairs are resampled one by one because their sentences are not known."""
    unknown = sorted({task for each in contenders for task in each.gold.keys() - each.groups})
    if not unknown:
        return set()
    return {
        f"which pairs of {', '.join(unknown)} share a sentence is unknown; if many do, the "
        "intervals are too short"
    }


def _note_choices(rows: Mapping[str, LeaderboardRow], tasks: Sequence[str]) -> set[str]:
    """Note the rows that are compared by a value that chose them, on tasks or, without, on dev."""
    return {
        f"a search chose {name} by a score that counts here, as the best of many: its mean is too "
        "high, and the interval and p are too sure of it; seeds that did not choose it, at least "
        "two, estimate it"
        for name, row in rows.items()
        if any(score.counts_choice for score in map(row.scores.get, tasks) if score)
        or (not tasks and row.dev_score.counts_choice)
    }


def _collect_reading_notes(
    evaluations: Mapping[str, EvaluationRecord],
    rows: Mapping[str, LeaderboardRow],
    tasks: Sequence[str],
) -> set[str]:
    """Note how two encoders read their texts differently, such as in length or prompt.

    Only the reading may differ, because it is part of an encoder; other differences raise
    ComparisonError.
    """
    (a, mine), (b, other) = rows.items()
    notes: set[str] = set()
    for task in tasks:
        ids = (mine.scores[task].identity, other.scores[task].identity)
        if ids[0] == ids[1]:
            continue
        if not evaluations.keys() >= set(ids):
            raise ComparisonError(
                f"{a} and {b} have different evaluation identities on {task}, and one of them "
                "is unknown; score both with cse-evaluate"
            )
        left, right = (evaluations[identity].settings for identity in ids)
        for name, reason in {"data_sha256": "other data", "protocol": "another protocol"}.items():
            if left.get(name) != right.get(name):
                raise ComparisonError(
                    f"{a} and {b} were scored on {task} with {reason}; select by backbone or "
                    "identity, or score both alike with cse-evaluate"
                )
        ours, theirs = left.get("reading", {}), right.get("reading", {})
        parts = [
            f"{name} {ours.get(name)} against {theirs.get(name)}"
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        ]
        notes.add(f"{a} and {b} read their texts differently: {', '.join(parts)}")
    return notes


def _make_dev_contender(
    name: str, row: LeaderboardRow, task: str, pairs_of: PairsOf, notes: list[str]
) -> Contender:
    """Build a contender on dev.

    Without pairs, or if a kept model does not score on them as its trial did, it has scores only,
    and a note says why.
    """
    scores = {task: [row.dev_score.values[seed] for seed in row.seeds]}
    design = TrainingDesign(row.method, row.backbone, tuple(row.seeds))
    from cse_methods.metrics import spearman  # torch: a second

    pairs_by_seed = list[DevPairs]()
    try:
        for seed in row.seeds:
            pairs = pairs_of(row.keys[seed])
            recorded, score = row.dev_score.values[seed], spearman(pairs.cosines, pairs.gold)
            if not abs(score - recorded) <= SAME_SCORE:
                raise ComparisonError(
                    f"the kept model of trial {row.keys[seed][:16]} scores {score:.4f} on dev "
                    f"{row.dev.search} here, but {recorded:.4f} was recorded"
                )
            pairs_by_seed.append(pairs)
    except CseError as problem:
        notes.append(f"{name} is compared over its seeds only: {problem}")
        return Contender(name, scores, design=design)
    cosines: NDArray[Any] = np.stack([pairs.cosines for pairs in pairs_by_seed])
    groups = {} if pairs.groups is None else {task: pairs.groups}
    return Contender(name, scores, {task: cosines}, {task: pairs.gold}, groups, design)
