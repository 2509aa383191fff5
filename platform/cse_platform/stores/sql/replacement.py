"""Makes a leaderboard anew beside an old one, and then lets it take the old one's place.

A SQLite file takes the old one's name, and the old one is kept under another; on PostgreSQL, the
tables move from a schema of their own in a transaction. A kill at any moment leaves the old or the
new one.
"""

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, event, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from cse_platform.databases import ROLES, put_database, sqlite_url
from cse_platform.errors import StoreDownError, StoreError, StoreLostError
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.lease import refuse_while_driven
from cse_platform.stores.sql.store import (
    BUSY_SECONDS,
    Store,
    make_engine,
    make_tables,
    parse_url,
    read_schema,
    translate_errors,
)

SCHEMA = "cse_rebuild"
"""The schema of PostgreSQL in which the new tables are filled."""
REBUILD_LOCK = 0x0C5E_AE30
"""Key of an advisory lock; arbitrary, but not used by another program on the server."""

_DEPENDED_ON = "2BP01"
"""PostgreSQL's code of the error that other objects depend on what is to be dropped."""

_SWEEPS_OF_JOURNAL = (
    "SELECT name FROM sweeps WHERE journal = :journal",
    "SELECT DISTINCT s.name FROM sweeps s JOIN sweep_trials l ON l.sweep_id = s.id "
    "JOIN attempts a ON a.trial_id = l.trial_id WHERE a.journal = :journal ORDER BY s.name",
)
"""The sweep that a journal started; those of the trials that it evaluated."""
Counts = Mapping[str, int]
"""Numbers of sweeps, trials and scores."""
TIME = "%Y%m%dT%H%M%S.%fZ"
"""How the time in UTC stands in the name of a file that is kept; the names sort by time."""


@dataclass(frozen=True)
class LostJournal:
    """A journal of which the old leaderboard has more than was read for the new one."""

    id: str
    sweeps: tuple[str, ...]
    """The sweeps that have something of it; empty if these are unknown, as of annotations."""
    applied: int
    """The offset up to which the old leaderboard has it."""
    read: int | None
    """The offset up to which it was read; None if it is in none of the runs folders."""


Complete = Callable[[], Mapping[str, int]]
Accept = Callable[[Sequence[LostJournal]], None]


class Replacement(ABC):
    """A new leaderboard beside an old one."""

    def __init__(self, old: Engine, store: Store, *, is_readable: bool) -> None:
        self.store = store
        """The new leaderboard, which nobody else writes to."""
        self._old = old
        self._is_readable = is_readable
        """Whether there is an old leaderboard, and one that can be read."""

    def count_rows(self, which: Literal["old", "new"]) -> Counts:
        """Count the rows of the old or the new leaderboard."""
        names = ("sweeps", "trials", "scores")
        if which == "old" and not self._is_readable:
            return dict.fromkeys(names, 0)
        with self._old.connect() if which == "old" else self.store.session() as asked:
            return {name: asked.scalar(text(f"SELECT count(*) FROM {name}")) for name in names}

    def find_lost(self, read: Mapping[str, int]) -> list[LostJournal]:
        """Find the journals of the old leaderboard that were not read as far as it has them.

        `read` holds the offset up to which each journal was read, by its id.
        """
        if not self._is_readable:
            return []
        with self._old.connect() as connection:
            return _find_lost(connection, read)

    @abstractmethod
    def take_place(self, complete: Complete, accept: Accept) -> Path | None:
        """Put the new leaderboard in the place of the old one, with the old one's live state.

        Args:
            complete: brings the new leaderboard up to date, while nobody writes to the old one.
                Returns the offsets up to which journals were read.
            accept: raises an error if the old one must stay, given what would be lost.

        Returns the file in which the old one is kept; None if there was none, or it is no file.
        """

    def _copy_live_rows(self, connection: Connection) -> None:
        """Copy leases and waiting requests, which no journal holds, from the old leaderboard.

        Those about a sweep of another journal are left out. A lease also says, once it is released,
        from which journal its sweep goes on.
        """
        old = _read_journals(connection)
        with self.store.writing() as session:
            new = _read_journals(session.connection())
            for row in _read_rows(connection, tables.SweepLeaseRecord):
                if new.get(row["sweep"], row["journal"]) == row["journal"]:
                    session.execute(insert(tables.SweepLeaseRecord), row)
            requests = session.scalars(select(tables.SweepRequestRecord.event))
            known = {event["request"] for event in requests}
            for row in _read_rows(connection, tables.SweepRequestRecord):
                sweep = row["sweep"]
                is_other = sweep in old and new.get(sweep, old[sweep]) != old[sweep]
                if row["taken"] is None and row["event"]["request"] not in known and not is_other:
                    session.execute(insert(tables.SweepRequestRecord), row)


