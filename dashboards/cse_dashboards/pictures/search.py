"""Pictures of a search: Optuna's own visualisations of what the leaderboard says of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import plotly.graph_objects as go
from optuna import Study
from optuna.trial import TrialState

from cse_dashboards.figures import search as figures
from cse_dashboards.figures.naming import Quantity, dev_quantity
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.searches import no_pair, nothing_searched, pair, sampled
from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.search.replay import replayed_study

MOST_MARKS = 200
"""Trials of the figures that grow heavy: parallel coordinates are a trace a trial, and browsers do
not come to an end with a contour over a thousand values of each setting."""
MOST_PANELS = 6

Draw = Callable[[Study, Quantity], go.Figure]


def history(found: SearchHistory) -> Picture:
    """The score of each trial, and the best so far."""
    caption = "The dev score of each complete trial of the search, and the highest until then."
    return _drawn(Picture("search_history", "Search history", caption), found, figures.history)


def parallel(found: SearchHistory) -> Picture:
    """A line a trial through its settings and its score."""
    caption = "A line a complete trial of the search; the higher its dev score, the darker."
    blank = Picture("search_parallel", "Settings and scores", caption)
    return _drawn(blank, _fewer(found), figures.parallel, settings=1)


def importances(found: SearchHistory) -> Picture:
    """How much each setting decides; the evaluator is named."""
    caption = (
        "How much each setting decides whether a trial is among the best, by Optuna's PED-ANOVA: "
        "it compares the best trials with all, fits no model and takes no time. Unsure below some "
        "50 trials."
    )
    if found.is_sample:
        found = _even(found)
        caption += f" From an even sample of {len(found.trials)} trials."
    blank = Picture("search_importances", "Importance of settings", caption)
    complete = _complete(found)
    if complete and len({trial.value for trial in complete}) < 2:
        why = f"sweep {found.sweep} has no two complete trials of different scores"
        return replace(blank, missing=why)
    return _drawn(blank, found, lambda study, _: figures.importances(study), settings=2)


def slices(found: SearchHistory) -> Picture:
    """Score against each setting, a panel each."""
    caption = "Each complete trial of the search, by one setting at a time; the later, the darker."
    many = len(found.space) > MOST_PANELS
    if many:
        caption += f" Of {len(found.space)} settings the {MOST_PANELS} most important ones."

    def draw(study: Study, quantity: Quantity) -> go.Figure:
        tried = {name for trial in study.get_trials(deepcopy=False) for name in trial.params}
        names = figures.most_important(study)[:MOST_PANELS] if many else found.space
        return figures.slices(study, [name for name in names if name in tried], quantity)

    return _drawn(Picture("search_slices", "Score by setting", caption), found, draw, settings=1)


def contour(found: SearchHistory, x: str | None = None, y: str | None = None) -> Picture:
    """Score over two settings.

    Args:
        found: of a search.
        x: one setting; left out, `tau2` or the one of which most values were tried.
        y: another; left out, `tau3` or the next.
    """
    caption = (
        "The dev score between the complete trials of the search, as Optuna interpolates it; where "
        "several trials share a point, the best of them counts."
    )
    blank = Picture("search_contour", "Contour of two settings", caption)
    names, found = pair(found, x, y), _fewer(found)
    if why := no_pair(found, names):
        return replace(blank, missing=why)
    complete = [trial.values for trial in _complete(found)]
    both = [values for values in complete if values.keys() >= set(names)]
    if complete and any(len({repr(values[name]) for values in both}) < 2 for name in names):
        why = f"sweep {found.sweep} has no complete trials with two values each of"
        return replace(blank, missing=f"{why} {' and '.join(names)}")

    def draw(study: Study, quantity: Quantity) -> go.Figure:
        return figures.contour(study, names[0], names[-1], quantity)

    blank = replace(blank, title=f"Contour of {' and '.join(names)}")
    return _drawn(blank, found, draw, settings=2)


def _drawn(blank: Picture, found: SearchHistory, draw: Draw, *, settings: int = 0) -> Picture:
    """The picture with its figure, or with why there is none.

    Args:
        blank: the picture without.
        found: what was searched.
        draw: makes the figure.
        settings: how many it takes at least.
    """
    if settings and not len(found.space):
        return replace(blank, missing=nothing_searched(found))
    if settings > len(found.space):
        return replace(blank, missing=f"sweep {found.sweep} searched a single setting")
    quantity = dev_quantity(found.dev)
    replayed = replayed_study(found, factor=quantity.factor)
    if not _complete(found):
        why = f"no trial of the search of sweep {found.sweep} is complete yet"
        return replace(blank, missing=why)
    if not replayed.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        why = f"no complete trial of sweep {found.sweep} has values of the space in its file"
        return replace(blank, missing=why)
    caption = blank.caption + sampled(found)
    if replayed.left_out:
        caption += (
            f" Left out: {replayed.left_out} trials with values that its space does not have."
        )
    return replace(blank, caption=caption, figure=draw(replayed.study, quantity))


def _complete(found: SearchHistory) -> list[TrialSummary]:
    return [one for one in found.trials if one.role == "search" and one.state == "COMPLETE"]


def _even(found: SearchHistory) -> SearchHistory:
    """A selection of trials that has as many of the best ones as they are among all."""
    half = len(found.trials) // 2
    best = _best_first([one for one in found.trials if one.state == "COMPLETE"])[:half]
    others, sampled_ones = found.total - len(best), len(found.trials) - len(best)
    kept = {one.number for one in _spread(best, round(len(best) * sampled_ones / others))}
    too_many = {one.number for one in best} - kept
    trials = tuple(one for one in found.trials if one.number not in too_many)
    return replace(found, trials=trials, total=len(trials))


def _fewer(found: SearchHistory) -> SearchHistory:
    """No more trials than a heavy figure takes: the best, and an even sample of the others."""
    complete = _best_first(_complete(found))
    if len(complete) <= MOST_MARKS:
        return found
    best, others = complete[: MOST_MARKS // 2], complete[MOST_MARKS // 2 :]
    others.sort(key=lambda one: one.number)
    kept = sorted(best + _spread(others, MOST_MARKS - len(best)), key=lambda one: one.number)
    return replace(found, trials=tuple(kept))


def _best_first(trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    return sorted(trials, key=lambda one: (-(one.value or 0.0), one.number))


def _spread(trials: Sequence[TrialSummary], count: int) -> list[TrialSummary]:
    """So many of them, at even distances."""
    return [trials[place * len(trials) // count] for place in range(count)]
