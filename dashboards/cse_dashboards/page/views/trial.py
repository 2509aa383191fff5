"""The page of a trial, and the data of any picture as a CSV file."""

import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from flask import Response, current_app, g, render_template, request

from cse_dashboards.figures.labels import method_style
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.training.dev_curves import draw_dev_curves
from cse_dashboards.figures.training.machine import machine_picture
from cse_dashboards.page.address import TrialAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.data.dev_selection import dev_metric
from cse_methods.names import method_name
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trial_details import SweepPlace, TrialDetails
from cse_platform.leaderboard.trial_page import trial_page
from cse_platform.tracking.history import order_metrics
from cse_platform.tracking.output import read_output

MOST_LINES, MOST_PRINTED = 200, 20_000
"""Lines and characters of what a trial has printed that its page shows at most."""


@dataclass(frozen=True)
class TrialPlace:
    """A trial's place in one of its sweeps, and its neighbours."""

    sweep: str
    number: int
    before: Trial | None
    after: Trial | None
    best: Trial | None
    """The best trial of the sweep, which may be this one."""
    best_values: dict[str, Any] | None
    """The hyperparameters of the best trial, unless it is this one."""


@pages.get("/trials/<key>")
def show_trial(key: str) -> str:
    """Render how a trial was trained, and its results."""
    address = read_address(TrialAddress, key=key)
    details = reader().trial(key)
    places = [_make_place(details, place) for place in details.sweeps]
    best = next((place.best_values for place in places if place.best_values is not None), None)
    where = f" --store {shlex.quote(site().place)}"
    _title, *blocks = trial_page(details, where=where, best=best)
    return render_template(
        "trial.html",
        address=address,
        details=details,
        places=places,
        blocks=blocks,
        where=where,
        metrics=_list_metrics(details),
        figure=_draw_curve(details, address.metric or dev_metric(details.dev.search)),
        machine=machine_picture(details.curve),
        printed=_read_last_lines(details),
    )


def _read_last_lines(details: TrialDetails) -> str:
    """Read the last lines of the trial's output; empty if it is not on this machine.

    `cse-sweep logs` tells where it is.
    """
    with suppress(NotFoundError, OSError):
        file = details.find_output(site().opened.folder)
        if file is not None:
            return "".join(
                read_output(file)[-MOST_PRINTED:].splitlines(keepends=True)[-MOST_LINES:]
            )
    return ""


def _make_place(details: TrialDetails, place: SweepPlace) -> TrialPlace:
    best = reader().best_of_sweep(place.sweep)
    is_other = best is not None and best.key != details.key
    return TrialPlace(
        place.sweep,
        place.number,
        *reader().neighbours(place.sweep, place.number),
        best=best,
        best_values=best.hyperparameters if best and is_other else None,
    )


def _list_metrics(details: TrialDetails) -> list[str]:
    """List the metrics of a trial's dev points."""
    return order_metrics(name for point in details.curve for name in point.metrics)


def _draw_curve(details: TrialDetails, metric: str) -> Picture:
    name, title = "dev_curve", "Dev curve"
    caption = "A star marks the checkpoint that was kept."
    if metric not in _list_metrics(details):
        return Picture(name, title, caption, missing=f"this trial reported no {metric}")
    label = f"{method_name(details.method)}, seed {details.seed}"
    styles = {label: method_style(details.method)}
    drawn = draw_dev_curves(
        {label: {details.seed: details.curve}}, metric, styles, {label: {details.seed: details.key}}
    )
    return Picture(name, title, caption, *drawn)


def csv_address(picture: Picture) -> str:
    """Return the URL of the picture's data, which is not embedded as it would double the page's
    size.
    """
    _list_shown_pictures()[picture.name] = picture
    query = request.query_string.decode()
    return f"/csv/{picture.name}{quote(request.path)}" + (f"?{query}" if query else "")


@pages.get("/csv/<name>/", defaults={"view": ""})
@pages.get("/csv/<name>/<path:view>")
def picture_numbers(name: str, view: str) -> Response:
    """Render the view again, and send the data of one of its pictures."""
    addresses = current_app.url_map.bind_to_environ(request.environ)
    endpoint, path = addresses.match(f"/{view}", "GET")
    if endpoint != request.endpoint:
        current_app.view_functions[endpoint](**path)
    if name not in _list_shown_pictures():
        raise NotFoundError(f"this view has no figure {name!r} with numbers; load it again")
    answer = Response(_list_shown_pictures()[name].csv, mimetype="text/csv")
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return answer


def _list_shown_pictures() -> dict[str, Picture]:
    """Return the pictures of the view that is being rendered, by name."""
    if "pictures" not in g:
        g.pictures = {}
    shown: dict[str, Picture] = g.pictures
    return shown
