"""All sweeps, the one that was started last on top."""

from flask import render_template

from cse_dashboards.page.address import SweepsAddress
from cse_dashboards.page.site import pages, read_address, reader

EVERY = 5
"""Seconds between two looks at a sweep that runs."""


@pages.get("/sweeps")
def show_sweeps() -> str:
    address = read_address(SweepsAddress)
    return render_template("sweeps.html", address=address, **_listed())


@pages.get("/parts/listed/sweeps")
def sweeps_listed() -> str:
    """The list alone, looked at again while a sweep runs."""
    return render_template("sweeps_listed.html", **_listed())


def _listed() -> dict[str, object]:
    sweeps = reader().sweeps()
    runs = any(one.state == "RUNNING" for one in sweeps)
    return {"sweeps": sweeps, "every": EVERY if runs else None}
