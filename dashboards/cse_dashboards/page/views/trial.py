"""Everything about one trial: what `cse-leaderboard show` prints, with its curve as a figure."""

import shlex

from flask import Blueprint, render_template, request

from cse_dashboards.figures.dev_curves import dev_curves
from cse_dashboards.page.address import TrialAddress
from cse_dashboards.page.site import reader, site
from cse_dashboards.picture import Picture
from cse_methods.data.dev_selection import dev_metric
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.leaderboard.render.trial_page import trial_page

view = Blueprint("trial", __name__)


@view.get("/trials/<key>")
def page(key: str) -> str:
    """What it was trained from, on and with, and what came of it."""
    address = TrialAddress.read(request.args.items(multi=True), key=key)
    story = reader().trial(key)
    _title, *blocks = trial_page(story, where=f" --store {shlex.quote(site().place)}")
    return render_template(
        "trial.html",
        address=address,
        story=story,
        blocks=blocks,
        metrics=_metrics(story),
        figure=_curve(story, address.metric or dev_metric(story.dev.search)),
    )


def _metrics(story: TrialDetails) -> list[str]:
    """What its points have, in the order in which they were first reported."""
    return list(dict.fromkeys(name for point in story.curve for name in point.metrics))


def _curve(story: TrialDetails, metric: str) -> Picture:
    label = f"{story.method}, seed {story.seed}"
    there = metric in _metrics(story)
    return Picture(
        "dev_curve",
        "Dev curve",
        "A star marks the checkpoint that was kept.",
        dev_curves({label: {story.seed: story.curve}}, metric) if there else None,
        None if there else f"this trial reported no {metric}",
    )
