import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import optuna
import pytest
from in_process import new_spec
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial
from sqlalchemy import create_engine, make_url, text

from cse_platform.databases import CONNECTIONS
from cse_platform.errors import StoreDownError, StoreError
from cse_platform.stores.optuna.sink import SearchStoreSink, open_search_store, open_stored_study
from cse_platform.stores.sql.store import Store as LeaderboardStore
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import TrialFinished
from cse_platform.tracking.journal import read_journal, read_journal_id

DRIVERS = 3
CONFIRMED: dict[str, Any] = {
    "search": {"sampler": "qmc", "trials": 5},
    "pruner": {"kind": "successive_halving", "min_step": 1},
    "seeds": {"confirm": {"top": 1, "seeds": [0]}},
}


class Store:
    """A search store in a file, which is filled from the journal of a sweep that has ended."""

    def __init__(self, file: Path, drive: Any, **changes: Any) -> None:
        self.file, self.url = file, f"sqlite:///{file}"
        stores = replace(drive.driver.stores, search=self.url, **changes)
        self.journal, self.id = stores.journal, read_journal_id(stores.journal)
        self.sink = SearchStoreSink(stores, drive.spec)

    def fill(self, *, until: float = 1.0, batch: int = 3) -> None:
        """Apply the journal as a recorder does, or a first part of it."""
        events = list(read_journal(self.journal))
        position = self.sink.position(self.id)
        lacking = [e for e in events[: round(until * len(events))] if e[0] > position]
        for begin in range(0, len(lacking), batch):
            self.sink.apply(self.id, lacking[begin : begin + batch])

    def read(self) -> list[Mapping[str, Any]]:
        return told(optuna.load_study(study_name="small", storage=self.url))


def told(study: optuna.Study) -> list[Mapping[str, Any]]:
    return [
        {
            "state": t.state, "values": t.values, "params": t.params, "user": t.user_attrs,
            "steps": t.intermediate_values, "system": t.system_attrs, "end": t.datetime_complete,
        }
        for t in study.trials
    ]  # fmt: skip


@pytest.fixture
def ended(start) -> Any:
    """A sweep with two trials at once: its second trial fails first, and a confirmation follows."""
    drive = start(**CONFIRMED, capacity=2, folder="runs/sweeps/small")
    _, second = drive.start()
    drive.fail(second.key, "boom", crashed=False)
    return drive.run().close()


@pytest.fixture
def expected(ended) -> list[Mapping[str, Any]]:
    """The trials of the search by their ends."""
    numbers = {trial.search_number: trial.number for trial in ended.trials}
    trials = [
        {**trial, "user": {**trial["user"], "number": numbers[number]}}
        for number, trial in enumerate(told(ended.study()))
    ]
    ends = [event.trial for event in ended.events() if isinstance(event, TrialFinished)]
    by_key = {trial.key: trial.search_number for trial in ended.trials}
    order = [number for key in ends if (number := by_key[key]) is not None]
    assert order != sorted(order) and len(order) == len(trials) == 5
    ignored = {"end": None}  # the study in memory notes the time at which it is told
    return [trials[number] | ignored for number in order]


def without_ends(trials: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    assert all(trial["end"] for trial in trials)
    return [{**trial, "end": None} for trial in trials]


def test_it_has_the_trials_in_the_order_of_their_ends(ended, expected, tmp_path) -> None:
    store = Store(tmp_path / "search.db", ended)
    store.fill(until=0.4)
    store.fill()
    assert not list(tmp_path.glob("search.db-*"))  # complete in one file
    assert without_ends(store.read()) == expected
    # Another process goes on where this one was, and a second time adds nothing.
    again = Store(store.file, ended)
    again.fill()
    again.sink.apply(again.id, list(read_journal(store.journal)))
    assert without_ends(store.read()) == expected


def test_it_may_be_deleted_an_older_copy_or_garbage_in_the_midst(ended, expected, tmp_path) -> None:
    store = Store(tmp_path / "search.db", ended)
    store.fill(until=0.5)
    older = shutil.copy(store.file, tmp_path / "older.db")
    store.fill(until=0.7)
    store.file.unlink()
    with pytest.raises(StoreError, match=r"^search store .*no such table"):
        store.fill()
    store.fill(until=0.8)
    shutil.copy(older, store.file)
    store.fill(until=0.9)
    store.file.write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreError, match=r"^search store .*not a database; .*--only search"):
        store.fill()
    store.file.unlink()
    store.fill()
    assert without_ends(store.read()) == expected


def test_a_batch_that_was_cut_off_is_completed(ended, expected, tmp_path, monkeypatch) -> None:
    store = Store(tmp_path / "search.db", ended)
    add, calls = optuna.Study.add_trial, count(1)

    def fail_third(study: optuna.Study, trial: FrozenTrial) -> None:
        if next(calls) == 3:
            raise StorageInternalError("the disk is full")
        add(study, trial)

    with monkeypatch.context() as patched:
        patched.setattr(optuna.Study, "add_trial", fail_third)
        with pytest.raises(StoreError, match="the disk is full"):
            store.fill(batch=500)
    assert len(store.read()) == 2
    store.fill()
    assert without_ends(store.read()) == expected


