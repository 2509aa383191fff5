"""The Flask application of the page: static files, error pages, security headers, and serving."""

import gzip
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib import import_module
from ipaddress import ip_address
from mimetypes import guess_type
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, abort, render_template, request
from werkzeug.exceptions import HTTPException

from cse_dashboards.errors import AddressError, ServeError
from cse_dashboards.page.control import Control
from cse_dashboards.page.site import (
    OpenLeaderboard,
    Site,
    admitted_control,
    end_reading,
    frame,
    pages,
    site,
)
from cse_dashboards.page.views import board, compare, geometry, search, sweep, trial
from cse_dashboards.page.views.control import controls
from cse_dashboards.page.words import FILTERS, GLOBALS
from cse_dashboards.picture_html import LIBRARY, STATIC, add_pictures
from cse_methods.errors import CseError
from cse_platform.errors import NoStoreError, StoreError
from cse_platform.secrets import mask_url
from cse_platform.standard_streams import echo
from cse_platform.stores.mlflow.store import is_server

_YEAR = "public, max-age=31536000, immutable"


Assets = dict[str, tuple[str, bytes, bytes | None]]
"""By name, a static file: its digest, its body, and its Brotli-compressed body if the build made
one.
"""


def send_asset(assets: Assets, *, digest: str, name: str) -> Response:
    """Send a static file; `finish_answer` compresses it if the build did not."""
    if name not in assets:
        abort(404)
    newest, body, brotli = assets[name]
    answer = Response(body, mimetype=guess_type(name)[0])
    if brotli is not None and request.accept_encodings["br"]:
        answer.set_data(brotli)
        answer.content_encoding = "br"
    answer.vary.add("Accept-Encoding")
    # A page that was open during an upgrade requests the old version, and gets the new one.
    answer.headers["Cache-Control"] = _YEAR if digest == newest else "no-cache"
    return answer


_LEAST = 1000
"""Smallest response that is compressed, in bytes."""
_LEVEL = 6
"""Gzip level; 9 takes three times as long for 1 % less."""


def finish_answer(answer: Response) -> Response:
    """Add security headers, and gzip a text response if the browser accepts that."""
    answer.headers["Content-Security-Policy"] = POLICY
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Referrer-Policy"] = "same-origin"
    answer.headers.setdefault("Cache-Control", "no-cache")
    kind = answer.mimetype or ""
    is_text = kind.startswith("text/") or kind in ("application/json", "application/x-tex")
    if answer.content_encoding or answer.is_streamed or not is_text:
        return answer
    answer.vary.add("Accept-Encoding")
    if request.accept_encodings["gzip"] and len(answer.get_data()) >= _LEAST:
        answer.set_data(gzip.compress(answer.get_data(), _LEVEL, mtime=0))
        answer.content_encoding = "gzip"
    return answer


VIEWS = (board, compare, geometry, search, sweep, trial)
"""Modules that register their routes on `pages` when imported."""
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)
"""Everything is loaded from this server; Plotly needs inline styles."""


def create_app(
    url: str,
    *,
    published: Sequence[Path] = (),
    mlflow: str | None = None,
    control: Control | None = None,
) -> Flask:
    """Create the application for one leaderboard, which need not exist yet.

    Args:
        url: of the leaderboard.
        published: a lab's own files of published numbers.
        mlflow: URL of a server; a database is ignored, as it has no pages to link to.
        control: admits requests that may change something; by default, none may.
    """
    app = Flask("cse_dashboards.page", static_folder=None)
    assets: Assets = {}
    for file in STATIC.iterdir():
        if file.suffix in (".css", ".js", ".svg"):
            body, compressed = file.read_bytes(), file.with_name(f"{file.name}.br")
            brotli = compressed.read_bytes() if compressed.is_file() else None
            assets[file.name] = sha256(body).hexdigest()[:16], body, brotli
    app.url_map.strict_slashes = False
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    server = mlflow if mlflow is not None and is_server(mlflow) else None
    app.extensions["site"] = Site(OpenLeaderboard(url, published), server, control)
    add_pictures(app.jinja_env)
    app.jinja_env.filters |= {**FILTERS, "csv_link": trial.csv_address}
    app.jinja_env.globals |= GLOBALS
    addresses = {name: f"/static/{digest}/{name}" for name, (digest, *_) in assets.items()}
    app.jinja_env.globals |= {"assets": addresses, "library": LIBRARY}
    app.context_processor(lambda: {"frame": frame(), "site": site(), "control": admitted_control()})
    app.register_blueprint(pages)
    app.register_blueprint(controls)
    if control is not None:
        control.guard(app)
    app.add_url_rule("/static/<digest>/<name>", "asset", partial(send_asset, assets))
    app.register_error_handler(Exception, _answer_error)
    app.after_request(finish_answer)
    app.teardown_appcontext(end_reading)
    return app


