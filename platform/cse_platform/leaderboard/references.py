"""Finds the rows, trials and sweeps that people name, in one grammar.

SWEEP, SWEEP#N, METHOD@CONFIGURATION (the hash or its first digits), and a trial's key or its first
6 digits are understood everywhere. Where one trial is meant, SWEEP and METHOD@CONFIGURATION stand
for their best one. METHOD names rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from string import hexdigits

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.board import board_rows, written_tags
from cse_platform.leaderboard.records import (
    EVERY_ROW,
    Catalogue,
    FamilyName,
    Filters,
    LeaderboardRow,
    families_beside,
    family_named,
    single_seed,
)
from cse_platform.leaderboard.trials import (
    NAMES,
    find_configuration,
    find_trial,
    is_trial_reference,
)
from cse_platform.render.table import HASH_DIGITS
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep, sweep_or_none
from cse_platform.stores.sql.tables import (
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
    begins_with,
)
from cse_platform.tracking.events import Annotatable


class ReferenceQueries:
    """What a `Leaderboard` answers about the names of rows and filters.

    A method or a sweep stands for its best configuration on dev; for a trial, the row holds only
    its seed. `filters` narrow down the candidates, of which those with test scores of the family
    `tasks` are preferred.
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

        Args:
            reference: the name.
            filters: narrow down the candidates.
            tasks: the family whose test scores the row has; without, it has none, and one row
                covers all evaluations.
            scored: refuse a row without test scores.

        Raises:
            NotFoundError: if there is no such row.
            AmbiguousError: if there are several; lists them, and says how to narrow them down.
        """
        name, rows = self.candidates(reference, filters, tasks=tasks)
        matches = [row for row in rows if row.scores] or ([] if scored else rows)
        if not rows:
            raise NotFoundError(
                f"{reference!r} is not a complete configuration that matches the filters; "
                "cse-leaderboard --all lists them"
            )
        if not matches:
            raise NotFoundError(
                f"{reference!r} has no test scores of {tasks}; add them with `evaluate:` in its "
                "sweep file or cse-evaluate on its trials, or choose others with --tasks"
            )
        if len(matches) > 1:
            identities = (next((s.identity for s in row.scores.values()), None) for row in matches)
            listed = "; ".join(
                describe_row(row) + (f", evaluation {identity[:HASH_DIGITS]}" if identity else "")
                for row, identity in zip(matches, identities, strict=True)
            )
            raise AmbiguousError(
                f"{reference!r} matches several rows: {listed}; choose one with --backbone, "
                "--identity or METHOD@CONFIGURATION"
            )
        return name, matches[0]

    def candidates(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName | None = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Rows without test scores are dropped if others have some.

        Raises:
            NotFoundError: if there is no such method, configuration or trial.
            AmbiguousError: if the keys of several trials start with it.
        """
        families = () if tasks is None else families_beside(tasks)
        method, at, configuration = reference.partition("@")
        if at and not configuration:
            raise NotFoundError(f"{reference!r} lacks a configuration: write METHOD@CONFIGURATION")
        with self._store.session() as session:
            read = partial(board_rows, session, families=families)
            every = partial(read, per_configuration=True, averages=True)
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
                rows = [single_seed(row, trial.seed) for row in held if trial.seed in row.seeds]
                name = reference if "#" in reference else reference[:HASH_DIGITS]
            else:
                raise NotFoundError(
                    f"{reference!r} is not a method of this leaderboard; name one of "
                    f"{', '.join(methods) or 'none'}, {NAMES}"
                )
        return name, [row for row in rows if row.scores] or rows

    def catalogue(self) -> Catalogue:
        """The values that filters take, of those that match something."""
        with self._store.session() as session:

            def values(column: InstrumentedAttribute[str]) -> set[str]:
                return {*session.scalars(select(column).distinct())}

            return Catalogue(
                backbones=sorted(values(GroupRecord.backbone)),
                methods=sorted(values(GroupRecord.method)),
                sweeps=sorted(values(SweepRecord.name)),
                tags=sorted(values(SweepTagRecord.tag) | written_tags(session)),
                machines=sorted(values(MachineRecord.hardware)),
            )


def describe_row(row: LeaderboardRow, compared: Sequence[int] | None = None) -> str:
    """Describe a row in words: method and configuration, backbone, dev set and seeds.

    If only some of its seeds are compared, the others are listed as not scored.
    """
    used = row.seeds if compared is None else compared
    left = [seed for seed in row.seeds if seed not in used]
    without = f"; not scored: {_format_seeds(left)}" if left else ""
    return (
        f"{row.reference}{row.name_mark} on {row.backbone}, "
        f"{row.dev.search} ({row.dev.source}), {_format_seeds(used)}{without}"
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


@dataclass(frozen=True)
class Subject:
    """The trial, configuration or sweep that an annotation is about."""

    about: Annotatable
    name: str
    """A trial's key, a configuration's hash or a sweep's name."""
    sweep: str
    """The sweep itself, or a sweep that holds the trial or configuration."""
    experiment: str
    """The MLflow experiment of this sweep."""

    def __str__(self) -> str:
        digits = len(self.name) if self.about == "sweep" else HASH_DIGITS
        return f"{self.about} {self.name[:digits]}"


def find_subject(session: Session, reference: str) -> Subject:
    """Resolve a reference; if digits match both a trial and a configuration, the trial counts.

    Raises:
        NotFoundError: if nothing matches.
        AmbiguousError: if several keys or hashes match.
    """
    method, at, digits = reference.partition("@")
    about: Annotatable = "sweep"
    keys = select(TrialRecord.id).where(begins_with(TrialRecord.key, reference)).limit(1)
    is_hash = set(reference.lower()) <= set(hexdigits) and not session.scalar(keys)
    if (sweep := sweep_or_none(session, reference)) is not None:
        name = sweep.name
    elif not (at or is_hash):
        trial = find_trial(session, reference)
        about, name, sweep = "trial", trial.key, find_sweep(session, trial.sweep)
    else:
        digits, of = (digits, method) if at else (reference, None)
        configuration = find_configuration(session, digits, method=of, named=reference)
        about, name = "configuration", configuration.hash
        holds = (
            select(SweepRecord)
            .join(SweepRecord.places)
            .join(SweepTrialRecord.trial)
            .where(TrialRecord.configuration_id == configuration.id)
            .order_by(SweepRecord.id)
            .limit(1)
        )
        sweep = session.scalars(holds).one()
    return Subject(about, name, sweep.name, sweep.spec.get("experiment", "cse"))
