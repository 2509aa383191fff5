"""Finds rows by their keys, and inserts or updates them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from cse_platform.errors import StoreLostError
from cse_platform.leaderboard.stored_sweeps import sweep_or_none
from cse_platform.leaderboard.tables import Base, ConfigurationRecord, SweepRecord, TrialRecord


def sweep_of(session: Session, name: str) -> SweepRecord:
    """Find the sweep of that name.

    Raises:
        StoreLostError: if it is not stored.
    """
    sweep = sweep_or_none(session, name)
    if sweep is None:
        raise StoreLostError(f"the journal speaks of sweep {name!r} before it starts")
    return sweep


def trial_of(session: Session, key: str) -> TrialRecord:
    """Find the trial of that key.

    Raises:
        StoreLostError: if it is not stored.
    """
    return trials_of(session, {key})[key]


def trials_of(session: Session, keys: Collection[str]) -> dict[str, TrialRecord]:
    """Find these trials by key.

    Raises:
        StoreLostError: if one is not stored.
    """
    query = select(TrialRecord).where(TrialRecord.key.in_(keys))
    trials = {trial.key: trial for trial in session.scalars(query)}
    if missing := sorted({*keys} - {*trials}):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return trials


def trial_or_none(session: Session, key: str) -> TrialRecord | None:
    """Find the trial of that key; None if it is not stored."""
    return session.scalars(select(TrialRecord).where(TrialRecord.key == key)).one_or_none()


def insert_once(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> bool:
    """Insert a row if its key is absent. Returns True if it was inserted.

    Safe while writers in other processes do the same. The table has a unique constraint on `key`;
    `values` are its other columns.
    """
    statement = _make_insert(session, table).values({**key, **values})
    statement = statement.on_conflict_do_nothing(index_elements=list(key))
    new = session.execute(statement.returning(*table.__table__.primary_key))
    return new.first() is not None


def insert_missing(
    session: Session,
    table: type[Base],
    key: Sequence[str],
    rows: Sequence[Mapping[str, Any] | RowMapping],
) -> int:
    """Insert the rows whose keys are absent, like `insert_once`. Returns how many were inserted."""
    if not rows:
        return 0
    statement = _make_insert(session, table).on_conflict_do_nothing(index_elements=list(key))
    new = statement.returning(*table.__table__.primary_key)
    return len(session.connection().execute(new, [dict(row) for row in rows]).all())


def insert_newest(
    session: Session,
    table: type[Base],
    key: Sequence[str],
    rows: Sequence[Mapping[str, Any] | RowMapping],
) -> int:
    """Insert or replace rows, unless one `measured` as late is stored. Returns how many were
    stored.
    """
    if not rows:
        return 0
    statement = _make_insert(session, table)
    new, old = statement.excluded, table.__table__.c
    statement = statement.on_conflict_do_update(
        index_elements=list(key),
        set_={name: new[name] for name in rows[0] if name not in key},
        where=new["measured"] > old["measured"],
    )
    stored = statement.returning(*table.__table__.primary_key)
    return len(session.connection().execute(stored, [dict(row) for row in rows]).all())


def upsert(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Insert a row, or update the row of that key; arguments are as in `insert_once`."""
    statement = _make_insert(session, table).values({**key, **values})
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=dict(values))
    session.execute(statement)


def _make_insert(session: Session, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    return insert(table)


def add_searched(configuration: ConfigurationRecord, names: Sequence[str]) -> None:
    """Add the hyperparameters that a search space varies to those recorded for a configuration."""
    if configuration.searched != list(names):
        configuration.searched = sorted({*configuration.searched, *names})
