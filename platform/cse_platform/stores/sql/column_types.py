"""The types of the leaderboard's columns, each of which checks or completes what is read."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    Engine,
    Integer,
    Text,
    TypeDecorator,
)

from cse_platform.errors import StoreLostError
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.stores import complete_location, shorten_location


class Checked(TypeDecorator[Any]):
    """A text. SQLite keeps any value in any column, so the type of what is read is checked."""

    impl: Any = Text
    cache_ok = True
    kinds: ClassVar[tuple[Any, ...]] = (str,)
    """Python's types of its values."""

    def result_processor(self, dialect: Dialect, coltype: Any) -> Any:
        """Raise StoreLostError for a value in a SQLite file that is of another type."""
        read, kinds = super().result_processor(dialect, coltype), self.kinds
        if dialect.name != "sqlite":
            return read

        def check(value: Any) -> Any:
            if value is None:
                return None
            try:
                converted = value if read is None else read(value)
            except (ValueError, TypeError):
                converted = None
            if isinstance(converted, kinds):
                return converted
            raise StoreLostError(
                f"it has {format_value(value)} where {kinds[0].__name__} belongs; "
                "cse-leaderboard rebuild makes it anew from the journals"
            )

        return check


class WholeNumber(Checked):
    """An integer of 32 bits."""

    impl = Integer
    cache_ok = True
    kinds = (int,)


class LongNumber(WholeNumber):
    """An integer of 64 bits."""

    impl = BigInteger
    cache_ok = True


class Number(Checked):
    """A number of 64 bits that need not be whole."""

    impl = Double
    cache_ok = True
    kinds = (float, int)


class JsonObject(Checked):
    """An object of JSON."""

    impl = JSON
    cache_ok = True
    kinds: ClassVar[tuple[Any, ...]] = (dict,)

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare what a name in it has by the type that JSON gives it, not as another object."""
        return self.impl_instance.coerce_compared_value(op, value)


class JsonList(JsonObject):
    """A list of JSON."""

    cache_ok = True
    kinds = (list,)


class UtcTime(Checked):
    """A time in UTC; SQLite drops the time zone, so it is restored on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True
    kinds = (datetime,)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC, because SQLite compares times as text."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Location(Checked):
    """A folder or URI. In a SQLite file, one below the file's folder is named relative to it."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Shorten a location in the folder of the database."""
        folder = _FOLDERS.get(dialect)
        return value if value is None or folder is None else shorten_location(value, folder)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the whole location, in the folder where the database lies now."""
        folder = _FOLDERS.get(dialect)
        return value if value is None or folder is None else complete_location(value, folder)


_FOLDERS = WeakKeyDictionary[Dialect, str]()
"""Folders of SQLite files, by the dialect of their engines."""


def note_folder(engine: Engine, url: URL) -> None:
    """Make locations that an engine reads and writes relative to the folder of a SQLite file."""
    _FOLDERS[engine.dialect] = str(Path(str(url.database)).absolute().parent)
