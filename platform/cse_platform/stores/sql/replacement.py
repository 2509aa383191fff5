"""Makes a leaderboard anew beside an old one, and then lets it take the old one's place.

A SQLite file is renamed; on PostgreSQL, the tables move from a schema of their own in a
transaction. A kill at any moment leaves the old or the new one.
"""

import logging
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, delete, event, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import aliased

from cse_platform.databases import put_database, sqlite_url
from cse_platform.errors import StoreDownError, StoreError, StoreLostError
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
from cse_platform.stores.sql.tables import Base, SchemaRecord, SweepRequestRecord

_log = logging.getLogger(__name__)

SCHEMA = "cse_rebuild"
"""The schema of PostgreSQL in which the new tables are filled."""
REBUILD_LOCK = 0x0C5E_AE30
"""Key of an advisory lock; arbitrary, but not used by another program on the server."""

_TABLES = {
    *Base.metadata.tables,
    *("contests", "test_releases", "other_attempts", "other_points"),
}
"""The tables of a leaderboard of this schema and of earlier ones."""
_DEPENDED_ON = "2BP01"
"""PostgreSQL's code of the error that other objects depend on what is to be dropped."""

_OF_TRIAL = (
    "SELECT s.name, count(*) FROM {old}.sweeps s JOIN {old}.sweep_trials l ON l.sweep_id = s.id "
    "JOIN {old}.trials t ON t.id = l.trial_id "
)
_SCORES = "JOIN {old}.attempts a ON a.trial_id = t.id JOIN {old}.scores o ON o.attempt_id = a.id"
_OLD_SCORES = "JOIN {old}.scores o ON o.trial_id = t.id"
_BY_NAME = (
    "AND n.about = o.about AND n.name = o.name AND n.field = o.field AND n.word = o.word "
    "AND n.time >= o.time"
)
_LACKING: Mapping[str, tuple[str, ...]] = {
    "trials": (
        _OF_TRIAL + "WHERE NOT EXISTS (SELECT 1 FROM {new}.sweeps m JOIN {new}.sweep_trials k "
        "ON k.sweep_id = m.id JOIN {new}.trials n ON n.id = k.trial_id "
        "WHERE m.name = s.name AND n.key = t.key) GROUP BY s.name",
    ),
    "scores": (
        _OF_TRIAL + "{scores} WHERE NOT EXISTS (SELECT 1 FROM {new}.trials n "
        "JOIN {new}.attempts b ON b.trial_id = n.id JOIN {new}.scores c ON c.attempt_id = b.id "
        "WHERE n.key = t.key AND c.task = o.task AND c.split = o.split AND c.metric = o.metric "
        "AND c.identity = o.identity) GROUP BY s.name",
    ),
    "openings of test sets": (
        _OF_TRIAL + "JOIN {old}.{accesses} o ON o.trial_id = t.id WHERE NOT EXISTS "
        "(SELECT 1 FROM {new}.trials n JOIN {new}.test_accesses c ON c.trial_id = n.id "
        "WHERE n.key = t.key AND c.opened = o.opened AND c.who = o.who) GROUP BY s.name",
    ),
    "notes, tags and stars": (
        _OF_TRIAL + "JOIN {old}.configurations f ON f.id = t.configuration_id "
        "JOIN {old}.annotations o ON (o.about = 'trial' AND o.name = t.key) "
        "OR (o.about = 'configuration' AND o.name = f.hash) "
        f"WHERE NOT EXISTS (SELECT 1 FROM {{new}}.annotations n WHERE 1 = 1 {_BY_NAME}) "
        "GROUP BY s.name",
        "SELECT s.name, count(*) FROM {old}.sweeps s JOIN {old}.annotations o "
        "ON o.about = 'sweep' AND o.name = s.name "
        f"WHERE NOT EXISTS (SELECT 1 FROM {{new}}.annotations n WHERE 1 = 1 {_BY_NAME}) "
        "GROUP BY s.name",
    ),
}
"""Queries that count, by sweep, the rows of the old store that the new one lacks."""
_OTHER = "SELECT 1 FROM {new}.sweeps n WHERE n.name = o.sweep AND n.journal <> "
_LIVE = (
    ("sweep_leases", f"NOT EXISTS ({_OTHER} o.journal)"),
    (
        "sweep_requests",
        f"o.taken IS NULL AND NOT EXISTS ({_OTHER} "
        "(SELECT s.journal FROM {old}.sweeps s WHERE s.name = o.sweep))",
    ),
)
"""Tables with rows that no journal holds, and which of their rows those are: not those about a
sweep of another journal. A lease also says, once it is released, from which journal its sweep goes
on.
"""
_COPY, _TAKEN = aliased(SweepRequestRecord), aliased(SweepRequestRecord)
_FORGET_TAKEN = delete(SweepRequestRecord).where(
    SweepRequestRecord.id.in_(
        select(_COPY.id)
        .join(_TAKEN, _TAKEN.sweep == _COPY.sweep)
        .where(
            _COPY.taken.is_(None),
            _TAKEN.taken.is_not(None),
            _TAKEN.event["request"].as_string() == _COPY.event["request"].as_string(),
        )
    )
)
"""Deletes the waiting copies of requests that a journal has."""
Counts = Mapping[str, int]
"""Numbers of sweeps, trials and scores."""
Lacking = Mapping[str, Mapping[str, int]]
"""What an old leaderboard has and the new one lacks: counts by sweep and kind of row.

Sweeps of which nothing is lacking are absent; one without any trial has no counts.
"""


