"""Pictures of what each searched setting does to the score."""

import re

from cse_dashboards.figures.naming import dev_quantity
from cse_dashboards.figures.setting import by_value, is_number, recur, scored_with, spread
from cse_dashboards.figures.setting import setting as setting_figure
from cse_dashboards.figures.surface import surface as surface_figure
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.searches import nothing_searched, pair, sampled
from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory

_AFTER = "Other settings vary along. After HiCL, figure 2."


def settings(history: SearchHistory) -> list[Picture]:
    """Each searched setting against the score (HiCL figure 2, and the papers' ablation tables)."""
    if not len(history.space):
        return [Picture("settings", "Settings", _AFTER, missing=nothing_searched(history))]
    return [_setting(history, name) for name in history.space]


def surface(history: SearchHistory, x: str | None = None, y: str | None = None) -> Picture:
    """Two settings against the score (RankCSE, figure 3).

    Args:
        history: of the search.
        x: one setting; left out, `tau2` or the one of which most values were tried.
        y: another; left out, `tau3` or the next.
    """
    title = "Two settings and the score"
    caption = (
        "Mean on dev over the configurations of each pair of values, each the mean of its seeds. "
        "After RankCSE, figure 3." + _sampled(history)
    )
    names = pair(history, x, y)
    if len(names) < 2 or not all(name in history.space for name in names):
        why = (
            f"a surface takes two settings that sweep {history.sweep} searched "
            f"({', '.join(history.space) or 'none'}), got {' and '.join(names) or 'none'}"
        )
        return Picture("surface", title, caption, missing=why)
    x, y = names
    title = f"{x} and {y}"
    if not scored_with(history.trials, x, y):
        why = f"no complete trial of sweep {history.sweep} has both {x} and {y}"
        return Picture("surface", title, caption, missing=why)
    figure = surface_figure(history.trials, x, y, history.space, dev_quantity(history.dev))
    if any(trace.type == "contour" for trace in figure.data):
        caption += " Between the points it is interpolated linearly."
    return Picture("surface", title, caption, figure)


def _setting(history: SearchHistory, name: str) -> Picture:
    file = "setting_" + re.sub(r"[^a-z0-9]+", "_", name.lower())
    title = f"Effect of {name}"
    if not scored_with(history.trials, name):
        why = f"no complete trial of sweep {history.sweep} has {name}"
        return Picture(file, title, _AFTER, missing=why)
    caption = f"A marker a complete trial.{_means(history, name)} {_AFTER}{_sampled(history)}"
    quantity = dev_quantity(history.dev)
    figure = setting_figure(history.trials, name, history.space[name], quantity)
    return Picture(file, title, caption, figure)


def _means(history: SearchHistory, name: str) -> str:
    """What is drawn of a setting beside its trials."""
    found = by_value(history.trials, name)
    if not recur(found.values(), history.space[name]):
        return ""
    said = " The mean is over the configurations of each value, each the mean of its seeds"
    drawn = spread(found.values(), numeric=all(is_number(value) for (value,) in found))
    if drawn is not None:
        said += f"; {drawn}: ± one standard deviation over seeds, pooled within configurations"
    return f"{said}."


def _sampled(history: SearchHistory) -> str:
    """What to add to the captions of means where some trials were left out."""
    weighted = " In the means each counts for as many trials as it stands for."
    return sampled(history) + (weighted if history.is_sample else "")
