"""What goes wrong is a sentence on the page, with a way out, and never a traceback."""

import html
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cse_dashboards.page import app as page_app
from cse_dashboards.page import site as page_site
from cse_dashboards.page.app import create_app
from cse_platform.leaderboard import Leaderboard, open_leaderboard


def refused(client: FlaskClient, address: str, *, status: int, part: bool = False) -> str:
    """The sentence on the page."""
    answer = client.get(address, headers={"X-Part": "1"} if part else {})
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    assert answer.text.lstrip().startswith("<!doctype") is not part
    [sentence] = re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
    return html.unescape(sentence)


MEANINGLESS = (
    ("/parts/standing/?sort=score", 400, "sort: no column 'score'; expected method, "),
    ("/as/pdf/", 400, "no file ends in 'pdf'; expected csv, json, md, tex"),
    ("/sweeps/hicI", 404, "there is no sweep 'hicI' on this leaderboard; did you mean 'hicl'?"),
    ("/sweeps/hicl?where=tau2", 400, "where: 'tau2' is not a condition; write NAME:VALUE"),
    ("/sweeps/hicl?where=tau:1", 200, "'tau' is not a hyperparameter of hicl; did you mean"),
    ("/sweeps/hicl?columns=seed,loss", 200, "columns: hicl has no column 'loss'; it has"),
    ("/sweeps/hicl/mlflow", 404, "no MLflow server is known; start cse-dashboard with --ml"),
    ("/trials/123456", 404, "no trial's key begins with '123456'"),
    ("/compare?rows=hicl,nothing", 200, "'nothing' is not a method of this leaderboard"),
    ("/parts/differences/compare?rows=hicl", 400, "takes two rows or more, rows=A,B"),
    ("/parts/pairs/compare?rows=hicl,simcse&task=mr", 400, "'mr' is not an STS task"),
    ("/geometry?show=map", 400, "show: expected 'heat_map', "),
    ("/nowhere", 404, "not found"),
)
"""Addresses with the status of the answer, and what it says."""


def test_what_means_nothing_is_said(client: FlaskClient) -> None:
    for address, status, sentence in MEANINGLESS:
        assert sentence in refused(client, address, status=status), address


def test_parts_say_it_in_their_place(client: FlaskClient) -> None:
    assert "no sweep" in refused(client, "/parts/live/sweeps/none", status=404, part=True)
    answer = client.get("/parts/live/sweeps/none", headers={"X-Part": "1"})
    assert "Try again" not in answer.text  # it would say the same


@pytest.fixture
def store(tmp_path: Path, empty_leaderboard: Callable[[Path], str]) -> Path:
    """An empty leaderboard."""
    file = tmp_path / "runs" / "leaderboard.db"
    empty_leaderboard(file)
    return file


def test_a_store_that_goes_and_comes_back(store: Path) -> None:
    client = create_app(f"sqlite:///{store}").test_client()
    assert client.get("/sweeps").status_code == 200
    away = store.rename(store.with_suffix(".away"))
    sentence = refused(client, "/sweeps", status=503)
    assert sentence == f"No leaderboard at sqlite:///{store}; a finished cse-sweep creates it."
    assert refused(client, "/parts/listed/sweeps", status=503, part=True) == sentence
    away.rename(store)
    assert client.get("/sweeps").status_code == 200


def test_the_store_is_opened_once_until_its_file_is_another(
    store: Path, lab_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_store_that_cannot_be_read_says_why(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE cse_schema_version SET version_num = '9999'")
    client = create_app(f"sqlite:///{store}").test_client()
    assert re.search("newer|schema", refused(client, "/", status=503))
    store.write_bytes(b"no database" * 500)
    client = create_app(f"sqlite:///{store}").test_client()
    assert "not a database" in refused(client, "/", status=503)


def test_a_url_that_cannot_be_read_hides_its_password() -> None:
    client = create_app("postgresql+psycopg://ann:secret@host:port/lab").test_client()
    page = client.get("/")
    assert page.status_code == 503
    assert "cannot be read" in page.text
    assert "secret" not in page.text


def test_a_bug_is_logged_and_not_shown(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(page_app.sweep.SweepsAddress, "read", lambda _: 1 / 0)
    sentence = refused(client, "/sweeps", status=500)
    assert sentence.startswith("This page failed")
    assert "ZeroDivisionError" in caplog.text


def test_nothing_but_the_server_is_allowed(client: FlaskClient) -> None:
    for address in ("/", "/nowhere", "/static/page.js"):
        answer = client.get(address)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self';" in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    page = client.get("/").text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert not re.search(r"<script(?![^>]*(?:src|application/json))", page)


def test_a_strange_name_of_the_host_is_refused(lab_url: str) -> None:
    app = create_app(lab_url)
    app.config["TRUSTED_HOSTS"] = ["localhost"]
    assert app.test_client().get("/", headers={"Host": "localhost:1"}).status_code == 200
    assert app.test_client().get("/", headers={"Host": "evil.example"}).status_code == 400