def _find_lost(connection: Connection, read: Mapping[str, int]) -> list[LostJournal]:
    lost = []
    cursors = connection.execute(text("SELECT journal, position FROM journal_cursors"))
    for journal, applied in cursors.all():
        if applied > read.get(journal, 0):
            of_journal = {"journal": journal}
            named = (connection.scalars(text(query), of_journal) for query in _SWEEPS_OF_JOURNAL)
            sweeps = next(filter(None, map(tuple, named)), ())
            lost.append(LostJournal(journal, sweeps, applied, read.get(journal)))
    return sorted(lost, key=lambda each: (each.sweeps, each.id))


def _read_journals(connection: Connection) -> dict[str, str]:
    """Read which journal each sweep has, by the names of the sweeps."""
    rows = connection.execute(text("SELECT name, journal FROM sweeps"))
    return {row.name: row.journal for row in rows}


def _read_rows(connection: Connection, record: type[tables.Base]) -> list[dict[str, Any]]:
    """Read the rows of a table without ids; of an earlier schema, the columns that it has."""
    inspector, name = inspect(connection), record.__tablename__
    if not inspector.has_table(name):
        return []
    there = {column["name"] for column in inspector.get_columns(name)} - {"id"}
    columns = [column for column in record.__table__.c if column.name in there]
    return [dict(row) for row in connection.execute(select(*columns)).mappings()]


@contextmanager
def open_replacement(url: str, *, dry_run: bool = False) -> Iterator[Replacement]:
    """Make an empty leaderboard beside one, which is made if there is none.

    In a dry run none is made, and the new one is only to be compared with the old one. What
    an earlier process that was killed has left is removed.

    Raises:
        StoreDownError: if another process does the same, or the old one does not answer.
        StoreError: if the URL is of another kind of database, or of one that is no leaderboard, or
            the login is not that of the tables' owner.
        SweepRefusedError: if a driver holds a sweep.
    """
    parsed = parse_url(url)
    open_kind = _open_sqlite if parsed.get_backend_name() == "sqlite" else _open_postgres
    with translate_errors(parsed), open_kind(url, dry_run) as replacement:
        yield replacement


class _SQLiteReplacement(Replacement):
    def __init__(
        self, old: Engine, store: Store, *, is_readable: bool, file: Path, part: Path, is_kept: bool
    ) -> None:
        super().__init__(old, store, is_readable=is_readable)
        self._file, self._part, self._is_kept = file, part, is_kept

    def take_place(self, complete: Complete, accept: Accept) -> Path | None:
        with ExitStack() as stack:
            if self._is_readable:
                stack.enter_context(_hold_sqlite(self._file))
                with self._old.connect() as connection:
                    refuse_while_driven(connection)
            read = complete()
            if self._is_readable:
                with self._old.connect() as connection:
                    accept(_find_lost(connection, read))
                    self._copy_live_rows(connection)
            self._old.dispose()
            self.store.close()
            _finish_file(self._part)
            kept = None
            if self._is_kept:
                kept = self._file.with_name(f"{self._file.name}.before-{datetime.now(UTC):{TIME}}")
                kept.hardlink_to(self._file)
            put_database(self._part, self._file)
            return kept


