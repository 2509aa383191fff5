"""The server of the page, until it is interrupted."""

import socket
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Thread

import click

from cse_dashboards.errors import ServeError
from cse_dashboards.page.app import create_app
from cse_dashboards.page.control import Control
from cse_platform.secrets import mask_url

THREADS = 8
"""Browsers ask for the parts of a page at once, and some take seconds."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def serve(
    url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8900,
    published: Sequence[Path] = (),
    mlflow: str | None = None,
    control: Control | None = None,
) -> None:
    """Serve the page: print its address, and return after Ctrl-C. Port 0 takes a free one.

    Raises:
        ServeError: if the port is taken, or the host is none of this machine's.
    """
    from waitress import create_server

    app = create_app(url, published=published, mlflow=mlflow, control=control)
    named = f"[{host}]" if ":" in host else host
    if named in LOOPBACK:  # another site must not reach it by a name that resolves here
        app.config["TRUSTED_HOSTS"] = list(LOOPBACK)
    with _open_socket(host, port) as listening:
        taken = listening.getsockname()[1]
        server = create_server(app, sockets=[listening], threads=THREADS, ident=None)
        token = control.query if control is not None else ""
        click.echo(f"http://{named}:{taken}/{token} shows {mask_url(url)}; Ctrl-C ends it")
        if control is not None:
            click.echo("whoever has this address may write notes and control sweeps", err=True)
        Thread(target=_preload_figure_libraries, name="load", daemon=True).start()
        server.run()


def _preload_figure_libraries() -> None:
    """Import the libraries of figures, so that the first figure need not wait seconds for them."""
    for name in ("cse_dashboards.report", "optuna.visualization"):
        import_module(name)


def _open_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # which names the address
        raise ServeError(
            f"cannot listen on {host}, port {port}: {why}; --port takes another one, and 0 any "
            "that is free"
        ) from error
