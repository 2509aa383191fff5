"""Rows by their keys, as the writer needs them: found, held against other writers, or made."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from cse_platform.errors import StoreError
from cse_platform.leaderboard.models import Base, ConfigurationRecord, SweepRecord, TrialRecord


def sweep_of(session: Session, name: str) -> SweepRecord:
    """The sweep of that name.

    Raises:
        StoreError: if it has not started.
    """
    sweep = session.scalars(select(SweepRecord).where(SweepRecord.name == name)).one_or_none()
    if sweep is None:
        raise StoreError(f"the journal speaks of sweep {name!r} before it starts")
    return sweep


def trial_of(session: Session, key: str) -> TrialRecord:
    """The trial of that key, held against other writers until the transaction ends.

    Raises:
        StoreError: if it has not started.
    """
    query = select(TrialRecord).where(TrialRecord.key == key).with_for_update()
    trial = session.scalars(query).one_or_none()
    if trial is None:
        raise StoreError(f"the journal speaks of trial {key!r} before it starts")
    return trial


def held_configuration(session: Session, which: ColumnElement[bool]) -> ConfigurationRecord:
    """A configuration, held against other writers until the transaction ends."""
    query = select(ConfigurationRecord).where(which).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one()


def insert_once(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> bool:
    """Insert a row unless its key is there, also against writers in other processes.

    Args:
        session: within a writing transaction.
        table: has a unique constraint on `key`.
        key: which row.
        values: its other columns.

    Returns:
        Whether the row is new.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values({**key, **values})
    statement = statement.on_conflict_do_nothing(index_elements=list(key))
    new = session.execute(statement.returning(*table.__table__.primary_key))
    return new.first() is not None
