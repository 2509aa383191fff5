"""Pictures that lay methods side by side: a line, a panel or a bar each."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from cse_dashboards.figures import buckets as buckets_figure
from cse_dashboards.figures import dev_curves as curves_figure
from cse_dashboards.figures import plane as plane_figure
from cse_dashboards.figures import ranking_scores as ranking_figure
from cse_dashboards.figures.naming import TASKS, metric_quantity
from cse_dashboards.figures.plane import ALIGNMENT, UNIFORMITY
from cse_dashboards.figures.seeds import Seeds, having, over_seeds
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.labels import data_of, dev_data, first_rows, picture_per_data
from cse_dashboards.pictures.ranked import RANKING, Scores, ranked
from cse_methods.evaluation.results import Similarities
from cse_platform.errors import StoreError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.published.match import source_of
from cse_platform.leaderboard.row import LeaderboardRow

Rows = Sequence[LeaderboardRow]

Labelled = Mapping[str, LeaderboardRow]

TO_EVALUATE = "in a sweep file, or cse-evaluate TRIAL --tasks"


def dev_curves(reader: Leaderboard, rows: Rows, metric: str) -> list[Picture]:
    """A metric against the step, with a band over the seeds (CompCSE, figure 3).

    Metrics on dev sets have a picture for each source of the dev data.

    Args:
        reader: of the leaderboard that the rows are of.
        rows: those that are shown; more than there are colours are left out.
        metric: of dev curves, e.g. `dev/stsb_spearman`, `train/loss`.
    """
    if not metric.startswith("dev/"):
        return [_dev_curves(reader, rows, metric)]
    return _per_dev_data(rows, lambda shown: _dev_curves(reader, shown, metric))


def _per_dev_data(rows: Rows, draw: Callable[[Rows], Picture]) -> list[Picture]:
    return picture_per_data(
        map(dev_data, rows), lambda data: draw([row for row in rows if dev_data(row) == data])
    )


def _dev_curves(reader: Leaderboard, rows: Rows, metric: str) -> Picture:
    labelled, left = first_rows(rows)
    curves, seeds = _curves(reader, labelled, metric)
    name = "dev_curves_" + re.sub(r"[^a-z0-9]+", "_", metric.lower())
    title = f"{metric_quantity(metric).name} by step"
    caption = (
        "Mean over the seeds at each step that all of them have; band: from the lowest to the "
        "highest seed; star: the checkpoint of each seed that was kept. After CompCSE, figure 3."
        + _without(labelled, curves, metric)
        + seeds
        + left
    )
    if not curves:
        why = (
            f"no dev curve of these rows has {metric}; `dev:` in a sweep file says what is measured"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, curves_figure.dev_curves(curves, metric))


def plane(reader: Leaderboard, rows: Rows) -> list[Picture]:
    """Alignment against uniformity (CompCSE figure 2, RankCSE figure 4, WhitenedCSE figure 3).

    A picture for each source of the dev data.
    """
    return _per_dev_data(rows, lambda shown: _plane(reader, shown))


def _plane(reader: Leaderboard, rows: Rows) -> Picture:
    labelled, left = first_rows(rows)
    curves, seeds = _curves(reader, labelled, ALIGNMENT, UNIFORMITY)
    name, title = "alignment_uniformity", "Alignment and uniformity"
    caption = (
        "On STS-B dev, mean over the seeds at each step, from a hollow marker before training to a "
        "star at the mean of the checkpoints that were kept; lower is better on both axes. After "
        "CompCSE figure 2, RankCSE figure 4 and WhitenedCSE figure 3."
        + _without(labelled, curves, "both measures")
        + seeds
        + left
    )
    if not curves:
        why = (
            "no dev curve of these rows has alignment and uniformity; trials that cse-sweep runs "
            "report both, imported ones may not"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, plane_figure.plane(curves))


def ranking_scores(reader: Leaderboard, rows: Rows) -> list[Picture]:
    """KCC and NDCG (RankCSE, figure 1): a picture for each source of the test data."""
    labelled, left = first_rows(rows)
    scores, told = ranked(reader, labelled)
    left = _without(labelled, scores, "these scores") + told + left
    data = {
        label: data_of(source_of(next(iter(one.values())), labelled[label].dev))
        for label, one in scores.items()
    }
    return picture_per_data(
        data.values(),
        lambda name: _ranking_scores({n: s for n, s in scores.items() if data[n] == name}, left),
    )


def _ranking_scores(scores: Mapping[str, Scores], left: str) -> Picture:
    name, title = "ranking_scores", "KCC and NDCG"
    caption = (
        "Mean over the seeds, ± one standard deviation over them; higher is better on both scales. "
        "After RankCSE, figure 1." + left
    )
    if not scores:
        why = (
            f"no KCC of any of these rows: `evaluate: {{tasks: [ranking]}}` {TO_EVALUATE} ranking; "
            "built-in sets have none, as no sentence is in more than three of their pairs"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, ranking_figure.ranking_scores(scores, RANKING))


def buckets(reader: Leaderboard, rows: Rows, task: str = "stsb") -> Picture:
    """The distribution of cosines by gold score (RankCSE, figure 5).

    Args:
        reader: of the leaderboard that the rows are of.
        rows: those that are shown, each with its best seed on dev that has been scored.
        task: one of the STS tasks.
    """
    labelled, left = first_rows(rows)
    scored = _similarities(reader, labelled, task)
    pairs = next((one.data_sha256 for one in scored.values()), None)
    found = {label: one for label, one in scored.items() if one.data_sha256 == pairs}
    name, title = f"buckets_{task}", f"Cosines by gold score, {TASKS.get(task, task)}"
    caption = (
        "Density of the cosines of the test pairs whose gold score lies between two grades, with "
        "their mean; each method by its best scored seed on dev. After RankCSE, figure 5, which is "
        "of STS-B dev: the cosines that are stored are those of test pairs."
        + _without(labelled, scored, f"cosines on {task}")
        + _without(scored, found, f"the pairs that {next(iter(found), '')} was scored on")
        + left
    )
    if not found:
        why = f"no cosines on {task} of these rows: `evaluate: {{tasks: [sts]}}` {TO_EVALUATE} sts"
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, buckets_figure.buckets(found))


def scored_trial(row: LeaderboardRow, task: str) -> str | None:
    """The key of a row's best seed on dev among those that are scored on a task."""
    scored = row.scores[task].values if task in row.scores else {}
    best = max(scored, key=lambda seed: row.dev_score.values[seed], default=None)
    return None if best is None else row.keys[best]


def _curves(reader: Leaderboard, labelled: Labelled, *metrics: str) -> tuple[dict[str, Seeds], str]:
    """Of the seeds that have these metrics, and what to add to a caption where some have not."""
    whole = {label: reader.dev_curves(row) for label, row in labelled.items()}
    curves = {
        label: kept
        for label, seeds in whole.items()
        if (kept := having(seeds, *metrics)) and all(over_seeds(kept, name) for name in metrics)
    }
    absent = sum(len(whole[label]) - len(seeds) for label, seeds in curves.items())
    what = metrics[0] if len(metrics) == 1 else "both"
    return curves, f" Seeds without {what}, and left out: {absent}." if absent else ""


def _similarities(reader: Leaderboard, labelled: Labelled, task: str) -> dict[str, Similarities]:
    found = {}
    for label, row in labelled.items():
        if (trial := scored_trial(row, task)) is not None:
            with suppress(StoreError):  # imported scores come without the cosines behind them
                found[label] = reader.similarities(trial, task)
    return found


def _without(labelled: Mapping[str, object], found: Mapping[str, object], what: str) -> str:
    absent = [label for label in labelled if label not in found]
    return f" Without {what}, and left out: {', '.join(absent)}." if absent and found else ""