@contextmanager
def _open_sqlite(url: str, dry_run: bool) -> Iterator[Replacement]:
    file = Path(str(parse_url(url).database)).absolute()
    part = file.with_name(f"{file.name}.new")
    file.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        try:
            opened.enter_context(FileLock(file.with_name(f"{file.name}.rebuild.lock"), timeout=0))
        except Timeout:
            raise StoreDownError("another process is rebuilding it; wait until it ends") from None
        if is_kept := file.exists():
            for left in file.parent.glob(f"{escape(file.name)}.before-*"):
                if left.samefile(file):  # by a process that was killed before it was replaced
                    left.unlink()
        try:
            is_readable = _prepare_old(url, dry_run)
        except StoreLostError:
            is_readable = False
        opened.callback(_remove_database, part)
        _remove_database(part)
        old = make_engine(parse_url(url))
        opened.callback(old.dispose)
        engine = make_engine(parse_url(sqlite_url(part)))
        # Only the rename needs to survive a power cut; before it, everything is on the disk.
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF"))
        make_tables(engine)
        store = opened.enter_context(Store(engine, private=True))
        yield _SQLiteReplacement(
            old, store, is_readable=is_readable, file=file, part=part, is_kept=is_kept
        )


def _remove_database(file: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)


def _prepare_old(url: str, dry_run: bool) -> bool:
    """Make the tables of a leaderboard if there is none, and refuse one that a driver uses.

    Returns whether there is one: in a dry run, none is made.
    """
    engine = make_engine(parse_url(url))
    try:
        if read_schema(engine) is None:
            if engine.dialect.name == "sqlite" and Path(str(engine.url.database)).is_file():
                with engine.connect() as connection:  # on PostgreSQL, other tables stay
                    names = inspect(connection).get_table_names()
                if names:
                    raise StoreError(
                        f"it is not a leaderboard: it has the tables {', '.join(names[:3])}"
                    )
            if dry_run:
                return False
            make_tables(engine)
        with translate_errors(engine.url), engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                result = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if result != "ok":
                    raise StoreLostError(str(result))
            refuse_while_driven(connection)
        return True
    finally:
        engine.dispose()


@contextmanager
def _hold_sqlite(file: Path) -> Iterator[None]:
    """Keep others from writing to a SQLite file, of which nothing is left in its log."""
    log = file.with_name(f"{file.name}-wal")
    deadline = time.monotonic() + BUSY_SECONDS
    with closing(sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)) as database:
        while True:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("BEGIN IMMEDIATE")
            if not log.exists() or log.stat().st_size == 0:
                break
            database.execute("ROLLBACK")
            if time.monotonic() > deadline:
                raise StoreDownError("other processes keep reading it; end them, and try again")
        yield


