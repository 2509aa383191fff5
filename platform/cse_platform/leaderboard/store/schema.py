"""Which schema a store has. Read at every opening, so it loads no migrations."""

from sqlalchemy import Connection, column, inspect, select, table

VERSION_TABLE = "cse_schema_version"
"""Not `alembic_version`, which Optuna and MLflow both claim."""

HEAD_REVISION = "0011"
"""The last of the migrations: this version's schema."""


def stored_revision(connection: Connection) -> str | None:
    """The schema of a store; None where there is no leaderboard."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    )
    return found
