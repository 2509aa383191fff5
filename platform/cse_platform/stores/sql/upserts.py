"""Finds rows by their keys, and inserts or updates them."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Row, RowMapping, bindparam, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from cse_platform.errors import StoreLostError
from cse_platform.stores.sql.tables import Base, TrialRecord, in_batches

_Record = TypeVar("_Record", bound=Base)
_NEW = "new"


def known_records(session: Session) -> dict[tuple[Any, ...], Any]:
    """Return the records that a session has found, by table and key, so that it asks once."""
    known: dict[tuple[Any, ...], Any] = session.info.setdefault("records", {})
    return known


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
    known = known_records(session)
    asked = [key for key in keys if (TrialRecord, key) not in known]
    if asked:
        query = select(TrialRecord).where(TrialRecord.key.in_(asked))
        known.update(((TrialRecord, trial.key), trial) for trial in session.scalars(query))
    if missing := sorted(key for key in asked if (TrialRecord, key) not in known):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return {key: known[TrialRecord, key] for key in keys}


def trial_or_none(session: Session, key: str) -> TrialRecord | None:
    """Find the trial of that key; None if it is not stored."""
    known: TrialRecord | None = known_records(session).get((TrialRecord, key))
    query = select(TrialRecord).where(TrialRecord.key == key)
    return known or session.scalars(query).one_or_none()


def insert_record(
    session: Session, table: type[_Record], key: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[_Record, bool]:
    """Insert a row like `insert_once`. Returns the row of the key, and whether it was inserted."""
    known, name = known_records(session), (table, *key.values())
    if name in known:
        return known[name], False
    row = {**key, **values}
    statement = _make_record_insert(session.get_bind().dialect.name, table, tuple(key), tuple(row))
    inserted = session.scalars(statement, row).one_or_none()
    record = inserted or session.scalars(select(table).filter_by(**key)).one()
    known[name] = record
    return record, inserted is not None


def insert_records(
    session: Session, table: type[_Record], key: str, rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Insert the rows whose keys are absent, in few statements; `take_new` tells which these are.

    `rows` has the other columns, which are the same for all rows, by key. Only within a transaction
    that writes alone.
    """
    known, name = known_records(session), getattr(table, key)
    asked = [value for value in rows if (table, value) not in known]
    for keys in in_batches(asked):
        query = select(table).where(name.in_(keys))
        known.update(((table, getattr(row, key)), row) for row in session.scalars(query))
    new = [{key: value, **rows[value]} for value in asked if (table, value) not in known]
    insert_new(session, table, (key,), new)


def insert_new(
    session: Session, table: type[_Record], key: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows of which none is stored, and note that they are new."""
    if rows:
        known = known_records(session)
        for row in session.scalars(insert(table).returning(table), rows):
            name = (table, *(getattr(row, column) for column in key))
            known[name], known[_NEW, *name] = row, True


def take_new(session: Session, table: type[_Record], *key: Any) -> bool:
    """Return True once for each row that this transaction has inserted in bulk."""
    return known_records(session).pop((_NEW, table, *key), False) is True


def insert_once(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> bool:
    """Insert a row if its key is absent. Returns True if it was inserted.

    Safe while writers in other processes do the same. The table has a unique constraint on `key`;
    `values` are its other columns.
    """
    statement = _make_insert(session.get_bind().dialect.name, table).values({**key, **values})
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
    statement = _make_insert(session.get_bind().dialect.name, table)
    statement = statement.on_conflict_do_nothing(index_elements=list(key))
    counted = statement.execution_options(preserve_rowcount=True)
    return session.connection().execute(counted, [dict(row) for row in rows]).rowcount


def insert_newest(
    session: Session,
    table: type[Base],
    key: Sequence[str],
    rows: Sequence[Mapping[str, Any] | RowMapping],
) -> Sequence[Row[Any]]:
    """Insert or replace rows, unless one `measured` as late is stored.

    Returns the primary keys of those that were stored.
    """
    if not rows:
        return []
    dialect = session.get_bind().dialect.name
    statement = _make_newest_insert(dialect, table, tuple(key), tuple(rows[0]))
    return session.connection().execute(statement, [dict(row) for row in rows]).all()


def upsert(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Insert a row, or update the row of that key; arguments are as in `insert_once`."""
    statement = _make_insert(session.get_bind().dialect.name, table).values({**key, **values})
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=dict(values))
    session.execute(statement)


def _make_insert(dialect: str, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    return (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)


@cache  # SQLAlchemy takes longer to make such a statement than the database to run it
def _make_record_insert(
    dialect: str, table: type[_Record], key: tuple[str, ...], names: tuple[str, ...]
) -> ReturningInsert[tuple[_Record]]:
    statement = _make_insert(dialect, table).values({name: bindparam(name) for name in names})
    return statement.on_conflict_do_nothing(index_elements=list(key)).returning(table)


@cache
def _make_newest_insert(
    dialect: str, table: type[Base], key: tuple[str, ...], names: tuple[str, ...]
) -> ReturningInsert[Any]:
    statement = _make_insert(dialect, table)
    new, old = statement.excluded, table.__table__.c
    statement = statement.on_conflict_do_update(
        index_elements=list(key),
        set_={name: new[name] for name in names if name not in key},
        where=new["measured"] > old["measured"],
    )
    return statement.returning(*table.__table__.primary_key)
