"""All sweeps, the one that was started last on top."""

from typing import Any

from flask import render_template

from cse_dashboards.page.address import SweepsAddress
from cse_dashboards.page.show import TablePage
from cse_dashboards.page.site import pages, read_address, reader
from cse_dashboards.page.views.stamps import sweeps_stamp

SWEEPS_SHOWN = 50
"""Sweeps on one page."""


@pages.get("/sweeps")
def show_sweeps() -> str:
    stamp = sweeps_stamp()
    return render_template("sweeps.html", stamp=stamp, **_sweeps(read_address(SweepsAddress)))


@pages.get("/parts/listed/sweeps")
def sweeps_listed() -> str:
    """The list alone, looked at again while a sweep runs."""
    return render_template("sweeps_listed.html", **_sweeps(read_address(SweepsAddress)))


def _sweeps(address: SweepsAddress) -> dict[str, Any]:
    """What the template takes."""
    shown = TablePage(address.page, SWEEPS_SHOWN, reader().count_sweeps())
    sweeps = reader().sweeps(limit=SWEEPS_SHOWN, offset=shown.before)
    return {"address": address, "shown_page": shown, "sweeps": sweeps}
