"""Everything about one trial: what `cse-leaderboard show` prints, with its curve as a figure."""

import shlex

from flask import render_template

from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.styles import method_style
from cse_dashboards.figures.training.dev_curves import draw_dev_curves
from cse_dashboards.page.address import TrialAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.data.dev_selection import dev_metric
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.leaderboard.render.trial_page import trial_page


@pages.get("/trials/<key>")
def show_trial(key: str) -> str:
    """What it was trained from, on and with, and what came of it."""
    address = read_address(TrialAddress, key=key)
    details = reader().trial(key)
    _title, *blocks = trial_page(details, where=f" --store {shlex.quote(site().place)}")
    return render_template(
        "trial.html",
        address=address,
        details=details,
        blocks=blocks,
        metrics=_metrics(details),
        figure=_curve(details, address.metric or dev_metric(details.dev.search)),
    )


def _metrics(details: TrialDetails) -> list[str]:
    """What its points have, in the order in which they were first reported."""
    return list(dict.fromkeys(name for point in details.curve for name in point.metrics))


def _curve(details: TrialDetails, metric: str) -> Picture:
    name, title = "dev_curve", "Dev curve"
    caption = "A star marks the checkpoint that was kept."
    if metric not in _metrics(details):
        return Picture(name, title, caption, missing=f"this trial reported no {metric}")
    label = f"{details.method}, seed {details.seed}"
    styles = {label: method_style(details.method)}
    drawn = draw_dev_curves({label: {details.seed: details.curve}}, metric, styles)
    return Picture(name, title, caption, *drawn)
