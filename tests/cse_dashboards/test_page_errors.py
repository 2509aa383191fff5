import html
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient
from page_text import text
from processes import interruptible
from sweep_events import sweep_started, trial_life

from cse_dashboards.errors import ServeError
from cse_dashboards.page import app as page_app
from cse_dashboards.page import site as page_site
from cse_dashboards.page.app import create_app, serve
from cse_platform.errors import NoStoreError
from cse_platform.leaderboard import Leaderboard, open_leaderboard
from cse_platform.tracking.events import Event


def refused(client: FlaskClient, address: str, *, status: int) -> str:
    """The sentence on the page."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    assert answer.text.lstrip().startswith("<!doctype")
    [sentence] = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
    return html.unescape(sentence)


MEANINGLESS = (
    ("/parts/standing/?sort=score", 404, "there is no column 'score' to sort by"),
    ("/as/pdf/", 400, "no file ends in 'pdf'; expected csv, json, md, tex"),
    ("/sweeps/hicI", 404, "there is no sweep 'hicI' on this leaderboard; did you mean 'hicl'?"),
    ("/sweeps/hicl?where=tau2", 400, "where: 'tau2' is not a condition; write NAME = VALUE"),
    ("/sweeps/hicl?where=tau=1", 200, "hicl has no hyperparameter 'tau'; expected one of"),
    ("/sweeps/hicl?where=dev/stsb_spearman=1", 200, "hicl has no hyperparameter 'dev/stsb"),
    ("/sweeps/hicl?sort=x/y", 200, "hicl has no hyperparameter or metric 'x/y'"),
    ("/sweeps/hicl?columns=seed,loss", 200, "columns: hicl has no column 'loss'; it has"),
    ("/sweeps/hicl/mlflow", 404, "no MLflow server is known; start cse-dashboard with --ml"),
    ("/trials/123456", 404, "no trial's key begins with '123456'"),
    ("/compare?rows=hicl,nothing", 200, "'nothing' is no method or sweep of this leaderboard"),
    ("/parts/differences/compare?rows=hicl", 400, "needs at least two rows, rows=A,B"),
    ("/parts/pairs/compare?rows=hicl,simcse&task=mr", 400, "'mr' is not an STS task"),
    ("/geometry?show=map", 400, "show: expected 'heat_map', "),
    ("/papers/whitendcse/5", 404, "did you mean 'whitenedcse'?"),
    ("/papers?what=this", 400, "what: no such key"),
    ("/nowhere", 404, "not found"),
)
"""Addresses with the status of the answer, and what it says."""


def test_what_means_nothing_is_said(client: FlaskClient) -> None:
    for address, status, sentence in MEANINGLESS:
        assert sentence in refused(client, address, status=status), address


@pytest.fixture
def store(tmp_path: Path, empty_leaderboard: Callable[[Path], str]) -> Path:
    file = tmp_path / "runs" / "leaderboard.db"
    empty_leaderboard(file)
    return file


def test_the_store_is_opened_once_until_its_file_is_another(store, lab_url, monkeypatch) -> None:
    opened: list[str] = []

    def open_and_count(url: str, *, published: object) -> Leaderboard:
        opened.append(url)
        return open_leaderboard(url)

    monkeypatch.setattr(page_site, "open_leaderboard", open_and_count)
    client = create_app(f"sqlite:///{store}").test_client()
    for address in ("/", "/sweeps", "/sweeps"):
        assert client.get(address).status_code == 200
    assert len(opened) == 1
    shutil.copy(lab_url.removeprefix("sqlite:///"), store)
    assert "hicl" in client.get("/sweeps").text
    assert len(opened) == 2


def test_no_store_yet_says_what_fills_it_and_looks_again(tmp_path: Path) -> None:
    client = create_app(f"sqlite:///{tmp_path / 'runs' / 'leaderboard.db'}").test_client()
    page = client.get("/").text
    assert "cse-sweep sweeps/quickstart.yaml" in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert not (tmp_path / "runs").exists()  # looking makes nothing


def test_a_store_that_cannot_be_read_says_why_and_hides_its_password(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE cse_schema_version SET version_num = '9999'")
    client = create_app(f"sqlite:///{store}").test_client()
    sentence = refused(client, "/", status=503)
    assert re.match("The leaderboard cannot be read: sqlite:.* has schema 9999", sentence)
    store.write_bytes(b"no database" * 500)
    client = create_app(f"sqlite:///{store}").test_client()
    assert "not a database" in refused(client, "/", status=503)
    client = create_app("postgresql+psycopg://ann:secret@host:port/lab").test_client()
    page = client.get("/")
    assert page.status_code == 503
    assert "cannot be read" in page.text
    assert "secret" not in page.text


def test_only_the_server_is_allowed_and_no_bug_is_shown(client, monkeypatch, caplog) -> None:
    for address in ("/", "/nowhere", "/static/page.js"):
        answer = client.get(address)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self';" in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = client.get("/").text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert not re.search(r"<script(?![^>]*(?:src|application/json))", page)
    monkeypatch.setattr(page_app.sweep.SweepsAddress, "read", lambda _: 1 / 0)
    sentence = refused(client, "/sweeps", status=500)
    assert sentence.startswith("This page failed")
    assert "ZeroDivisionError" in caplog.text


SERVE = "import sys; from cse_dashboards.page.app import serve; serve(sys.argv[1], port=0)"


@pytest.mark.slow
def test_it_says_where_it_listens_and_ends_by_an_interrupt(lab_url: str) -> None:
    command = [sys.executable, "-u", "-c", SERVE, lab_url]
    with interruptible():
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.fullmatch(rf"(http://127\.0\.0\.1:\d+/) shows {lab_url}; Ctrl-C ends it\n", line)
        assert found is not None, line
        try:
            with urllib.request.urlopen(f"{found[1]}sweeps") as answer:
                assert b"hicl" in answer.read()
            strange = urllib.request.Request(found[1], headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(strange)
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0


def test_a_place_that_cannot_be_served_is_named(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = rf"cannot listen on 127\.0\.0\.1, port {port}: Address already in use; choose"
        with pytest.raises(ServeError, match=sentence):
            serve(f"sqlite:///{tmp_path}/leaderboard.db", port=port)
        sentence = "no leaderboard at sqlite:.*, and no folder .*/gone; the first cse-sweep makes"
        with pytest.raises(NoStoreError, match=sentence):
            serve(f"sqlite:///{tmp_path}/gone/leaderboard.db", port=port)


EVIL = "<img src=x onerror=alert('1')>\"&{{7*7}}"
VIEWS = (
    "/", "/parts/standing/", "/sweeps", "/parts/listed/sweeps", "/compare", "/geometry",
    "/parts/numbers/geometry",
)  # fmt: skip
OF_A_SWEEP = (
    "/sweeps/{}",
    *(f"/parts/{part}/sweeps/{{}}"
      for part in ("live", "trials", "curves", "best", "search", "hyperparameters", "pair")),
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
def filled(filled_with) -> Callable[..., FlaskClient]:
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
        assert "this leaderboard has none yet" in said
        assert "Try again" not in said  # it would say the same


@pytest.mark.parametrize("begun", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_running_sweep_without_results(filled, begun) -> None:
    spec = {"sweep": "new", "space": {"tau2": [0.05, 0.1], "rank_loss": ["listnet"]}}
    trials = trial_life(0, {}, sweep="new", state=None, trial=KEY) if begun else []
    client = filled(sweep_started("new", spec=spec), *trials)
    for address in (*VIEWS, *OF_A_SWEEP):
        assert text(sentences(client, address.format("new"))), address
    assert (
        "there is no dev curve of dev/stsb_spearman" in client.get("/parts/curves/sweeps/new").text
    )
    best = text(sentences(client, "/parts/best/sweeps/new"))
    assert "No trial of this sweep is complete yet" in best
    table = text(sentences(client, "/parts/trials/sweeps/new"))
    assert ("#0" if begun else "This sweep has no trial yet.") in table
    if begun:
        assert "RUNNING" in sentences(client, f"/trials/{KEY}")


def test_a_store_that_is_gone_and_comes_back(filled_with) -> None:
    url = filled_with(sweep_started("new"))
    client = create_app(url).test_client()
    assert client.get("/sweeps/new").status_code == 200
    store = Path(url.removeprefix("sqlite:///"))
    away = store.rename(store.with_suffix(".away"))
    for address in (*VIEWS, *OF_A_SWEEP):
        said = sentences(client, address.format("new"), status=503)
        assert f"No leaderboard at {url}; cse-sweep creates it, or cse-" in said
        assert ("Try again" in said) is address.startswith("/parts/")  # a page looks by itself
    assert client.get("/stamp/sweeps/new").status_code == 503
    # Without scripts a part is a page, too, and without its own address in it.
    assert client.get("/parts/live/sweeps/new").text.lstrip().startswith("<!doctype")
    away.rename(store)
    assert client.get("/sweeps/new").status_code == 200


def test_markup_in_every_name_and_text(filled_with) -> None:
    spec = {"sweep": EVIL, "space": {EVIL: [EVIL, "other"], "rate": [0.1, 0.2]}, "tags": [EVIL]}
    events: list[Event] = [sweep_started("evil", spec=spec, backbone=EVIL, method=EVIL)]
    for number, state in enumerate(("COMPLETE", "COMPLETE", "FAIL", None)):
        values = {EVIL: (EVIL, "other")[number % 2], "rate": 0.1 * (1 + number % 2)}
        events += trial_life(
            number, {0: 0.5, 10: 0.6}, sweep="evil", method=EVIL, backbone=EVIL, state=state,
            trial=f"{number:x}" * 64, configuration=f"{number + 6:x}" * 64, values=values,
            searched=(EVIL, "rate"),
        )  # fmt: skip
    url = filled_with(*events)
    client = create_app(url).test_client()
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE attempts SET error = ? WHERE state = 'FAIL'", [EVIL])
        connection.execute("UPDATE sweeps SET name = ?", [EVIL])  # no journal brings it
    name, rows = quote(EVIL, safe=""), f"{'0' * 12},{'1' * 12}"
    addresses = (
        *VIEWS,
        *(address.format(name) for address in OF_A_SWEEP),
        f"/sweeps/{name}?where=rate>0.1&sort=rate&columns=rate,error",
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
        assert "<img" not in said and "&amp;49" not in said, address
