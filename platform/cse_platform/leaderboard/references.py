"""Finds the rows that METHOD, METHOD@CONFIGURATION, a trial's key or SWEEP#NUMBER refers to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.annotations import written_tags
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import EVERY_ROW, Catalogue, Filters
from cse_platform.leaderboard.records import (
    FamilyName,
    LeaderboardRow,
    families_beside,
    family_named,
    single_seed,
)
from cse_platform.leaderboard.trials import find_trial, is_trial_reference
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import GroupRecord, MachineRecord, SweepRecord, SweepTagRecord


class ReferenceQueries:
    """What a `Leaderboard` answers about the names of rows and filters."""

    _store: Store

    def row(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName = "sts"
    ) -> tuple[str, LeaderboardRow]:
        """Find the one row that a reference names, and a name for it.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            filters: narrow down the candidates.
            tasks: the family of test scores; rows that have some are preferred.

        Raises:
            QueryError: if the reference does not name exactly one row.
        """
        with self._store.session() as session:
            return find_row(session, reference, filters, family=tasks, scored=False)

    def candidates(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            filters: narrow down the candidates.
            tasks: the family of test scores; rows without any are dropped if other rows have some.

        Raises:
            QueryError: if it names nothing.
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

    A reference is METHOD, METHOD@CONFIGURATION (the hash or its first digits), the first 6 or more
    digits of a trial's key, or SWEEP#NUMBER. A method stands for its best configuration on dev; for
    a trial, the row holds only its seed. Unless `scored`, a row without test scores is returned if
    there is no other. Without a family, rows have no test scores, and one row covers all
    evaluations.

    Raises:
        NotFoundError: if there is no such row.
        AmbiguousError: if there are several; lists them, and says how to narrow them down.
    """
    name, rows = candidates(session, reference, filters, family=family)
    return name, _pick_only_row(reference, rows, family, scored=scored)


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
    method, at, configuration = reference.partition("@")
    if at:
        asked = replace(filters, method=method, configuration=configuration)
        rows = _read_configuration_rows(session, asked, families)
        name = f"{method}@{configuration[:HASH_DIGITS]}"
    elif method in (methods := sorted(session.scalars(select(GroupRecord.method).distinct()))):
        rows = board_rows(session, replace(filters, method=method), families=families)
        name = method
    elif is_trial_reference(reference):
        trial = find_trial(session, reference)
        asked = replace(filters, configuration=trial.configuration)
        every = _read_configuration_rows(session, asked, families)
        rows = [single_seed(row, trial.seed) for row in every if trial.seed in row.seeds]
        name = reference if "#" in reference else reference[:HASH_DIGITS]
    else:
        raise NotFoundError(
            f"{reference!r} is not a method of this leaderboard; name one of "
            f"{', '.join(methods) or 'none'}, METHOD@CONFIGURATION, a trial's key or SWEEP#NUMBER"
        )
    return name, [row for row in rows if row.scores] or rows


def _read_configuration_rows(
    session: Session, filters: Filters, families: Sequence[FamilyName]
) -> list[LeaderboardRow]:
    return board_rows(session, filters, families=families, per_configuration=True, averages=True)


def _pick_only_row(
    reference: str, rows: Sequence[LeaderboardRow], family: FamilyName | None, *, scored: bool
) -> LeaderboardRow:
    """Return the only row with test scores; raise an error if there is not exactly one."""
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
        listed = "; ".join(map(_describe_with_evaluation, matches))
        raise AmbiguousError(
            f"{reference!r} stands in several rows: {listed}; narrow it down by --backbone, "
            "--identity or METHOD@CONFIGURATION"
        )
    return matches[0]


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


def _describe_with_evaluation(row: LeaderboardRow) -> str:
    first = next(iter(row.scores.values()), None)
    evaluation = f", evaluation {first.identity[:HASH_DIGITS]}" if first else ""
    return describe_row(row) + evaluation


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
