"""What the page sends over the wire: compressed, kept by the browser where it stays the same."""

import gzip
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from html import unescape
from http.client import HTTPResponse
from urllib.parse import urljoin

import pytest
from processes import interruptible

SERVE = "import sys; from cse_dashboards.page.app import serve; serve(sys.argv[1], port=0)"
MOST = 500_000
"""Bytes of a view with all that belongs to it."""
VIEWS = (
    "",
    "?every=yes&published=yes",
    "sweeps",
    "sweeps/simcse",
    "compare?a=simcse&b=hicl",
    "geometry",
)
Answer = tuple[HTTPResponse, bytes]


@pytest.fixture(scope="module")
def address(lab_url: str) -> Iterator[str]:
    """Of a server over the lab's leaderboard."""
    with interruptible():
        server = subprocess.Popen(
            [sys.executable, "-u", "-c", SERVE, lab_url], stdout=subprocess.PIPE, text=True
        )
    with server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[0]
        server.send_signal(signal.SIGINT)


def ask(address: str, takes: str = "gzip") -> Answer:
    """What comes over the wire."""
    asked = urllib.request.Request(address, headers={"Accept-Encoding": takes})
    with urllib.request.urlopen(asked) as answer:
        return answer, answer.read()


def text(answer: Answer) -> str:
    return gzip.decompress(answer[1]).decode()


def belonging(html: str) -> set[str]:
    """The addresses of all that a browser fetches for it: files, Plotly, and parts."""
    found = re.findall(r'<(?:link|script)[^>]* (?:href|src)="([^"]+)"', html)
    later = re.findall(r' data-(?:library|src)="([^"]+)"', html)
    return {unescape(one) for one in (*found, *later)}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_with_all_its_parts_and_plotly_is_small(address: str, view: str) -> None:
    page = ask(address + view)
    whole = {one: ask(urljoin(address, one)) for one in belonging(text(page))}

    assert any("plotly" in one for one in whole)
    assert len(page[1]) + sum(len(sent) for _, sent in whole.values()) < MOST
    coded = {
        answer.headers["Content-Encoding"] for answer, sent in whole.values() if len(sent) > 1000
    }
    assert coded == {"gzip"}


def test_files_are_kept_and_pages_asked_for_again(address: str) -> None:
    page = ask(address)
    assert page[0].headers["Cache-Control"] == "no-cache"
    assert "Accept-Encoding" in page[0].headers["Vary"]
    files = [one for one in belonging(text(page)) if one.startswith("/static/")]
    assert len(files) > 4
    for one in files:
        assert "immutable" in ask(urljoin(address, one))[0].headers["Cache-Control"]
    # Who has an older page open gets the file of today, and keeps it not.
    older, _ = ask(urljoin(address, "/static/0123456789abcdef/page.js"))
    assert older.headers["Cache-Control"] == "no-cache"


def test_plotly_comes_as_brotli_to_who_takes_it(address: str) -> None:
    [plotly] = [one for one in belonging(text(ask(address))) if "plotly" in one]
    sizes = {}
    for takes in ("identity", "gzip", "gzip, br"):
        answer, sent = ask(urljoin(address, plotly), takes)
        sizes[answer.headers["Content-Encoding"]] = len(sent)
    assert sizes["br"] < sizes["gzip"] < sizes[None]


def test_nothing_is_compressed_for_who_takes_nothing(address: str) -> None:
    answer, sent = ask(address, "identity")
    assert answer.headers["Content-Encoding"] is None
    assert sent.startswith(b"<!doctype html>")


def test_the_numbers_of_a_figure_are_a_file_of_their_own(address: str) -> None:
    part = ask(urljoin(address, "/parts/search/sweeps/simcse"))
    [link] = re.findall(r'href="([^"]+)" aria-label="Search history as CSV"', text(part))
    answer, sent = ask(urljoin(address, unescape(link)), "identity")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert "filename=search_history.csv" in answer.headers["Content-Disposition"]
    assert sent.decode().splitlines()[0].startswith("trial,key,configuration,seed,")