class Replacement(ABC):
    """A new leaderboard beside an old one."""

    def __init__(
        self, engine: Engine, store: Store, old: str, new: str, *, is_readable: bool
    ) -> None:
        self.store = store
        """The new leaderboard, which nobody else writes to."""
        self._engine = engine
        self._schemas = {"old": old, "new": new}
        self._is_readable = is_readable
        """Whether there is an old leaderboard, and one that can be read."""

    def count_rows(self, which: str) -> Counts:
        """Count the rows of the `old` or the `new` leaderboard."""
        if which == "old" and not self._is_readable:
            return dict.fromkeys(self.count_rows("new"), 0)
        with self._connect_both() as connection:
            return {
                name: connection.scalar(text(f"SELECT count(*) FROM {self._schemas[which]}.{name}"))
                for name in ("sweeps", "trials", "scores")
            }

    def find_lacking(self) -> Lacking:
        """Count what the old leaderboard has and the new one lacks."""
        if not self._is_readable:
            return {}
        with self._connect_both() as connection:
            return self._find_lacking(connection)

    def _find_lacking(self, connection: Connection) -> Lacking:
        lacking: dict[str, dict[str, int]] = defaultdict(dict)
        there = inspect(connection).get_table_names(schema=self._schemas["old"])
        scores, accesses = _OLD_SCORES, "test_releases"
        if "attempts" in there:  # else it is of an earlier schema
            scores, accesses = _SCORES, "test_accesses"
        named = self._schemas | {"scores": scores.format(**self._schemas), "accesses": accesses}
        query = "SELECT name FROM {old}.sweeps EXCEPT SELECT name FROM {new}.sweeps"
        for name in connection.scalars(text(query.format(**named))):
            lacking[name] = {}
        for kind, queries in _LACKING.items():
            if kind.startswith("notes") and "annotations" not in there:  # of an early schema
                continue
            for query in queries:
                for name, count in connection.execute(text(query.format(**named))):
                    lacking[name][kind] = lacking[name].get(kind, 0) + count
        return dict(sorted(lacking.items()))

    @abstractmethod
    def take_place(self, complete: Callable[[], None], accept: Callable[[Lacking], None]) -> None:
        """Put the new leaderboard in the place of the old one, with the old one's live state.

        Args:
            complete: brings the new leaderboard up to date, while nobody writes to the old one.
            accept: raises an error if the old one must stay, given what the new one then lacks.
        """

    @contextmanager
    def _connect_both(self) -> Iterator[Connection]:
        """Connect to both leaderboards at once."""
        with self._engine.connect() as connection:
            yield connection

    def _copy_live_rows(self, connection: Connection) -> None:
        inspector = inspect(connection)
        for name, which in _LIVE:
            if not inspector.has_table(name, schema=self._schemas["old"]):
                continue
            known = {
                column["name"]
                for column in inspector.get_columns(name, schema=self._schemas["old"])
            }
            columns = ", ".join(
                f'"{column.name}"'
                for column in Base.metadata.tables[name].c
                if column.name in known and column.name != "id"
            )
            connection.execute(
                text(
                    f"INSERT INTO {self._schemas['new']}.{name} ({columns}) "
                    f"SELECT {columns} FROM {self._schemas['old']}.{name} o WHERE "
                    + which.format(**self._schemas)
                )
            )
        into_new = {"schema_translate_map": {None: self._schemas["new"]}}
        connection.execute(_FORGET_TAKEN, execution_options=into_new)


@contextmanager
def open_replacement(url: str, *, dry_run: bool = False) -> Iterator[Replacement]:
    """Make an empty leaderboard beside one, which is made if there is none.

    In a dry run none is made, and the new one is only to be compared with the old one. What
    an earlier process that was killed has left is removed.

    Raises:
        StoreDownError: if another process does the same, or the old one does not answer.
        StoreError: if the URL is of another kind of database, or of one that is no leaderboard.
        SweepRefusedError: if a driver holds a sweep.
    """
    parsed = parse_url(url)
    open_kind = _open_sqlite if parsed.get_backend_name() == "sqlite" else _open_postgres
    with translate_errors(parsed), open_kind(url, dry_run) as replacement:
        yield replacement


