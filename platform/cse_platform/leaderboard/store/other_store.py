"""A leaderboard that is read and never changed, whatever its schema."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from cse_platform.errors import StoreError
from cse_platform.leaderboard.store.opening import Store, open_read_only, open_store
from cse_platform.leaderboard.store.schema import HEAD_REVISION, stored_revision


@contextmanager
def open_other_store(url: str) -> Iterator[Store]:
    """A store to read from; of a SQLite file of an older schema, a copy that is upgraded.

    Raises:
        NoStoreError: if there is none.
        StoreError: if it cannot be reached, or is on PostgreSQL and of another schema.
    """
    with open_read_only(url) as board, TemporaryDirectory(prefix="cse-leaderboard-") as folder:
        copy = _copy_of_older(board, Path(folder) / "leaderboard.db")
        if copy is None:
            yield board
        else:
            with open_store(copy, limited=True) as upgraded:
                yield upgraded


def _copy_of_older(board: Store, file: Path) -> str | None:
    """URL of the copy; None where the store is of this version's schema."""
    with board.session() as session:
        connection = session.connection()
        if stored_revision(connection) == HEAD_REVISION:
            return None
        if connection.dialect.name != "sqlite":
            raise StoreError(
                "of another schema than this version's; cse-leaderboard --store with this URL, "
                "of the newer version, upgrades it"
            )
        with closing(sqlite3.connect(file)) as copy:
            cast("Any", connection.connection.driver_connection).backup(copy)
    return f"sqlite:///{file}"
