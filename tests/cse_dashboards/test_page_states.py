"""Every view and every part of one says something sensible, whatever there is to show."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from page_text import text

from cse_dashboards.page.app import create_app
from cse_platform.tracking.events import Event, SweepStarted

EVIL = "<img src=x onerror=alert('1')>\"&{{7*7}}"
VIEWS = (
    "/", "/parts/standing/", "/sweeps", "/parts/listed/sweeps", "/compare", "/geometry",
    "/parts/numbers/geometry",
)  # fmt: skip
OF_A_SWEEP = (
    "/sweeps/{}",
    *(f"/parts/{part}/sweeps/{{}}"
      for part in ("live", "trials", "running", "best", "search", "hyperparameters", "pair")),
)  # fmt: skip
KEY = "e" * 64


def sentences(client: FlaskClient, address: str, *, status: int = 200) -> str:
    """What comes for a part as it is, or for a page."""
    part = address.startswith("/parts/")
    answer = client.get(address, headers={"X-Part": "1"} if part else {})
    assert answer.status_code == status, (address, answer.text)
    assert "Traceback" not in answer.text
    assert answer.text.lstrip().startswith("<!doctype") is not part
    assert part or len(text(answer.text)) > 200  # at least where one can go from here
    return answer.text


@pytest.fixture
def filled(filled_with: Callable[..., str]) -> Callable[..., FlaskClient]:
    """Makes the page over a leaderboard that holds these events."""
    return lambda *events: create_app(filled_with(*events)).test_client()


def test_an_empty_store(filled: Callable[..., FlaskClient]) -> None:
    client = filled()
    for address in VIEWS:
        assert len(text(sentences(client, address))) > 20, address
    for address in ("/", "/sweeps"):
        assert "cse-sweep sweeps/quickstart.yaml" in sentences(client, address)
    assert client.get("/stamp/sweeps").get_json()["runs"] is True  # one may begin at any time
    for address in OF_A_SWEEP:
        said = sentences(client, address.format("none"), status=404)
        assert "this leaderboard holds none yet" in said


@pytest.mark.parametrize("begun", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_running_sweep_without_results(
    filled: Callable[..., FlaskClient],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
    begun: bool,
) -> None:
    spec = {"sweep": "new", "space": {"tau2": [0.05, 0.1], "rank_loss": ["listnet"]}}
    trials = trial_life(0, {}, sweep="new", state=None, trial=KEY) if begun else []
    client = filled(sweep_started("new", spec=spec), *trials)
    for address in (*VIEWS, *OF_A_SWEEP):
        said = text(sentences(client, address.format("new")))
        empty = not begun and "/running/" in address  # there is nothing to draw beside it
        assert bool(said) is not empty, address
    assert "No trial of this sweep is complete yet" in text(
        sentences(client, "/parts/best/sweeps/new")
    )
    table = text(sentences(client, "/parts/trials/sweeps/new"))
    assert ("#0" if begun else "This sweep has no trial yet.") in table
    if begun:
        assert "no running trial has reported" in client.get("/parts/running/sweeps/new").text
        assert "RUNNING" in sentences(client, f"/trials/{KEY}")


def test_a_store_that_is_gone(
    filled_with: Callable[..., str], sweep_started: Callable[..., SweepStarted]
) -> None:
    url = filled_with(sweep_started("new"))
    client = create_app(url).test_client()
    assert client.get("/sweeps/new").status_code == 200
    Path(url.removeprefix("sqlite:///")).unlink()
    for address in (*VIEWS, *OF_A_SWEEP):
        said = sentences(client, address.format("new"), status=503)
        assert "No leaderboard at sqlite:///" in said
        assert ("Try again" in said) is address.startswith("/parts/")  # a page looks by itself
    assert client.get("/stamp/sweeps/new").status_code == 503
    # Without scripts a part is a page, too, and without its own address in it.
    assert client.get("/parts/live/sweeps/new").text.lstrip().startswith("<!doctype")


def test_markup_in_every_name_and_text(
    filled_with: Callable[..., str],
    sweep_started: Callable[..., SweepStarted],
    trial_life: Callable[..., list[Event]],
) -> None:
    spec = {"sweep": EVIL, "space": {EVIL: [EVIL, "other"], "rate": [0.1, 0.2]}, "tags": [EVIL]}
    events: list[Event] = [sweep_started(EVIL, spec=spec, backbone=EVIL, method=EVIL)]
    for number, state in enumerate(("COMPLETE", "COMPLETE", "FAIL", None)):
        events += trial_life(
            number,
            {0: 0.5, 10: 0.6},
            sweep=EVIL,
            method=EVIL,
            backbone=EVIL,
            state=state,
            trial=f"{number:x}" * 64,
            configuration=f"{number + 6:x}" * 64,
            values={EVIL: (EVIL, "other")[number % 2], "rate": 0.1 * (1 + number % 2)},
            searched=(EVIL, "rate"),
        )
    url = filled_with(*events)
    client = create_app(url).test_client()
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE trials SET error = ? WHERE state = 'FAIL'", [EVIL])
    name, rows = quote(EVIL, safe=""), f"{'0' * 12},{'1' * 12}"
    addresses = (
        *VIEWS,
        *(address.format(name) for address in OF_A_SWEEP),
        f"/sweeps/{name}?where=rate:0.1..0.2&sort=rate&columns=rate,error",
        f"/sweeps/{name}?where={name}",
        f"/compare?rows={rows}",
        f"/compare?rows={name}",
        f"/parts/curves/compare?rows={rows}",
        f"/parts/differences/compare?rows={rows}",
        f"/trials/{'2' * 64}",
    )
    for address in addresses:
        status = 400 if "?where=%3C" in address else 200
        said = sentences(client, address, status=status)
        assert "<img" not in said, address
        assert "&amp;49" not in said, address
