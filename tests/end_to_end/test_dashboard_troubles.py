"""What `cse-dashboard` shows where something is missing, broken or under way, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from browser import dashboard, settled
from page_text import copied
from playwright.sync_api import Page, expect

from cse_platform.leaderboard.store import open_store as open_store

expect.set_options(timeout=60_000)
pytestmark = pytest.mark.slow


class Served(NamedTuple):
    """A page, and the file of the leaderboard that it reads."""

    address: str
    store: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of a runs folder that nothing has been run in."""
    runs = tmp_path_factory.mktemp("served")
    with dashboard(runs) as address:
        yield Served(address, runs / "leaderboard.db")


@pytest.fixture
def served(server: Served) -> Iterator[Served]:
    """The same for one test, which may put a store there; named before `tab`, it outlives it."""
    yield server
    for file in server.store.parent.iterdir():
        file.unlink()


def restored(swept_runs: Path, store: Path) -> None:
    """The leaderboard of the tiny sweep, whole at once, at another place."""
    made = store.parent / "made"
    made.mkdir()
    copied(f"sqlite:///{swept_runs / 'leaderboard.db'}", made).rename(store)
    made.rmdir()


def refused(tab: Page, wrong: list[str], status: int) -> str:
    """The sentence on a page that was answered with that status; nothing else went wrong."""
    sentence = tab.get_by_role("alert").inner_text()
    assert {told[:3] for told in wrong if not told.startswith("Failed to load")} == {str(status)}
    assert all(str(status) in told for told in wrong), wrong
    expect(tab.locator("body")).not_to_contain_text("Traceback")
    expect(tab.get_by_role("navigation")).to_be_visible()
    wrong.clear()
    return sentence


def test_no_store_yet_and_then_there_is_one(
    served: Served, tab: Page, swept, wrong: list[str]
) -> None:
    assert tab.goto(f"{served.address}sweeps")
    expect(tab.get_by_role("heading", level=1)).to_have_text("No leaderboard here yet")
    expect(tab.get_by_text("cse-sweep sweeps/quickstart.yaml")).to_be_visible()
    sentence = refused(tab, wrong, 503)
    assert (
        sentence == f"No leaderboard at sqlite:///{served.store}; a finished cse-sweep creates it."
    )
    restored(swept.runs, served.store)
    expect(tab.get_by_role("link", name="tiny")).to_be_visible()  # nobody has clicked
    wrong.clear()  # it may have looked once more before
    tab.goto(f"{served.address}sweeps/tiny2")
    assert "no sweep 'tiny2' on this leaderboard; did you mean 'tiny'?" in refused(tab, wrong, 404)
    tab.get_by_role("main").get_by_role("link", name="leaderboard").click()
    expect(settled(tab).get_by_role("heading", level=1)).to_have_text("Leaderboard")


def test_a_store_that_goes_while_the_page_is_open_and_comes_back(
    served: Served, tab: Page, swept, wrong: list[str]
) -> None:
    restored(swept.runs, served.store)
    tab.goto(f"{served.address}sweeps/tiny")
    settled(tab)
    away = served.store.rename(served.store.with_suffix(".away"))
    tab.locator("#search").get_by_role("link", name="Newer data").click()
    expect(tab.locator("#search").get_by_role("alert")).to_contain_text("No leaderboard at sqlite")
    expect(tab.locator("#live")).to_contain_text("5 of 5")  # what was there stays
    tab.locator("#by-score").click()
    expect(tab.locator("#trials").get_by_role("alert")).to_contain_text("No leaderboard at sqlite")
    away.rename(served.store)
    tab.locator("#trials").get_by_role("link", name="Try again").click()
    expect(tab.locator("table.trials tbody tr")).to_have_count(5)
    assert tab.url.endswith("?sort=-score#trials")
    away = served.store.rename(served.store.with_suffix(".away"))
    wrong.clear()
    tab.get_by_role("navigation").get_by_role("link", name="Leaderboard").click()
    assert refused(tab, wrong, 503).startswith("No leaderboard at sqlite:///")
    away.rename(served.store)
    expect(tab.get_by_role("cell", name="mini", exact=True)).to_be_visible()  # it has looked again
    wrong.clear()
    settled(tab)
