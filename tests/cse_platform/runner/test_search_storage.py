"""A search store that several drivers open at once, of which each would make its tables."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import create_engine, make_url, text

from cse_platform.search.storage import open_search_store

DRIVERS = 3


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
