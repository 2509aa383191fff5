"""Pictures of how far a sweep is."""

from dataclasses import replace

from cse_dashboards.figures import progress as figures
from cse_dashboards.figures.naming import dev_quantity
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.searches import sampled
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory


def pictures(overview: SweepOverview, found: SearchHistory) -> list[Picture]:
    """How far it is, and how good.

    Args:
        overview: of a sweep.
        found: its trials.
    """
    return [states(overview), best_so_far(found)]


def states(overview: SweepOverview) -> Picture:
    """Trials by state, and those to come."""
    caption = "How many trials are complete, pruned, failed, running, and still to come."
    blank = Picture("progress_states", "Trials by state", caption)
    if not overview.planned:
        return replace(blank, missing=f"sweep {overview.name} has no trial yet")
    return replace(blank, figure=figures.states(overview.counts, overview.planned))


def best_so_far(found: SearchHistory) -> Picture:
    """The best dev score against time."""
    caption = (
        "The dev score of each complete trial, further seeds included, when it ended, and the "
        "highest until then." + sampled(found)
    )
    blank = Picture("progress_best", "Best so far", caption)
    if not any(trial.state == "COMPLETE" for trial in found.trials):
        return replace(blank, missing=f"no trial of sweep {found.sweep} is complete yet")
    return replace(blank, figure=figures.best_so_far(found.trials, dev_quantity(found.dev)))