class _SQLiteReplacement(Replacement):
    def __init__(
        self, engine: Engine, store: Store, file: Path, part: Path, *, is_readable: bool
    ) -> None:
        super().__init__(engine, store, "old", "main", is_readable=is_readable)
        self._file, self._part = file, part

    @contextmanager
    def _connect_both(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            if not self._is_readable:
                yield connection
                return
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("ATTACH DATABASE ? AS old", [str(self._file)])
            try:
                yield connection
            finally:
                connection.commit()
                driver.execute("DETACH DATABASE old")

    def take_place(self, complete: Callable[[], None], accept: Callable[[Lacking], None]) -> None:
        if not self._is_readable:
            complete()
            self.store.close()
            _finish_file(self._part)
            kept = self._file.with_name(f"{self._file.name}.damaged")
            kept.unlink(missing_ok=True)
            kept.hardlink_to(self._file)
            _log.warning("%s cannot be read; it is now %s", self._file, kept)
            put_database(self._part, self._file)
            return
        with _hold_sqlite(self._file):
            old = make_engine(parse_url(sqlite_url(self._file)))
            with old.connect() as connection:
                refuse_while_driven(connection)
            old.dispose()
            complete()
            with self._connect_both() as connection:
                accept(self._find_lacking(connection))
                self._copy_live_rows(connection)
            self.store.close()
            _finish_file(self._part)
            put_database(self._part, self._file)


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
        try:
            is_readable = _prepare_old(url, dry_run)
        except StoreLostError:
            is_readable = False
        opened.callback(_remove_database, part)
        _remove_database(part)
        engine = make_engine(parse_url(sqlite_url(part)))
        # Only the rename needs to survive a power cut; before it, everything is on the disk.
        event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous = OFF"))
        make_tables(engine)
        store = opened.enter_context(Store(engine, private=True))
        yield _SQLiteReplacement(engine, store, file, part, is_readable=is_readable)


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
    with closing(sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)) as held:
        while True:
            held.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            held.execute("BEGIN IMMEDIATE")
            if not log.exists() or log.stat().st_size == 0:
                break
            held.execute("ROLLBACK")
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
    def take_place(self, complete: Callable[[], None], accept: Callable[[Lacking], None]) -> None:
        old, new = self._schemas["old"], self._schemas["new"]
        with self._engine.begin() as connection:
            inspector = inspect(connection)
            there = inspector.get_table_names(connection.scalar(text("SELECT current_schema()")))
            named = ", ".join(f"{old}.{name}" for name in sorted(_TABLES.intersection(there)))
            connection.execute(text(f"LOCK TABLE {named} IN ACCESS EXCLUSIVE MODE"))
            refuse_while_driven(connection)
            complete()
            accept(self._find_lacking(connection))
            self.store.close()
            self._copy_live_rows(connection)
            _copy_owner_and_grants(connection, old, new)
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
            for name in inspector.get_table_names(schema=new):
                connection.execute(text(f"ALTER TABLE {new}.{name} SET SCHEMA {old}"))
            connection.execute(text(f"DROP SCHEMA {new}"))


@contextmanager
def _open_postgres(url: str, dry_run: bool) -> Iterator[Replacement]:
    database = parse_url(url)
    options = f"{database.query.get('options', '')} -csearch_path={SCHEMA}".strip()
    with ExitStack() as opened:
        engine = make_engine(database)
        opened.callback(engine.dispose)
        lock = opened.enter_context(engine.connect())
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
            old = connection.scalar(text("SELECT quote_ident(current_schema())"))
            connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        beside = make_engine(database.update_query_dict({"options": options}))
        make_tables(beside)
        store = opened.enter_context(Store(beside, private=True))
        yield _PostgresReplacement(engine, store, str(old), SCHEMA, is_readable=is_readable)


def _copy_owner_and_grants(connection: Connection, old: str, new: str) -> None:
    """Give the tables and sequences of a schema the owner and the grants of those of another."""
    names: dict[str, Any] = {"old": old, "new": new}
    grants = connection.execute(
        text(
            "SELECT DISTINCT c.relkind, a.privilege_type, "
            "CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END "
            "FROM pg_class c CROSS JOIN aclexplode(c.relacl) a "
            "LEFT JOIN pg_roles r ON r.oid = a.grantee "
            "WHERE c.relnamespace = CAST(:old AS regnamespace) AND c.relkind IN ('r', 'S') "
            "AND a.grantee <> c.relowner"
        ),
        names,
    ).all()
    owner = connection.scalar(
        text("SELECT CAST(relowner AS regrole) FROM pg_class WHERE oid = CAST(:table AS regclass)"),
        {"table": f"{old}.{SchemaRecord.__tablename__}"},
    )
    for kind, privilege, role in grants:
        kinds = "TABLES" if kind == "r" else "SEQUENCES"
        connection.execute(text(f"GRANT {privilege} ON ALL {kinds} IN SCHEMA {new} TO {role}"))
    for name in inspect(connection).get_table_names(schema=new):
        connection.execute(text(f"ALTER TABLE {new}.{name} OWNER TO {owner}"))
