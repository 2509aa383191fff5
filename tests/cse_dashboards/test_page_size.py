import gzip
import re
from html import unescape
from urllib.parse import urljoin

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

MOST = 500_000
"""Bytes of a view with all that belongs to it."""


def ask(client: FlaskClient, address: str, takes: str = "gzip") -> TestResponse:
    """What comes over the wire."""
    answer = client.get(address, headers={"Accept-Encoding": takes})
    assert answer.status_code == 200, address
    return answer


def belonging(page: TestResponse) -> set[str]:
    """The addresses of all that a browser fetches for it: files, Plotly, and parts."""
    html = gzip.decompress(page.data).decode()
    found = re.findall(r'<(?:link|script)[^>]* (?:href|src)="([^"]+)"', html)
    later = re.findall(r' data-(?:library|src)="([^"]+)"', html)
    return {unescape(one) for one in (*found, *later)}


SLOW = ("/", "/?every=yes&published=yes", "/sweeps", "/compare?rows=hicl,simcse", "/geometry")


@pytest.mark.parametrize(
    "view", ["/sweeps/simcse", *(pytest.param(view, marks=pytest.mark.slow) for view in SLOW)]
)
def test_a_view_with_all_its_parts_and_plotly_is_small(client: FlaskClient, view: str) -> None:
    page = ask(client, view)
    whole = {one: ask(client, urljoin(view, one)) for one in belonging(page)}

    assert any("plotly" in one for one in whole)
    assert len(page.data) + sum(len(answer.data) for answer in whole.values()) < MOST
    large = [answer for answer in whole.values() if len(answer.data) > 1000]
    assert {answer.headers["Content-Encoding"] for answer in large} == {"gzip"}


def test_files_are_kept_and_everyone_gets_the_smallest_that_they_take(client: FlaskClient) -> None:
    page = ask(client, "/sweeps")
    assert page.headers["Cache-Control"] == "no-cache"
    assert "Accept-Encoding" in page.headers["Vary"]
    files = [one for one in belonging(page) if one.startswith("/static/")]
    assert len(files) > 4
    for one in files:
        assert "immutable" in ask(client, one).headers["Cache-Control"]
    # Who has an older page open gets the file of today, and keeps it not.
    older = ask(client, "/static/0123456789abcdef/page.js")
    assert older.headers["Cache-Control"] == "no-cache"
    [plotly] = [one for one in files if "plotly" in one]
    sizes = {}
    for takes in ("identity", "gzip", "gzip, br"):
        answer = ask(client, plotly, takes)
        sizes[answer.headers.get("Content-Encoding")] = len(answer.data)
    assert sizes["br"] < sizes["gzip"] < sizes[None]
    plain = ask(client, "/sweeps", "identity")
    assert "Content-Encoding" not in plain.headers
    assert plain.data.startswith(b"<!doctype html>")


def test_the_numbers_of_a_figure_are_a_file_of_their_own(client: FlaskClient) -> None:
    part = ask(client, "/parts/search/sweeps/simcse", "identity")
    [link] = re.findall(r'href="([^"]+)" aria-label="Search history as CSV"', part.text)
    answer = ask(client, unescape(link), "identity")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "filename=search_history.csv" in answer.headers["Content-Disposition"]
    assert answer.text.splitlines()[0].startswith("trial,key,configuration,seed,")