def test_other_choices_or_trials_make_the_study_anew(ended, expected, tmp_path) -> None:
    store = Store(tmp_path / "runs" / "search.db", ended)
    store.fill(until=0.5)
    wider = Store(store.file, ended)
    space = {"temperature": {"low": 0.01, "high": 1.0, "log": True}, "kind": ["a", "b", "c"]}
    wider.sink = SearchStoreSink(wider.sink._stores, new_spec(**CONFIRMED, space=space))
    with pytest.raises(ValueError, match="does not support dynamic value space"):
        wider.fill()
    wider.fill()
    assert len(wider.read()) == 5
    store.file.unlink()
    Store(store.file, ended).fill()
    study = optuna.load_study(study_name="small", storage=store.url)
    study.add_trial(study.trials[0])  # which the journal does not know
    again = Store(store.file, ended)
    again.fill()
    assert without_ends(store.read()) == expected


def test_a_copy_of_the_journal_goes_on_with_the_study(ended, expected, tmp_path) -> None:
    shared, own = tmp_path / "search.db", tmp_path / "copy" / "search.db"
    store = Store(shared, ended)
    store.fill(until=0.5)
    copied = tmp_path / "copy" / "sweeps" / "small"
    shutil.copytree(ended.folder, copied)
    Store(shared, ended, folder=copied).fill()
    assert without_ends(store.read()) == expected
    journal = copied / "journal.jsonl"
    journal.write_text(journal.read_text().replace('value":0.', 'value":0.0'))
    other = Store(shared, ended, folder=copied)
    another = Store(shared, ended)
    another.id = "another"
    for stranger in (other, another):
        with pytest.raises(StoreError, match=r"another journal.*--set stores.search=URL"):
            stranger.fill()
    assert without_ends(store.read()) == expected
    whole = journal.read_bytes()
    journal.unlink()
    with pytest.raises(StoreError, match="another copy"):  # it is not read again
        other.sink.position(other.id)
    journal.write_bytes(whole)
    shutil.copy(shared, own)
    changed = Store(own, ended, folder=copied)
    changed.fill()
    assert len(changed.read()) == 5 and without_ends(changed.read()) != expected


def test_a_wrong_url_is_a_store_error_without_password(ended) -> None:
    """Waiting helps only where a server does not answer."""
    for url, kind in {
        "postgresql+psycopg://lab:secret@127.0.0.1:1/none": StoreDownError,
        "postgresql+psycopg://lab:secret@host:port/none": StoreError,
        "oracle+nodriver://lab:secret@host/none": StoreError,
        "lab:secret@host": StoreError,
        "sqlite:////no/such/folder/search.db": StoreError,
    }.items():
        with pytest.raises(StoreError, match=r"^search store ") as caught:
            SearchStoreSink(replace(ended.driver.stores, search=url), ended.spec).position("j")
        assert type(caught.value) is kind
        assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def studies_found_at_once(url: str) -> list[int]:
    ready = Barrier(DRIVERS)

    def opens(_number: int) -> int:
        ready.wait()
        storage = open_search_store(url)
        studies = len(storage.get_all_studies())
        storage.engine.dispose()
        return studies

    with ThreadPoolExecutor(DRIVERS) as drivers:
        return list(drivers.map(opens, range(DRIVERS)))


def test_in_a_file(tmp_path) -> None:
    assert studies_found_at_once(f"sqlite:///{tmp_path / 'search.db'}") == [0] * DRIVERS


@pytest.mark.postgres
def test_on_a_server() -> None:
    server = make_url(os.environ["CSE_TEST_POSTGRES"])
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE opened_at_once"))
    try:
        url = server.set(database="opened_at_once")
        found = studies_found_at_once(url.render_as_string(hide_password=False))
        assert found == [0] * DRIVERS
    finally:
        with engine.connect() as connection:
            connection.execute(text("DROP DATABASE opened_at_once WITH (FORCE)"))
        engine.dispose()


@pytest.mark.postgres
def test_a_role_with_few_connections_is_enough_and_none_says_how_many() -> None:
    server = make_url(os.environ["CSE_TEST_POSTGRES"])
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    few = server.set(username="few", password="few")
    url, search = (
        few.set(database=name).render_as_string(hide_password=False) for name in ("few", "few_too")
    )

    def ask(store: LeaderboardStore) -> Any:
        with store.session() as session:
            return session.scalar(text("SELECT count(*) FROM sweeps, pg_sleep(0.05)"))

    with engine.connect() as admin:
        admin.execute(text("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 3"))
        for name in ("few", "few_too"):
            admin.execute(text(f"CREATE DATABASE {name} OWNER few"))
        try:
            with open_store(url) as store, ThreadPoolExecutor(8) as threads:
                assert list(threads.map(ask, [store] * 8)) == [0] * 8
                for _ in range(2):  # the tables are made, and are there
                    storage = open_search_store(search)
                    assert storage.get_all_studies() == []
                    storage.remove_session()
                    storage.engine.dispose()
            admin.execute(text("ALTER ROLE few CONNECTION LIMIT 0"))
            needed = rf"too many connections .*{CONNECTIONS} connections.*CONNECTION LIMIT NUMBER"
            with pytest.raises(StoreDownError, match=needed):
                open_store(url)
            with pytest.raises(StoreDownError, match=needed), open_stored_study(search, "a", ()):
                pass
        finally:
            for name in ("few", "few_too"):
                admin.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
            admin.execute(text("DROP ROLE few"))
    engine.dispose()
