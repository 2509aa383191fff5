"""Finds the rows that people name, and names rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.families import FAMILIES, FamilyName, families_beside, family_named
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.records import LeaderboardRow, single_seed
from cse_platform.leaderboard.selection import require_filters
from cse_platform.leaderboard.sweeps import read_sweep
from cse_platform.leaderboard.trials import NAMES, find_trial, is_trial_reference
from cse_platform.numbers import HASH_DIGITS
from cse_platform.stores.sql.tables import GroupRecord, SweepRecord, find_sweep, sweep_or_none
from cse_platform.sweep.problems import did_you_mean


def find_row(
    session: Session,
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
    return find_row_beside(session, reference, (), filters, tasks=tasks, scored=scored)


def find_row_beside(
    session: Session,
    reference: str,
    beside: Sequence[str],
    filters: Filters,
    *,
    tasks: FamilyName | None,
    scored: bool,
) -> tuple[str, LeaderboardRow]:
    """Find a row as `find_row` does, to compare it with those that `beside` names.

    A refusal for lack of scores offers only families of which those have scores, too.
    """
    name, rows = find_candidates(session, reference, filters, tasks=tasks, scored=scored)
    if not rows:
        raise NotFoundError(
            f"{reference!r} is not a complete configuration that matches the filters; "
            "cse-leaderboard --all lists them"
        )
    lacking = [row for row in rows if not row.scores]
    wait = _find_running_sweep(session, lacking) if scored else None
    if scored and len(lacking) == len(rows):

        def is_scored(name: str, family: FamilyName) -> bool:
            _, candidates = find_candidates(session, name, filters, tasks=family, scored=True)
            columns = family_named(family, candidates).columns
            return any(column in row.scores for row in candidates for column in columns)

        others = [
            f"--tasks {family}"
            for family in FAMILIES
            if all(is_scored(name, family) for name in (reference, *beside))
        ]
        raise NotFoundError(
            f"{reference!r} has no test scores of {tasks}; "
            + f"choose {' or '.join(others)}, or " * bool(others)
            + (wait or "add them with `evaluate:` in its sweep file or cse-evaluate on its trials")
        )
    if len(rows) > 1:
        listed = "; ".join(
            f"{row.reference} on {row.backbone}, {row.dev.search} ({row.dev.source})"
            + "".join(
                f", evaluation {s.identity[:HASH_DIGITS]}" for s in [*row.scores.values()][:1]
            )
            for row in rows
            if row.scores or not scored
        )
        of_tasks = f" with scores of {tasks}" * (not lacking)
        if scored and lacking:
            best = ", ".join(row.reference for row in lacking)
            of_tasks = f"; the best on dev, {best}, has none of {tasks}; scored"
        raise AmbiguousError(
            f"{reference!r} matches several rows{of_tasks}: {listed}; "
            + f"choose one with {_list_ways(rows)}"
            + f", or {wait}" * bool(wait)
        )
    return name, rows[0]


def _list_ways(rows: Sequence[LeaderboardRow]) -> str:
    """List what can tell rows apart."""
    judged_by = {
        (row.dev.identity, *sorted(score.identity for score in row.scores.values())) for row in rows
    }
    ways = ["--backbone"] * (len({row.backbone for row in rows}) > 1)
    ways += ["--identity"] * (len(judged_by) > 1)
    ways += ["METHOD@CONFIGURATION"] * (len({row.reference for row in rows}) > 1)
    ways = ways or ["--identity"]
    return " or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))


def _find_running_sweep(session: Session, rows: Sequence[LeaderboardRow]) -> str | None:
    """Say to wait for the sweep of rows, if one runs that scores its best trials at its end."""
    for name in dict.fromkeys(row.sweep for row in rows):
        scores = find_sweep(session, name).spec.get("evaluate") is not None
        if scores and read_sweep(session, name).state == "RUNNING":
            return (
                f"wait for sweep {name!r}, which is still running and scores its best on the test "
                "sets of its file at the end; cse-evaluate on its trials adds others"
            )
    return None


def find_candidates(
    session: Session,
    reference: str,
    filters: Filters = EVERY_ROW,
    *,
    tasks: FamilyName | None = "sts",
    scored: bool = False,
) -> tuple[str, list[LeaderboardRow]]:
    """Find all rows that a reference can mean, and a name for them.

    A row without test scores is dropped if others have some, unless it is the best on dev of
    configurations of which others have some; with `scored`, those are candidates beside it. Raises
    NotFoundError if there is no such method, configuration or trial, AmbiguousError if several keys
    start with it.
    """
    require_filters(filters)
    method, separator, configuration = reference.partition("@")
    if separator and not configuration:
        raise NotFoundError(f"{reference!r} lacks a configuration: write METHOD@CONFIGURATION")
    read = partial(board_rows, session, families=() if tasks is None else families_beside(tasks))
    every = partial(read, per_configuration=True)
    methods = sorted(session.scalars(select(GroupRecord.method).distinct()))
    name, named = reference, None
    if separator:
        rows = every(replace(filters, method=method, configuration=configuration))
        name = f"{method}@{configuration[:HASH_DIGITS]}"
    elif sweep_or_none(session, reference) is not None:
        rows = read(named := replace(filters, sweep=reference))
    elif method in methods:
        rows = read(named := replace(filters, method=method))
    elif is_trial_reference(reference):
        trial = find_trial(session, reference)
        of_configuration = every(replace(filters, configuration=trial.configuration))
        rows = [single_seed(row, trial.seed) for row in of_configuration if trial.seed in row.keys]
        name = reference if "#" in reference else reference[:HASH_DIGITS]
    else:
        sweeps = session.scalars(select(SweepRecord.name)).all()
        raise NotFoundError(
            f"{reference!r} is no method or sweep of this leaderboard; name one of "
            f"{', '.join(methods) or 'none'}, {NAMES}{did_you_mean(reference, [*methods, *sweeps])}"
        )
    group_of = attrgetter("method", "backbone", "dev.identity")
    lacking, beside = {group_of(row) for row in rows if not row.scores}, list[LeaderboardRow]()
    if named is not None and tasks is not None and lacking:
        others = every(named, among=attrgetter("is_scored"))
        beside = [row for row in others if row.scores and group_of(row) in lacking]
    groups = set(map(group_of, beside))
    rows = [row for row in rows if row.scores or group_of(row) in groups] or rows
    return name, rows + beside * scored


def named_rows(rows: Sequence[LeaderboardRow]) -> Mapping[str, LeaderboardRow]:
    """Name each row by its method, or by the shortest longer name that no other row has."""
    names = [row.method + row.name_mark for row in rows]
    for longer in (
        lambda n, row: f"{row.method}{row.name_mark} {row.backbone}",
        lambda n, row: row.reference + row.name_mark,
        lambda n, row: f"{row.reference} {n}",
    ):
        alike = Counter(names)
        names = [
            longer(n, row) if alike[name] > 1 else name
            for n, (name, row) in enumerate(zip(names, rows, strict=True), 1)
        ]
    return dict(zip(names, rows, strict=True))


def name_pair(named: Sequence[tuple[str, LeaderboardRow]]) -> dict[str, LeaderboardRow]:
    """Map the two rows to their names; equal names get a letter."""
    if named[0][0] != named[1][0]:
        return dict(named)
    return {f"{name} ({side})": row for side, (name, row) in zip("AB", named, strict=True)}
