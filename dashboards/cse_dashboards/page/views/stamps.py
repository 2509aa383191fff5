"""Stamps: small answers that say what has changed, for pages that follow a running sweep."""

import time
from hashlib import sha256
from typing import Any

from flask import Response, jsonify, request

from cse_dashboards.page.site import pages, read_overview, reader, site


@pages.get("/stamp/sweeps/<name>")
def answer_of_sweep(name: str) -> Response:
    return _answer_with_etag(sweep_stamp(name))


@pages.get("/stamp/sweeps")
def answer_of_sweeps() -> Response:
    return _answer_with_etag(sweeps_stamp())


def sweep_stamp(name: str) -> dict[str, Any]:
    """Return the state of a sweep. Each part of its page names what makes it old.

    While the sweep runs, each minute changes the stamp too: the page shows the elapsed time.
    """
    stamp = reader().stamps(name)[name]
    runs = stamp.state == "RUNNING"
    trials, ended = site().counts.ask(name, stamp, lambda: _count_trials(name))
    return {
        "runs": runs,
        "state": stamp.state,
        "position": stamp.position,
        "trials": trials,
        "ended": ended,
        "minute": int(time.time() / 60) if runs else 0,
    }


def sweeps_stamp() -> dict[str, Any]:
    """Return the state of all sweeps; where there are none yet, one may begin at any time."""
    stamps = reader().stamps()
    text = repr(sorted(stamps.items()))
    return {
        "runs": not stamps or any(stamp.state == "RUNNING" for stamp in stamps.values()),
        "sweeps": sha256(text.encode()).hexdigest(),
    }


def _count_trials(name: str) -> tuple[int, int]:
    overview = read_overview(name)
    return overview.trials, overview.ended


def _answer_with_etag(stamp: dict[str, Any]) -> Response:
    """Answer with an ETag: a browser that has the stamp already gets an empty 304."""
    answer = jsonify(stamp)
    answer.headers["Cache-Control"] = "no-cache"
    answer.add_etag()
    answer.make_conditional(request)
    return answer
