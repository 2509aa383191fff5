"""What all tables share: the names of constraints, the types of columns, relationships."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Double, MetaData, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, relationship

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite forgets the zone, which is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC, because SQLite compares as text."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Always with its zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """What all tables share."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012 -- SQLAlchemy reads it from the class
        float: Double(),
        str: Text(),
        datetime: UtcTime(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
    }


def read_only(**options: Any) -> Any:
    """A relationship that queries join or load by; what is not loaded with its row is refused."""
    return relationship(viewonly=True, lazy="raise", **options)