def _finish_file(file: Path) -> None:
    """Bring what is in the log of a SQLite file into it, and the file to the disk."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("rb") as written:
        os.fsync(written.fileno())


class _PostgresReplacement(Replacement):
    def take_place(self, complete: Complete, accept: Accept) -> Path | None:
        with self._old.begin() as connection:
            inspector = inspect(connection)
            old = connection.scalar(text("SELECT quote_ident(current_schema())"))
            there = inspector.get_table_names()
            named = ", ".join(
                f"{old}.{name}" for name in sorted(tables.Base.metadata.tables.keys() & there)
            )
            connection.execute(text(f"LOCK TABLE {named} IN ACCESS EXCLUSIVE MODE"))
            refuse_while_driven(connection)
            accept(_find_lost(connection, complete()))
            self._copy_live_rows(connection)
            self.store.close()
            _copy_owner_and_grants(connection, old)
            try:
                connection.execute(text(f"DROP TABLE {named}"))
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != _DEPENDED_ON:
                    raise
                detail = error.orig.diag.message_detail  # type: ignore[union-attr]
                raise StoreError(
                    "nothing was replaced, because other tables or views depend on the "
                    f"leaderboard's ({'; '.join(detail.splitlines())}); drop these constraints "
                    "and views, and recreate them afterwards"
                ) from error
            for name in inspector.get_table_names(schema=SCHEMA):
                connection.execute(text(f"ALTER TABLE {SCHEMA}.{name} SET SCHEMA {old}"))
            connection.execute(text(f"DROP SCHEMA {SCHEMA}"))
        return None


@contextmanager
def _open_postgres(url: str, dry_run: bool) -> Iterator[Replacement]:
    database = parse_url(url)
    options = f"{database.query.get('options', '')} -csearch_path={SCHEMA}".strip()
    with ExitStack() as opened:
        engine = make_engine(database)
        opened.callback(engine.dispose)
        lock = opened.enter_context(engine.connect())
        _require_owner(lock)
        if not lock.scalar(text(f"SELECT pg_try_advisory_lock({REBUILD_LOCK})")):
            raise StoreDownError("another process is rebuilding it; wait until it ends")
        lock.commit()
        is_readable = _prepare_old(url, dry_run)

        def drop_schema() -> None:
            with engine.begin() as connection:
                connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))

        drop_schema()
        opened.callback(drop_schema)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        beside = make_engine(database.update_query_dict({"options": options}))
        make_tables(beside)
        store = opened.enter_context(Store(beside, private=True))
        yield _PostgresReplacement(engine, store, is_readable=is_readable)


def _require_owner(connection: Connection) -> None:
    """Raise StoreError if this login must not drop the old tables, or make a schema for new ones.

    Without old tables, it names the owner of the database.
    """
    owner, login, is_allowed = connection.execute(
        text(
            "SELECT pg_get_userbyid(coalesce(c.relowner, d.datdba)), current_user, "
            "coalesce(pg_has_role(c.relowner, 'USAGE'), true) "
            "AND has_database_privilege(d.oid, 'CREATE') "
            "FROM pg_database d LEFT JOIN pg_class c ON c.oid = to_regclass(:table) "
            "WHERE d.datname = current_database()"
        ),
        {"table": tables.SchemaRecord.__tablename__},
    ).one()
    if not is_allowed:
        raise StoreError(
            f"rebuild needs the owner of the tables, {owner}, with CREATE on the database; this "
            f"login is {login}: {ROLES}"
        )


def _copy_owner_and_grants(connection: Connection, old: str) -> None:
    """Give the new tables and sequences the owner and the grants of those in the old schema."""
    grants = connection.execute(
        text(
            "SELECT DISTINCT c.relkind, a.privilege_type, "
            "CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END "
            "FROM pg_class c CROSS JOIN aclexplode(c.relacl) a "
            "LEFT JOIN pg_roles r ON r.oid = a.grantee "
            "WHERE c.relnamespace = CAST(:old AS regnamespace) AND c.relkind IN ('r', 'S') "
            "AND a.grantee <> c.relowner"
        ),
        {"old": old},
    ).all()
    owner = connection.scalar(
        text("SELECT CAST(relowner AS regrole) FROM pg_class WHERE oid = CAST(:table AS regclass)"),
        {"table": f"{old}.{tables.SchemaRecord.__tablename__}"},
    )
    for kind, privilege, role in grants:
        kinds = "TABLES" if kind == "r" else "SEQUENCES"
        connection.execute(text(f"GRANT {privilege} ON ALL {kinds} IN SCHEMA {SCHEMA} TO {role}"))
    for name in inspect(connection).get_table_names(schema=SCHEMA):
        connection.execute(text(f"ALTER TABLE {SCHEMA}.{name} OWNER TO {owner}"))
