"""One sweep: what it is doing, its best configurations, its search, and its file."""

import io
from typing import Any

from flask import redirect, render_template
from ruamel.yaml import YAML
from werkzeug.wrappers import Response as BaseResponse

from cse_dashboards.page.address import SweepAddress
from cse_dashboards.page.show import arranged
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_dashboards.page.views.stamps import sweep_stamp
from cse_dashboards.page.views.trials import trials_table
from cse_methods.data.dev_selection import dev_metric
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.leaderboard.query.sweeps.trials_table import TrialChoice
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_tables import board_tables
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.secrets import mask_url

SEEDS = 8
"""Trials that are looked at for each of the best configurations, where not all trials pass."""
BEST = 8
"""Configurations that are shown, and whose dev curves are drawn."""
OFFERED_CURVES = (
    "dev/stsb_spearman",
    "dev/sickr_spearman",
    "train/loss",
    "dev/alignment",
    "dev/uniformity",
)
"""What is offered beside what the search climbs."""


@pages.get("/sweeps/<name>")
def show_sweep(name: str) -> str:
    """What takes one look at the store."""
    # The stamp before what it is of: what comes between is looked at again, and not missed.
    address, stamp = read_address(SweepAddress, name=name), sweep_stamp(name)
    overview, spec = reader().sweep(name), reader().sweep_spec(name)
    file = io.StringIO()
    YAML().dump(spec, file)
    return render_template(
        "sweep.html",
        file=file.getvalue(),
        stamp=stamp,
        space=list(spec.get("space") or {}),
        **_progress(address, overview),
        **trials_table(address, overview),
    )


@pages.get("/parts/live/sweeps/<name>")
def sweep_live(name: str) -> str:
    """How far it is, and which trials run."""
    return render_template(
        "sweep_live.html", **_progress(read_address(SweepAddress, name=name), reader().sweep(name))
    )


def _progress(address: SweepAddress, overview: SweepOverview) -> dict[str, Any]:
    return {
        "address": address,
        "overview": overview,
        "running": reader().running(address.name) if overview.counts["RUNNING"] else [],
        "runs": overview.state == "RUNNING",
    }


@pages.get("/parts/best/sweeps/<name>")
def sweep_best(name: str) -> str:
    from cse_dashboards.figures.training.dev_curves import dev_curve_pictures

    address, overview = read_address(SweepAddress, name=name), reader().sweep(name)
    rows = _best_rows(address)
    metric = address.metric or dev_metric(overview.dev)
    return render_template(
        "sweep_best.html",
        address=address,
        overview=overview,
        tables=[arranged(table) for table in board_tables(Board(rows), wide=True)],
        metric=metric,
        metrics=list(dict.fromkeys((dev_metric(overview.dev), *OFFERED_CURVES, metric))),
        pictures=dev_curve_pictures(reader(), rows, metric) if rows else [],
    )


@pages.get("/parts/running/sweeps/<name>")
def sweep_running(name: str) -> str:
    """The dev curves of the trials that run."""
    from cse_dashboards.figures.training.running import running_curves

    address, overview = read_address(SweepAddress, name=name), reader().sweep(name)
    metric = address.metric or dev_metric(overview.dev)
    trials = reader().running(name)
    picture = running_curves(reader(), trials, metric) if trials else None
    return render_template("sweep_running.html", overview=overview, picture=picture)


def _best_rows(address: SweepAddress) -> list[LeaderboardRow]:
    """The best configurations, by all their seeds in the sweep; of the trials that pass."""
    if not address.where:
        filters = Filters(sweep=address.name)
        return reader().rows(filters, per_configuration=True, limit=BEST, ranked=False)
    choice = TrialChoice(address.conditions, "COMPLETE", "score", descending=True)
    best = reader().trials(address.name, choice, limit=SEEDS * BEST)
    hashes = list(dict.fromkeys(one.configuration for one in best))[:BEST]
    return [row for one in hashes for row in _rows_of(address.name, one)]


def _rows_of(sweep: str, configuration: str) -> list[LeaderboardRow]:
    filters = Filters(sweep=sweep, configuration=configuration)
    return reader().rows(filters, per_configuration=True, ranked=False)


@pages.get("/sweeps/<name>/mlflow")
def sweep_mlflow(name: str) -> BaseResponse:
    """Leads to its run on the MLflow server, which is asked only when it is wanted."""
    server, spec = site().mlflow, reader().sweep_spec(name)
    if server is None:
        raise NotFoundError("no MLflow server is known; start cse-dashboard with --mlflow http://…")
    from cse_platform.tracking.mlflow.sweep_run import sweep_run

    run = sweep_run(server, experiment=spec.get("experiment", "cse"), sweep=name)
    if run is None:
        raise NotFoundError(f"MLflow at {mask_url(server)} has no run of the sweep {name!r}")
    return redirect(f"{server.rstrip('/')}/{run.page}")
