from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life
from werkzeug.test import TestResponse

from cse_dashboards.page.app import create_app
from cse_dashboards.page.control import Control
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores.sql.lease import Lease, waiting_requests
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.tracking.events import SweepRequested
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.provenance import user_and_host

HERE = "http://localhost"
SPEC = {
    "sweep": "first", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "space": {"temperature": {"low": 0.01, "high": 1.0, "log": True}},
    "search": {"sampler": "random", "trials": 6},
}  # fmt: skip
KEY = "1" + "a" * 63
EVIL = "<script>alert(1)</script>[bold]"


@pytest.fixture
def board(tmp_path: Path, empty_leaderboard: Callable[[Path], str]) -> Iterator[Store]:
    """A sweep of two trials: one complete, one running."""
    events = [
        sweep_started(spec=SPEC, method="simcse"),
        *trial_life(0, {10: 0.75}, configuration="a" * 64, trial=KEY),
        *trial_life(1, {10: 0.5}, state=None),
    ]
    with open_store(empty_leaderboard(tmp_path / "leaderboard.db")) as opened:
        with Journal(tmp_path / "journal.jsonl") as journal:
            apply_events(opened, events, journal=journal.id)
        yield opened


@pytest.fixture
def held(board: Store, tmp_path: Path) -> Iterator[None]:
    """While a driver has the sweep."""
    with Journal(tmp_path / "journal.jsonl") as journal, Lease(board, "first", journal):
        yield


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


@pytest.fixture
def stranger(board: Store, control: Control, tmp_path: Path) -> FlaskClient:
    """A browser that has not opened the address with the token."""
    return create_app(f"sqlite:///{tmp_path / 'leaderboard.db'}", control=control).test_client()


@pytest.fixture
def owner(stranger: FlaskClient, control: Control) -> FlaskClient:
    stranger.get(f"/{control.query}")
    return stranger


def post(
    browser: FlaskClient, address: str, control: Control, *, origin: str = HERE, **form: Any
) -> TestResponse:
    sent = {"form_token": control.form_token, **form}
    return browser.post(address, data=sent, headers={"Origin": origin} if origin else {})


def asked(board: Store) -> list[SweepRequested]:
    with board.session() as session:
        return waiting_requests(session, "first")


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger, control, tmp_path) -> None:
    answer = stranger.get(f"/sweeps/first{control.query}&state=COMPLETE")
    assert (answer.status_code, answer.location) == (303, "/sweeps/first?state=COMPLETE")
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert control.token not in stranger.get("/sweeps/first").text
    old = stranger.application.test_client().get(f"/{Control(tmp_path).query}")
    assert (old.status_code, "Set-Cookie" in old.headers) == (403, False)


def test_forms_are_there_for_who_has_the_token_alone(stranger, control, held) -> None:
    def forms() -> list[bool]:
        pages = [stranger.get(address).text for address in ("/sweeps/first", f"/trials/{KEY}")]
        return ['method="post"' in page for page in pages]

    assert forms() == [False, False]
    stranger.get(f"/{control.query}")
    assert forms() == [True, True]
    assert stranger.get("/parts/best/sweeps/first").status_code == 200  # without scripts
    assert stranger.get("/sweeps/first").headers["Cache-Control"] == "no-store"


ACTIONS = {
    "/sweeps/first/request": {"request": "stop"},
    "/sweeps/first/annotation": {"note": "hello"},
    f"/trials/{KEY}/annotation": {"star": "yes"},
    f"/trials/{KEY}/configuration/annotation": {"tags": "mine"},
}


def unchanged(board: Store, tmp_path: Path) -> bool:
    return asked(board) == [] and not (tmp_path / "annotations").exists()


def test_what_is_not_from_a_form_of_this_page_is_refused(
    stranger: FlaskClient, control: Control, board: Store, held: None, tmp_path: Path
) -> None:
    def browser_with(token: str | None) -> FlaskClient:
        browser = stranger.application.test_client()
        if token is not None:
            browser.set_cookie(control.cookie, token)
        return browser

    token = control.token
    troubles: dict[str, tuple[str | None, dict[str, str]]] = {
        "stranger": (None, {}),
        "old token": (Control(tmp_path).token, {}),
        "other origin": (token, {"origin": "http://evil.example"}),
        "no host": (token, {"origin": "http://[::1"}),
        "no origin": (token, {"origin": ""}),
        "form": (token, {"form_token": "0" * 64}),
    }
    let_in = [
        (trouble, address)
        for trouble, (cookie, changes) in troubles.items()
        for address, form in ACTIONS.items()
        if post(browser_with(cookie), address, control, **(form | changes)).status_code != 403
    ]
    assert not let_in
    assert unchanged(board, tmp_path)


