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
from cse_platform.leaderboard.annotations import written_tags
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.records import (
    EVERY_ROW,
    Catalogue,
    FamilyName,
    Filters,
    LeaderboardRow,
    Trial,
    families_beside,
    family_named,
    single_seed,
)
from cse_platform.leaderboard.sweeps import best_of_sweep
from cse_platform.leaderboard.trials import (
    FIRST_PLACE,
    NAMES,
    find_trial,
    is_trial_reference,
    read_trials,
)
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep, sweep_or_none
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
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
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName = "sts"
    ) -> tuple[str, LeaderboardRow]:
        """Find the one row that a reference names, and a name for it.

        Raises QueryError if the reference does not name exactly one row.
        """
        with self._store.session() as session:
            return find_row(session, reference, filters, family=tasks, scored=False)

    def candidates(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Raises QueryError if it names nothing.
        """
        with self._store.session() as session:
            return candidates(session, reference, filters, family=tasks)

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


def find_row(
    session: Session,
    reference: str,
    filters: Filters,
    *,
    family: FamilyName | None,
    scored: bool = True,
) -> tuple[str, LeaderboardRow]:
    """Find the one row that a reference names, with test scores of the family, and its name.

    References are those of `ReferenceQueries`. Unless `scored`, a row without test scores is
    returned if there is no other. Without a family, rows have no test scores, and one row covers
    all evaluations.

    Raises:
        NotFoundError: if there is no such row.
        AmbiguousError: if there are several; lists them, and says how to narrow them down.
    """
    name, rows = candidates(session, reference, filters, family=family)
    matches = [row for row in rows if row.scores] or ([] if scored else rows)
    if not rows:
        raise NotFoundError(
            f"{reference!r} is not a complete configuration among the rows that the filters let "
            "through; cse-leaderboard --all lists them"
        )
    if not matches:
        raise NotFoundError(
            f"{reference!r} has no test scores of {family}; `evaluate:` in its sweep file or "
            "cse-evaluate on its trials makes them, and --tasks asks for others"
        )
    if len(matches) > 1:
        identities = (next((s.identity for s in row.scores.values()), None) for row in matches)
        listed = "; ".join(
            describe_row(row) + (f", evaluation {identity[:HASH_DIGITS]}" if identity else "")
            for row, identity in zip(matches, identities, strict=True)
        )
        raise AmbiguousError(
            f"{reference!r} stands in several rows: {listed}; narrow it down by --backbone, "
            "--identity or METHOD@CONFIGURATION"
        )
    return name, matches[0]


def candidates(
    session: Session, reference: str, filters: Filters, *, family: FamilyName | None
) -> tuple[str, list[LeaderboardRow]]:
    """Find all rows that a reference of `find_row` can mean, and their name.

    Rows without test scores are dropped if others have some.

    Raises:
        NotFoundError: if there is no such method, configuration or trial.
        AmbiguousError: if the keys of several trials start with it.
    """
    families = () if family is None else families_beside(family)
    every = partial(board_rows, session, families=families, per_configuration=True, averages=True)
    method, at, configuration = reference.partition("@")
    if at and not configuration:
        raise NotFoundError(f"{reference!r} names no configuration: METHOD@CONFIGURATION")
    if at:
        asked = replace(filters, method=method, configuration=configuration)
        rows = every(filters=asked)
        name = f"{method}@{configuration[:HASH_DIGITS]}"
    elif sweep_or_none(session, reference) is not None:
        rows = board_rows(session, replace(filters, sweep=reference), families=families)
        name = reference
    elif method in (methods := sorted(session.scalars(select(GroupRecord.method).distinct()))):
        rows = board_rows(session, replace(filters, method=method), families=families)
        name = method
    elif is_trial_reference(reference):
        trial = find_trial(session, reference)
        asked = replace(filters, configuration=trial.configuration)
        held = [row for row in every(filters=asked) if trial.seed in row.seeds]
        rows = [single_seed(row, trial.seed) for row in held]
        name = reference if "#" in reference else reference[:HASH_DIGITS]
    else:
        raise NotFoundError(
            f"{reference!r} is not a method of this leaderboard; name one of "
            f"{', '.join(methods) or 'none'}, {NAMES}"
        )
    return name, [row for row in rows if row.scores] or rows


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
    if (sweep := sweep_or_none(session, reference)) is not None:
        return _make_subject("sweep", sweep.name, sweep)
    method, at, digits = reference.partition("@")
    if at:
        return _make_configuration_subject(
            session, _find_configuration(session, digits, method=method, named=reference)
        )
    keys = select(TrialRecord.id).where(begins_with(TrialRecord.key, reference)).limit(1)
    if not set(reference.lower()) <= set(hexdigits) or session.scalar(keys):
        trial = find_trial(session, reference)
        return _make_subject("trial", trial.key, find_sweep(session, trial.sweep))
    return _make_configuration_subject(session, _find_configuration(session, reference))


def find_one_trial(session: Session, reference: str) -> Trial:
    """Find the trial that a reference names, the best one of a sweep or configuration.

    Raises:
        NotFoundError: if there is none.
        AmbiguousError: if several keys or hashes match.
    """
    method, at, digits = reference.partition("@")
    best: Trial | None
    if (sweep := sweep_or_none(session, reference)) is not None:
        best = best_of_sweep(session, sweep)
    elif at:
        held = _find_configuration(session, digits, method=method, named=reference)
        complete = TrialRecord.state == "COMPLETE", TrialRecord.configuration_id == held.id
        order = (TrialRecord.best_value.desc(), TrialRecord.id)
        best = next(iter(read_trials(session, FIRST_PLACE, *complete, order=order, limit=1)), None)
    else:
        return find_trial(session, reference)
    if best is None:
        raise NotFoundError(f"no trial of {reference!r} is complete and keeps the constraints")
    return best


def _find_configuration(
    session: Session, digits: str, *, method: str | None = None, named: str | None = None
) -> ConfigurationRecord:
    named = named or digits
    query = select(ConfigurationRecord).join(ConfigurationRecord.group)
    query = query.where(begins_with(ConfigurationRecord.hash, digits))
    if method is not None:
        query = query.where(GroupRecord.method == method)
    matches = session.scalars(query.limit(2)).all() if digits else []
    if not matches:
        raise NotFoundError(f"{named!r} is neither a configuration nor a trial of this leaderboard")
    if len(matches) > 1:
        raise AmbiguousError(f"several configurations begin as {named!r}; write more digits")
    return matches[0]


def _make_configuration_subject(session: Session, configuration: ConfigurationRecord) -> Subject:
    holds = (
        select(SweepRecord)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == configuration.id)
        .order_by(SweepRecord.id)
        .limit(1)
    )
    return _make_subject("configuration", configuration.hash, session.scalars(holds).one())


def _make_subject(about: Annotatable, name: str, sweep: SweepRecord) -> Subject:
    return Subject(about, name, sweep.name, sweep.spec.get("experiment", "cse"))
