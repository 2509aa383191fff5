"""Finds the rows of the leaderboard by their keys, and inserts those that are absent."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import exists, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import Insert

from cse_platform.errors import OtherSweepError, StoreLostError
from cse_platform.numbers import utc
from cse_platform.stores.sql import tables


def sweep_of(session: Session, name: str, journal: str) -> tables.SweepRecord:
    """Find the sweep of that name, which belongs to the journal that started it first.

    Raises StoreLostError if it is not stored, or belongs to another journal.
    """
    if (sweep := tables.sweep_or_none(session, name)) is None:
        raise StoreLostError(f"the journal speaks of sweep {name!r} before it starts")
    if sweep.journal != journal:
        raise StoreLostError(f"sweep {name!r} has another journal")
    return sweep


def refuse_other_journal(session: Session, sweep: tables.SweepRecord | None, journal: str) -> None:
    """Raise OtherSweepError if a sweep belongs to another journal; says where it began."""
    if sweep is None or sweep.journal == journal:
        return
    start = tables.SweepStartRecord
    first = select(start.provenance).where(start.sweep_id == sweep.id).order_by(start.started)
    facts = session.scalars(first).first() or {}
    origin = (
        f" in {facts['folder']} on {facts['host']}" if facts.keys() >= {"folder", "host"} else ""
    )
    raise OtherSweepError(
        f"the leaderboard has another sweep named {sweep.name!r}, begun{origin} at "
        f"{utc(sweep.started)}"
    )


def trial_of(session: Session, key: str) -> tables.TrialRecord:
    """Find the trial of that key. Raises StoreLostError if it is not stored."""
    return trials_of(session, {key})[key]


def trials_of(session: Session, keys: Collection[str]) -> dict[str, tables.TrialRecord]:
    """Find these trials by key. Raises StoreLostError if one is not stored."""
    known = tables.known_records(session)
    unread = [key for key in keys if (tables.TrialRecord, key) not in known]
    if unread:
        query = select(tables.TrialRecord).where(tables.TrialRecord.key.in_(unread))
        known.update(((tables.TrialRecord, trial.key), trial) for trial in session.scalars(query))
    if missing := sorted(key for key in unread if (tables.TrialRecord, key) not in known):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return {key: known[tables.TrialRecord, key] for key in keys}


def trial_or_none(session: Session, key: str) -> tables.TrialRecord | None:
    known: tables.TrialRecord | None = tables.known_records(session).get((tables.TrialRecord, key))
    query = select(tables.TrialRecord).where(tables.TrialRecord.key == key)
    return known or session.scalars(query).one_or_none()


def find_attempts(
    session: Session, journal: str, trials: Collection[tables.TrialRecord]
) -> dict[str, tables.AttemptRecord]:
    """Find the records that a journal has of these trials, by the keys of the trials."""
    known = tables.known_records(session)
    unread = [t.id for t in trials if (tables.AttemptRecord, t.id, journal) not in known]
    for ids in tables.in_batches(unread):
        query = select(tables.AttemptRecord).where(tables.AttemptRecord.trial_id.in_(ids))
        for attempt in session.scalars(query.where(tables.AttemptRecord.journal == journal)):
            known[tables.AttemptRecord, attempt.trial_id, journal] = attempt
    attempts = {trial.key: known.get((tables.AttemptRecord, trial.id, journal)) for trial in trials}
    return {key: attempt for key, attempt in attempts.items() if attempt is not None}


def attempts_of(
    session: Session, journal: str, keys: Collection[str]
) -> dict[str, tables.AttemptRecord]:
    """Find a journal's attempts at trials, by their keys. Raises StoreLostError if it has not
    started one.
    """
    attempts = find_attempts(session, journal, trials_of(session, keys).values())
    for key in sorted(keys):
        if key not in attempts or not attempts[key].state:
            raise StoreLostError(f"the journal speaks of trial {key!r} before it starts")
    return attempts


def is_complete(session: Session, trial: tables.TrialRecord) -> bool:
    """Return whether an attempt at a trial is complete."""
    session.flush()
    complete = tables.AttemptRecord.trial_id == trial.id, tables.AttemptRecord.state == "COMPLETE"
    return bool(session.scalar(select(exists().where(*complete))))


_NEW = "new"
_Record = TypeVar("_Record", bound=tables.Base)


def insert_record(
    session: Session, table: type[_Record], key: Mapping[str, Any], values: Mapping[str, Any]
) -> _Record:
    """Insert a row like `insert_once`. Returns the row of the key, which a session reads once."""
    known, name = tables.known_records(session), (table, *key.values())
    if name not in known:
        insert_once(session, table, key, values)
        known[name] = session.scalars(select(table).filter_by(**key)).one()
    record: _Record = known[name]
    return record


def insert_records(
    session: Session, table: type[_Record], key: str, rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Insert the rows whose keys are absent, in few statements; `take_new` tells which these are.

    `rows` has the other columns, which are the same for all rows, by key. Only within a transaction
    that writes alone.
    """
    known, name = tables.known_records(session), getattr(table, key)
    unread = [value for value in rows if (table, value) not in known]
    for keys in tables.in_batches(unread):
        query = select(table).where(name.in_(keys))
        known.update(((table, getattr(row, key)), row) for row in session.scalars(query))
    new = [{key: value, **rows[value]} for value in unread if (table, value) not in known]
    insert_new(session, table, (key,), new)


def insert_new(
    session: Session, table: type[_Record], key: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert the rows that are in no conflict with stored ones, and note that they are new."""
    if rows:
        known, dialect = tables.known_records(session), session.get_bind().dialect.name
        statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
        for row in session.scalars(statement.on_conflict_do_nothing().returning(table), rows):
            name = (table, *(getattr(row, column) for column in key))
            known[name], known[_NEW, *name] = row, True


def take_new(session: Session, table: type[_Record], *key: Any) -> bool:
    """Return True once for each row that this transaction has inserted in bulk."""
    return tables.known_records(session).pop((_NEW, table, *key), False) is True


def insert_once(
    session: Session, table: type[tables.Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> bool:
    """Insert a row if its key is absent. Returns True if it was inserted.

    Safe while writers in other processes do the same. The table has a unique constraint on `key`;
    `values` are its other columns.
    """
    return insert_rows(session, table, tuple(key), [{**key, **values}]) > 0


def insert_rows(
    session: Session,
    table: type[tables.Base],
    key: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
    *,
    newer_by: str | None = None,
) -> int:
    """Insert rows, like `insert_once`. Returns how many were written.

    A row that is stored under its key stays, unless it is older by the column `newer_by`.
    """
    if not rows:
        return 0
    dialect = session.get_bind().dialect.name
    statement = _make_insert(dialect, table, key, tuple(rows[0]), newer_by)
    return session.connection().execute(statement, rows).rowcount


@cache  # SQLAlchemy takes longer to make such a statement than the database to run it
def _make_insert(
    dialect: str,
    table: type[tables.Base],
    key: tuple[str, ...],
    names: tuple[str, ...],
    newer_by: str | None,
) -> Insert:
    statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    new, old = statement.excluded, table.__table__.c
    if newer_by is None:
        statement = statement.on_conflict_do_nothing(index_elements=key)
    else:
        statement = statement.on_conflict_do_update(
            index_elements=key,
            set_={name: new[name] for name in names if name not in key},
            where=new[newer_by] > old[newer_by],
        )
    return statement.execution_options(preserve_rowcount=True)