def test_a_page_for_reading_alone_changes_nothing(board, tmp_path, control, held) -> None:
    browser = create_app(f"sqlite:///{tmp_path / 'leaderboard.db'}").test_client()
    browser.set_cookie(control.cookie, control.token)
    assert 'method="post"' not in browser.get("/sweeps/first").text
    for address, form in ACTIONS.items():
        assert post(browser, address, control, **form).status_code == 403, address
    assert browser.get("/sweeps/first/stop").status_code == 403
    for reading in ("/", "/sweeps/first", f"/trials/{KEY}"):
        assert browser.post(reading).status_code == 405
    assert unchanged(board, tmp_path)


def test_requests_are_those_of_commands_and_stopping_asks_first(
    owner, control, board, held
) -> None:
    page = owner.get("/sweeps/first").text
    assert 'href="/sweeps/first/stop"' in page and 'href="/sweeps/first/stop?trial=1"' in page
    question = owner.get("/sweeps/first/stop")
    assert question.status_code == 200
    assert asked(board) == []
    answer = post(owner, "/sweeps/first/request", control, request="stop")
    assert (answer.status_code, answer.location) == (303, "/sweeps/first")
    (request,) = asked(board)
    assert (request.action, request.who, request.numbers) == ("stop", user_and_host(), ())
    assert "Sent to process" in owner.get("/sweeps/first").text
    assert "Sent to process" not in owner.get("/sweeps/first").text  # it is said once
    for form in (
        {"request": "stop", "trials": "1"},
        {"request": "enqueue", "set.temperature": "3e-2"},
    ):
        post(owner, "/sweeps/first/request", control, **form)
    _, stop, enqueue = asked(board)
    assert (stop.action, stop.numbers) == ("stop", (1,))
    assert (enqueue.action, enqueue.values) == ("enqueue", {"temperature": 0.03})


def test_what_means_nothing_to_the_sweep_is_said(owner, control, board) -> None:
    troubles: list[tuple[dict[str, str], str]] = [
        ({"request": "retry"}, "has failed"),
        ({"request": "retry", "trials": "1 x"}, "expected a trial&#39;s number"),
        ({"request": "retry", "trials": "9" * 5000}, "expected a trial&#39;s number"),
        ({"request": "stop"}, "no driver runs sweep"),
        ({"request": "enqueue", "set.temperature": "2"}, "is not in space.temperature"),
        ({"request": "enqueue", "set.temperature": " "}, "at least one hyperparameter"),
        ({"request": "enqueue", "set.temprature": "1"}, "temperature"),
    ]
    for form, why in troubles:
        post(owner, "/sweeps/first/request", control, **form)
        assert why in owner.get("/sweeps/first").text, form
    assert post(owner, "/sweeps/first/request", control, request="delete").status_code == 400
    assert asked(board) == []


def test_a_note_tags_and_a_star_are_kept_shown_and_taken_away(owner, control, tmp_path) -> None:
    assert ">notes</th>" not in owner.get("/parts/trials/sweeps/first").text
    for of in ("/sweeps/first", f"/trials/{KEY}"):
        post(owner, f"{of}/annotation", control, note="")
        assert "Nothing was changed" in owner.get(of).text
        assert of != "/sweeps/first" or not (tmp_path / "annotations").exists()
        post(owner, f"{of}/annotation", control, note=EVIL, tags="odd, new", star="yes")
        page = owner.get(of).text
        assert "★" in page and user_and_host() in page
        assert EVIL not in page and "&lt;script&gt;" in page
        assert 'value="new odd"' in page
    post(owner, f"/trials/{KEY}/configuration/annotation", control, star="yes", tags="odd")
    assert "★" in owner.get("/").text
    with open_leaderboard(tmp_path) as board:
        assert board.trial(KEY).of_configuration.tag_names == ("odd",)
    table = owner.get("/parts/trials/sweeps/first").text
    row = next(one for one in table.split("<tr>") if KEY[:8] in one)
    assert "★" in row and "odd" in row and EVIL not in table
    post(owner, f"/trials/{KEY}/configuration/annotation", control)
    for of in (f"/trials/{KEY}", "/sweeps/first"):
        post(owner, f"{of}/annotation", control, note="", tags="odd")
        page = owner.get(of).text
        assert 'value="odd"' in page
        assert ("★" in page, "&lt;script&gt;" in page) == (False, False)


def test_forged_provenance_is_shown_as_it_is(stranger: FlaskClient, board: Store) -> None:
    """What is no provenance at all is told, with the way out."""
    cases = {'{"host": {"a": [1]}, "torch": 2, "command": null}': 200, '["a", 1]': 503}
    for forged, status in cases.items():
        with board.writing() as session:
            for change in (
                "UPDATE attempts SET provenance = :forged",
                "UPDATE sweep_starts SET provenance = :forged, packages = :forged, diffs = :forged",
            ):
                session.execute(text(change), {"forged": forged})
        answer = stranger.get(f"/trials/{KEY}")
        assert answer.status_code == status, forged
        assert ("cse-leaderboard rebuild" in answer.text) is (status == 503)
