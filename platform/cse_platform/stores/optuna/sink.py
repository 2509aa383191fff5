"""Mirror searches to the search store, which is Optuna's own and read by optuna-dashboard."""

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from sqlalchemy import StaticPool, create_engine, make_url, text
from sqlalchemy import event as database_events
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError

from cse_platform.databases import connection_timeouts, explain_denial, sqlite_file
from cse_platform.errors import StoreDownError, StoreError
from cse_platform.secrets import mask_text, mask_url
from cse_platform.stores.optuna.trials import NUMBER, RETRY_OF, SOURCE, build_trial, explain_closing
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import Event, SweepStarted, TrialEvent
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

JOURNAL = "journal"
"""User attribute of a study with the id of the journal that it mirrors."""

OPENING_LOCK = 0x0C5E_0BE4
"""Key of the PostgreSQL advisory lock; no other program on the server should use it."""


def open_search_store(url: str) -> RDBStorage:
    """Open a search store, and create its tables if they are missing.

    Raises:
        StoreError: if the URL is invalid, its driver is not installed, or its schema is newer.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        options = {"connect_args": connection_timeouts(make_url(url))}
        with _lock_store(url, options) as options:
            storage = RDBStorage(url, engine_kwargs=options)
    except (ImportError, ValueError, RuntimeError, OSError) as error:  # driver, port, schema, lock
        reason = explain_denial(url, error) or error
        raise StoreError(f"search store {mask_url(url)}: {reason}") from error
    if storage.engine.dialect.name == "sqlite":
        # SQLite then syncs to disk at checkpoints of its log, not at each commit. What a power cut
        # loses is restored from the journal, which is synced by itself.
        normal = "PRAGMA synchronous=NORMAL"
        database_events.listen(storage.engine, "connect", lambda raw, _: raw.execute(normal))
        storage.engine.dispose()  # connections that are already open lack the setting
        with storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return storage


def check_search_url(url: str) -> None:
    """Raise StoreError unless a URL names a database that a search store can be; do not connect."""
    try:
        create_engine(url).dispose()
    except (ArgumentError, ImportError, ValueError) as error:  # form, driver, port
        raise StoreError(f"search store {mask_url(url)}: {mask_text(str(error))}") from error


class SearchStoreSink:
    """A sink of the journal: a study with the sweep's name and the trials that have ended.

    No search asks it. Trials are added in the order in which they ended, each whole, so the number
    of trials in the study says how far it has come. Their numbers in the sweep are a user attribute
    of them. Connections are closed after each batch, so that a SQLite file is complete, and may be
    deleted or replaced at any time.
    """

    name = "search store"
    can_be_refilled = True
    pause = 5.0

    def __init__(self, stores: SweepStores, spec: SweepSpec, *, file: Path | None = None) -> None:
        """`file` is the journal, which can be in another runs folder."""
        self._stores, self._spec, self._file = stores, spec, file or stores.journal
        self._storage: RDBStorage | None = None
        self._refused: tuple[str | None, int] | None = None
        """The journal and the number of trials of a study of this name that is another's."""
        self._return_to_start()

    def _return_to_start(self) -> None:
        """Go back to the beginning of the journal."""
        self._history, self._position = History(), 0
        self._ended: set[int] = set()
        """Numbers in the search of the trials that have ended up to the position."""

    def position(self, journal: str) -> int:
        """Return the offset up to which the study mirrors the journal; 0 if there is no study.

        Raises StoreError if the store cannot be opened, or outside the runs folder has another
        study of this name. In the runs folder that is replaced.
        """
        url, runs = self._stores.search, self._stores.runs.resolve()
        with self._open_storage() as storage:
            study = self._find_study(storage)
            state = storage.get_study_user_attrs(study).get(JOURNAL), storage.get_n_trials(study)
            if state == self._refused or not self._move_behind(storage, study, journal):
                own = url.startswith("sqlite") and sqlite_file(url).resolve().is_relative_to(runs)
                if not own:
                    self._refused = state  # the journal is not read again for the same study
                    raise StoreError(
                        f"search store {mask_url(url)} has a search named {self._spec.sweep!r} "
                        "from another journal, or from another copy of this one; this sweep "
                        "continues without it, or choose another search store: --set "
                        "stores.search=URL"
                    )
                storage.delete_study(study)
                self._move_behind(storage, self._find_study(storage), journal)
        return self._position

    def _find_study(self, storage: RDBStorage) -> int:
        """Find the study with the sweep's name, or create it."""
        try:
            return storage.get_study_id_from_name(self._spec.sweep)
        except KeyError:
            return storage.create_new_study([StudyDirection.MAXIMIZE], self._spec.sweep)

    def _move_behind(self, storage: RDBStorage, study: int, journal: str) -> bool:
        """Move to where the study ends. Returns False if it is not of this journal.

        A copy of the journal, which has the same id, can have gone on: then its last trial differs.
        """
        count = storage.get_n_trials(study)
        owner = storage.get_study_user_attrs(study).get(JOURNAL)
        if owner is None and count == 0:  # it is new
            storage.set_study_user_attr(study, JOURNAL, journal)
        elif owner != journal:
            return False
        if count == len(self._ended):
            return True
        self._return_to_start()
        events, last = read_journal(self._file), None
        while len(self._ended) < count and (entry := next(events, None)) is not None:
            last = self._follow_event(*entry) or last
        if last is None or len(self._ended) < count:
            return count == 0
        key = storage.get_trial_id_from_study_id_trial_number(study, count - 1)
        stored, own = (
            (trial.user_attrs.get(NUMBER), trial.state, trial.params, trial.values)
            for trial in (storage.get_trial(key), last)
        )
        return stored == own

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Add the trials that end within (end offset, event) pairs, and what the search learns."""
        trials, learned = [], None
        for end, event in entries:
            if end > self._position and (trial := self._follow_event(end, event)) is not None:
                trials.append(trial)
            if isinstance(event, SweepStarted) and event.learned:
                learned = [trial.source for trial in event.learned]
        if not trials and learned is None:
            return
        with self._open_storage() as storage:
            study = optuna.load_study(study_name=self._spec.sweep, storage=storage)
            try:
                study.add_trials(trials)
            except ValueError:  # Optuna knows one set of choices, and the sweep's are others now
                optuna.delete_study(study_name=self._spec.sweep, storage=storage)
                raise
            if learned is not None:
                study.set_user_attr(SOURCE, learned)

    def _follow_event(self, end: int, event: Event) -> FrozenTrial | None:
        """Move behind an event. Returns the trial of the search that ends with it, or None."""
        self._history.apply(event)
        self._position = end
        trial = self._history.trials.get(event.trial) if isinstance(event, TrialEvent) else None
        number = None if trial is None else trial.search_number
        if trial is None or number is None or number in self._ended:
            return None
        if trial.state == "RUNNING" and explain_closing(trial, self._spec) is None:
            return None
        self._ended.add(number)
        built = build_trial(trial, self._spec)
        built.user_attrs.pop(RETRY_OF, None)  # in the order of their ends trials have other numbers
        built.set_user_attr(NUMBER, trial.number)
        return built

    @contextmanager
    def _open_storage(self) -> Iterator[RDBStorage]:
        """Open the store; after any error it is opened anew, and its trials are counted."""
        try:
            with _connect_store(self._stores.search, self._storage) as self._storage:
                yield self._storage
        except Exception:
            self._storage = None
            self._return_to_start()
            raise


@contextmanager
def _connect_store(url: str, opened: RDBStorage | None = None) -> Iterator[RDBStorage]:
    """Open a store unless it is open, and disconnect at the end.

    Raises StoreDownError if a server does not answer now, for which a sweep's end waits, and
    StoreError instead of other errors of the database.
    """
    try:
        storage = opened or open_search_store(url)
        try:
            yield storage
        finally:
            storage.remove_session()
            storage.engine.dispose()
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, SQLAlchemyError) else error
        reason = (str(getattr(cause, "orig", cause)).splitlines() or ["?"])[0]
        reason = explain_denial(url, cause) or reason
        if type(cause) is DatabaseError:  # SQLite's for garbage and for a torn file
            reason += "; cse-leaderboard rebuild --only search renames it and makes a new one"
        is_down = isinstance(cause, OperationalError) and not url.startswith("sqlite")
        kind = StoreDownError if is_down else StoreError
        raise kind(f"search store {mask_url(url)}: {reason}") from error


@contextmanager
def open_stored_study(
    url: str, name: str, journals: Container[str]
) -> Iterator[tuple[RDBStorage, int] | None]:
    """Open the study of that name if it belongs to one of these journals.

    Yields the store and the study's id there, or None if there is no such study. Raises StoreError
    if the store cannot be opened, or does not answer.
    """
    try:
        is_missing = url.startswith("sqlite") and not sqlite_file(url).is_file()
    except OSError as error:  # in a folder that is closed to this user
        reason = explain_denial(url, error) or error
        raise StoreError(f"search store {mask_url(url)}: {reason}") from error
    if is_missing:
        yield None
        return
    with _connect_store(url) as storage:
        study, owner = None, None
        with suppress(KeyError):
            study = storage.get_study_id_from_name(name)
            owner = storage.get_study_user_attrs(study).get(JOURNAL)
        yield None if study is None or owner not in journals else (storage, study)


@contextmanager
def _lock_store(url: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Lock the store, because two drivers that create its tables at once would conflict.

    Yields the options of its engine.
    """
    address = make_url(url)
    file = Path(address.database or "")
    if (
        address.get_backend_name() == "sqlite" and file.parent.is_dir()
    ):  # otherwise the lock would create the folder
        with FileLock(f"{file}.lock"):
            file.touch()  # SQLite would create it without write permission for the group
            yield options
    elif address.get_backend_name() == "postgresql":
        # One connection serves for the lock and the storage, as roles can have few: Optuna opens
        # up to three to make its tables.
        engine = create_engine(url, poolclass=StaticPool, **options)
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SELECT pg_advisory_lock({OPENING_LOCK})"))
            yield {"pool": engine.pool}
            with engine.begin() as connection:
                connection.execute(text(f"SELECT pg_advisory_unlock({OPENING_LOCK})"))
        except BaseException:
            engine.dispose()
            raise
    else:
        yield options
