"""All sweeps, the one that was started last on top."""

from flask import render_template

from cse_dashboards.page.address import SweepsAddress
from cse_dashboards.page.site import pages, read_address, reader
from cse_dashboards.page.views.stamps import sweeps_stamp


@pages.get("/sweeps")
def show_sweeps() -> str:
    address, stamp = read_address(SweepsAddress), sweeps_stamp()
    return render_template("sweeps.html", address=address, stamp=stamp, sweeps=reader().sweeps())


@pages.get("/parts/listed/sweeps")
def sweeps_listed() -> str:
    """The list alone, looked at again while a sweep runs."""
    return render_template("sweeps_listed.html", sweeps=reader().sweeps())