def _answer_error(error: Exception) -> Any:
    """Answer with the page of an error; a redirect, which is an exception too, passes."""
    sentence = str(error)
    if isinstance(error, StoreError):
        site().opened.forget()
    match error:
        case NoStoreError():
            return render_template("no_store.html", sentence=sentence), 503
        case StoreError():
            title, status = "The leaderboard cannot be read", 503
            sentence = f"{title}: {sentence}"  # which begins with its URL
        case AddressError():
            title, status = "Invalid link", 400
        case CseError():
            title, status = "Not found", 404
        case HTTPException(code=int(status)) if status >= 400:
            title, sentence = error.name, str(error.description)
        case HTTPException():
            return error
        case _:
            logging.getLogger(__name__).error("a view failed", exc_info=error)
            sentence = "This page failed; the terminal in which cse-dashboard runs shows why."
            title, status = "Internal error", 500
    return render_template("error.html", title=title, sentence=sentence, status=status), status


THREADS = 8
"""Browsers request the parts of a page concurrently, and some take seconds."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _refuse_other_hosts(host: str) -> None:
    """Abort with 400 unless the request names this machine; Werkzeug's own check knows no IPv6."""
    named = request.headers.get("Host", "")
    with suppress(ValueError):
        if urlsplit(f"//{named}").hostname in (*LOOPBACK, host.lower()):
            return
    abort(400, f"Host {named!r} is not trusted.")


def serve(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8900,
    published: Sequence[Path] = (),
    mlflow: str | None = None,
    control: Control | None = None,
) -> None:
    """Serve the page and print its address, until Ctrl-C. Port 0 selects a free port.

    Raises:
        NoStoreError: if the folder of the leaderboard does not exist; in one that does, a sweep may
            make the leaderboard later.
        ServeError: if the port is taken, or the host is not an address of this machine.
    """
    from waitress import create_server

    folder = OpenLeaderboard(url, published).folder
    if folder is not None and not folder.is_dir():
        raise NoStoreError(
            f"no leaderboard at {url}, and no folder {folder}; the first cse-sweep makes both, "
            "or name others with --runs or --store"
        )
    app = create_app(url, published=published, mlflow=mlflow, control=control)
    host = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    named = f"[{host}]" if ":" in host else host
    with _open_socket(host, port) as listening:
        address, taken = listening.getsockname()[:2]
        if ip_address(address).is_loopback:  # against DNS rebinding by other sites
            app.before_request(partial(_refuse_other_hosts, host))
        server = create_server(app, sockets=[listening], threads=THREADS, ident=None)
        token = control.query if control is not None else ""
        echo(f"http://{named}:{taken}/{token} shows {mask_url(url)}; Ctrl-C ends it")
        if control is not None:
            echo("whoever has this address may write notes and control sweeps", err=True)
        # So that the first figure need not wait for the libraries that draw it.
        Thread(target=import_module, args=["cse_dashboards.report"], daemon=True).start()
        server.run()


def _open_socket(host: str, port: int) -> socket.socket:
    if not host:  # to the system, every address of this machine
        raise ServeError("the host to listen on is empty; write 127.0.0.1, or 0.0.0.0 for all")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # the rest repeats the address
        raise ServeError(
            f"cannot listen on {host}, port {port}: {why}; choose another with --port, or any "
            "free one with --port 0"
        ) from error
