"""The Flask application: its views, error pages and security headers."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, render_template
from werkzeug.exceptions import HTTPException

from cse_dashboards.errors import AddressError
from cse_dashboards.page import show
from cse_dashboards.page.assets import compress, read_assets, send_asset
from cse_dashboards.page.control import Control
from cse_dashboards.page.site import (
    OpenLeaderboard,
    Site,
    admitted,
    end_reading,
    frame,
    pages,
    site,
)
from cse_dashboards.page.views import board, compare, geometry, papers, search, stamps, sweep, trial
from cse_dashboards.page.views import sweep as sweeps
from cse_dashboards.page.views import trial as numbers
from cse_dashboards.page.views.control import controls
from cse_dashboards.picture_html import LIBRARY, add_pictures
from cse_methods.errors import CseError
from cse_platform.errors import NoStoreError, StoreError
from cse_platform.tracking.mlflow.store import is_server

VIEWS = (board, sweeps, sweep, search, stamps, compare, geometry, papers, trial, numbers)
"""Modules that add their addresses to `pages` when they are imported."""
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
"""Everything is loaded from this server; Plotly writes styles into its figures."""


def create_app(
    url: str,
    *,
    published: Sequence[Path] = (),
    mlflow: str | None = None,
    control: Control | None = None,
) -> Flask:
    """Create the page over one leaderboard, which need not exist yet.

    Args:
        url: of the leaderboard.
        published: files of published numbers.
        mlflow: the address of a server; a database has no pages to lead to.
        control: whom it admits may change something; left out, nobody may.
    """
    app = Flask("cse_dashboards.page", static_folder=None)
    assets = read_assets()
    app.url_map.strict_slashes = False
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    server = mlflow if mlflow is not None and is_server(mlflow) else None
    app.extensions["site"] = Site(OpenLeaderboard(url, published), server, control)
    add_pictures(app.jinja_env)
    app.jinja_env.filters |= {**show.FILTERS, "csv_link": numbers.csv_address}
    app.jinja_env.globals |= show.GLOBALS
    app.jinja_env.globals |= {"asset": lambda name: assets[name].address, "library": LIBRARY}
    app.context_processor(lambda: {"frame": frame(), "site": site(), "control": admitted()})
    app.register_blueprint(pages)
    app.register_blueprint(controls)
    if control is not None:
        control.guard(app)
    app.add_url_rule("/static/<digest>/<name>", "asset", partial(send_asset, assets))
    app.register_error_handler(CseError, _handle_cse_error)
    app.register_error_handler(HTTPException, _handle_http_error)
    app.register_error_handler(Exception, _handle_crash)
    app.after_request(_add_security_headers)
    app.after_request(compress)
    app.teardown_appcontext(end_reading)
    return app


def _add_security_headers(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def _handle_cse_error(error: CseError) -> tuple[str, int]:
    if isinstance(error, StoreError):
        site().opened.forget()
    if isinstance(error, NoStoreError):
        return render_template("no_store.html", sentence=str(error)), 503
    status = _choose_status(error)
    return _render_error(TITLES[status], str(error), status)


TITLES = {
    400: "Invalid link",
    404: "Not found",
    503: "The leaderboard cannot be read",
}


def _choose_status(error: CseError) -> int:
    """Choose the status: 400 for an invalid address, 503 if the store fails, else 404."""
    if isinstance(error, AddressError):
        return 400
    return 503 if isinstance(error, StoreError) else 404


def _handle_http_error(error: HTTPException) -> Any:
    if error.code is None or error.code < 400:
        return error
    return _render_error(str(error.name), str(error.description), error.code)


def _handle_crash(error: Exception) -> tuple[str, int]:
    logging.getLogger(__name__).error("a view failed", exc_info=error)
    sentence = "This page failed; the terminal in which cse-dashboard runs shows why."
    return _render_error("Internal error", sentence, 500)


def _render_error(title: str, sentence: str, status: int) -> tuple[str, int]:
    return render_template("error.html", title=title, sentence=sentence, status=status), status
