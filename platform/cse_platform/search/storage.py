"""Open the search store, which is Optuna's, and cache its trials."""

import copy
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import optuna
from filelock import FileLock
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import create_engine, event, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from cse_platform.errors import StoreDownError, StoreError
from cse_platform.postgres import connection_timeouts
from cse_platform.secrets import mask_url

JOURNAL = "journal"
"""User attribute of a study with the id of the journal that it belongs to."""

OPENING_LOCK = 0x0C5E_0BE4
"""Key of the PostgreSQL advisory lock; no other program on the server should use it."""


def open_search_store(url: str) -> RDBStorage:
    """Open a search store, and create its tables if they are missing.

    Raises:
        StoreError: if the URL is invalid, its driver is not installed, or its schema is newer.
    """
    try:
        with _lock_store(url):
            storage = RDBStorage(url, engine_kwargs=_build_engine_options(url))
    except (ImportError, ValueError, RuntimeError, OSError) as error:  # driver, port, schema, lock
        raise StoreError(f"search store {mask_url(url)}: {error}") from error
    if storage.engine.dialect.name == "sqlite":
        event.listen(storage.engine, "connect", _leave_syncing_to_checkpoints)
        storage.engine.dispose()  # connections that are already open lack the setting
        with storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return storage


@contextmanager
def open_stored_study(url: str, name: str, journals: Container[str]) -> Iterator["StoredStudy"]:
    """Open the study of that name if it belongs to one of these journals.

    Raises:
        StoreError: if the store cannot be opened.
        StoreDownError: if it does not answer.
    """
    file = Path(make_url(url).database or "")
    if url.startswith("sqlite") and not file.is_file():
        yield StoredStudy(None)
        return
    storage = open_search_store(url)
    try:
        yield StoredStudy(storage, name, journals)
    except (StorageInternalError, SQLAlchemyError) as error:
        cause = (str(error.__cause__ or error).splitlines() or ["?"])[0]
        raise StoreDownError(f"search store {mask_url(url)}: {cause}") from error
    finally:
        storage.remove_session()
        storage.engine.dispose()


class StoredStudy:
    """A stored study to be counted or deleted; there may be none."""

    def __init__(
        self, storage: RDBStorage | None, name: str = "", journals: Container[str] = ()
    ) -> None:
        self._storage = storage
        self._id = None if storage is None else _find_study(storage, name, journals)

    @property
    def trials(self) -> int | None:
        """Number of the study's trials; None if there is no study."""
        if self._storage is None or self._id is None:
            return None
        return self._storage.get_n_trials(self._id)

    def delete(self) -> None:
        """Delete the study in one transaction; do nothing if there is none."""
        if self._storage is not None and self._id is not None:
            self._storage.delete_study(self._id)


def _find_study(storage: RDBStorage, name: str, journals: Container[str]) -> int | None:
    try:
        study = storage.get_study_id_from_name(name)
    except KeyError:
        return None
    return study if storage.get_study_user_attrs(study).get(JOURNAL) in journals else None


def _leave_syncing_to_checkpoints(connection: Any, _record: Any) -> None:
    """Let SQLite sync to disk only at checkpoints of its log, not at each commit.

    A power cut can then lose the last commits, but does not damage the store. What is lost is
    restored from the journal, which is synced by itself.
    """
    connection.execute("PRAGMA synchronous=NORMAL")


def refuse_unreachable(url: str) -> None:
    """Raise StoreError unless the search store answers; a SQLite file may be missing."""
    if url.startswith("sqlite"):
        return
    try:
        with create_engine(url, **_build_engine_options(url)).connect():
            pass
    except (SQLAlchemyError, ImportError) as error:
        cause = (str(error).splitlines() or ["?"])[0]
        raise StoreDownError(f"search store {mask_url(url)}: {cause}") from error


@contextmanager
def _lock_store(url: str) -> Iterator[None]:
    """Lock the store, because two drivers that create its tables at once would conflict."""
    address = make_url(url)
    file = Path(address.database or "")
    if (
        address.get_backend_name() == "sqlite" and file.parent.is_dir()
    ):  # otherwise the lock would create the folder
        with FileLock(f"{file}.lock"):
            file.touch()  # SQLite would create it without write permission for the group
            yield
    elif address.get_backend_name() == "postgresql":
        with create_engine(url, **_build_engine_options(url)).begin() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})"))
            yield
    else:
        yield


def _build_engine_options(url: str) -> dict[str, Any]:
    return {"pool_pre_ping": True, "connect_args": connection_timeouts(make_url(url))}


_SHARE = 0.02
"""The largest share of the time that may be spent on reading all trials again."""


class TrialCache:
    """Caches a study's trials: reads all of them now and then, and adds this driver's own writes.

    Optuna reads each running trial at every access, which takes seconds with thousands of them.
    `read` returns all trials of the study.
    """

    def __init__(self, read: Callable[[], list[FrozenTrial]]) -> None:
        self._read = read
        self._known: dict[int, FrozenTrial] = {}
        self._took, self._read_at = 0.0, float("-inf")

    def list_all(self) -> list[FrozenTrial]:
        """List all trials by number; raises what `read` raises."""
        if time.monotonic() > self._read_at + self._took / _SHARE:
            began = time.monotonic()
            self._known = {trial.number: trial for trial in self._read()}
            self._read_at = time.monotonic()
            self._took = self._read_at - began
        return [self._known[number] for number in sorted(self._known)]

    def get(self, number: int) -> FrozenTrial | None:
        """Return a cached trial; None if it must be read from the store."""
        return self._known.get(number)

    def put(self, trial: FrozenTrial) -> None:
        """Cache a trial as it is stored now."""
        self._known[trial.number] = trial

    def wrap_study(self, study: optuna.Study) -> optuna.Study:
        """Wrap the study for a pruner, which accesses all trials at each report."""
        wrapped = copy.copy(study)
        wrapped._storage = cast(BaseStorage, _CachedStorage(study._storage, self))
        return wrapped

    def clear(self) -> None:
        """Drop the cache, so that the next access reads all trials."""
        self._known.clear()
        self._read_at = float("-inf")


class _CachedStorage:
    """A study's storage that answers from the cache; it has only what pruners call."""

    def __init__(self, storage: BaseStorage, cache: TrialCache) -> None:
        self._storage, self._cache = storage, cache
        self.get_study_id_from_name = storage.get_study_id_from_name
        self.get_study_name_from_id = storage.get_study_name_from_id
        self.get_study_directions = storage.get_study_directions

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        trials = [t for t in self._cache.list_all() if states is None or t.state in states]
        return copy.deepcopy(trials) if deepcopy else trials

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        self._storage.set_trial_system_attr(trial_id, key, value)
        self._cache.put(self._storage.get_trial(trial_id))
