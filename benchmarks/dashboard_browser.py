"""Measure in Chromium what the dashboard's pages load at first, and how long their scripts run."""

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from flask import Flask
from rich.console import Console
from rich.table import Table
from waitress import create_server

sys.path.append(str(Path(__file__).parents[1] / "tests" / "fixtures"))
from browser import chromium, chromium_path

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

WINDOW = {"width": 1440, "height": 900}
MOST_KB, MOST_SECONDS = 500, 0.5
IDLE = 1500
"""Milliseconds without a request after which everything in sight counts as loaded."""
SORTS = "thead a"


def browse(app: Flask, views: Sequence[str]) -> None:
    """Print a line for each page; do nothing if Chromium is not installed."""
    if chromium_path() is None:
        return
    limits = f"limits: {MOST_KB} kB at first sight, {MOST_SECONDS} s of scripts a click"
    table = Table("view", "first sight, kB", "its scripts, s", "a click's, s", title=limits)
    with served(app) as address, chromium() as browser:
        for view in views:
            table.add_row(view, *look(browser, address + view))
    Console().print(table)


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """Serve the app while the context is open, and yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = create_server(app, sockets=[listening], threads=8)
    Thread(target=server.run, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.close()


def look(browser: "Browser", address: str) -> tuple[str, str, str]:
    """Measure kB and script seconds until a page is loaded, and script seconds of one click."""
    context = browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]  # a size
    page = context.new_page()
    session, sent = context.new_cdp_session(page), []
    session.send("Network.enable")
    session.send("Performance.enable")
    session.on("Network.loadingFinished", lambda told: sent.append(told["encodedDataLength"]))
    page.goto(address)
    rest(page)
    shown, scripts = sum(sent) / 1000, script_seconds(session)
    clicked = ""
    if page.locator(SORTS).count():
        page.locator(SORTS).first.click()
        rest(page)
        after = script_seconds(session)
        clicked = f"{after - scripts if after >= scripts else after:.2f}"
    context.close()
    return f"{shown:.0f}", f"{scripts:.2f}", clicked


def rest(page: "Page") -> None:
    """Wait until no request is running and all parts in sight are loaded."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(IDLE)


def script_seconds(session: "CDPSession") -> float:
    """Return the seconds that scripts have run since the page was opened."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "ScriptDuration"))
