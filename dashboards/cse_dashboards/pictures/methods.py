"""Pictures that lay methods side by side: a line, a panel or a bar each."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from cse_dashboards.figures import buckets as buckets_figure
from cse_dashboards.figures import dev_curves as curves_figure
from cse_dashboards.figures import plane as plane_figure
from cse_dashboards.figures import ranking_scores as ranking_figure
from cse_dashboards.figures.naming import TASKS, metric_quantity
from cse_dashboards.figures.plane import ALIGNMENT, UNIFORMITY
from cse_dashboards.figures.seeds import Seeds, over_seeds
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.labels import first_rows
from cse_platform.errors import StoreError
from cse_platform.leaderboard.chosen import Filters
from cse_platform.leaderboard.reader import LeaderboardReader
from cse_platform.leaderboard.row import FAMILIES, Estimate, LeaderboardRow

Rows = Sequence[LeaderboardRow]

TO_EVALUATE = "in a sweep file, or cse-evaluate TRIAL --tasks"


def dev_curves(reader: LeaderboardReader, rows: Rows, metric: str) -> Picture:
    """A metric against the step, with a band over the seeds (CompCSE, figure 3).

    Args:
        reader: of the leaderboard that the rows are of.
        rows: those that are shown; more than there are colours are left out.
        metric: of dev curves, e.g. `dev/stsb_spearman`, `train/loss`.
    """
    labelled, left = first_rows(rows)
    curves = _with(_curves(reader, labelled), metric)
    name = "dev_curves_" + re.sub(r"[^a-z0-9]+", "_", metric.lower())
    title = f"{metric_quantity(metric).name} by step"
    caption = (
        "Mean over the seeds at each step that all of them have; band: from the lowest to the "
        "highest seed; star: each seed's best checkpoint on dev. After CompCSE, figure 3."
        + _without(labelled, curves, metric)
        + left
    )
    if not curves:
        why = (
            f"no dev curve of these rows has {metric}; `dev:` in a sweep file says what is measured"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, curves_figure.dev_curves(curves, metric))


def plane(reader: LeaderboardReader, rows: Rows) -> Picture:
    """Alignment against uniformity (CompCSE figure 2, RankCSE figure 4, WhitenedCSE figure 3)."""
    labelled, left = first_rows(rows)
    curves = _with(_with(_curves(reader, labelled), ALIGNMENT), UNIFORMITY)
    name, title = "alignment_uniformity", "Alignment and uniformity"
    caption = (
        "On STS-B dev, mean over the seeds at each step, from a hollow marker before training to a "
        "star at the best checkpoints; lower is better on both axes. After CompCSE figure 2, "
        "RankCSE figure 4 and WhitenedCSE figure 3."
        + _without(labelled, curves, "both measures")
        + left
    )
    if not curves:
        why = (
            "no dev curve of these rows has alignment and uniformity; trials that cse-sweep runs "
            "report both, imported ones may not"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, plane_figure.plane(curves))


def ranking_scores(reader: LeaderboardReader, rows: Rows) -> Picture:
    """KCC and NDCG (RankCSE, figure 1)."""
    labelled, left = first_rows(rows)
    scores = {label: found for label, row in labelled.items() if (found := _ranking(reader, row))}
    name, title = "ranking_scores", "KCC and NDCG"
    caption = (
        "Mean over the seeds, ± one standard deviation over them; higher is better on both scales. "
        "After RankCSE, figure 1." + _without(labelled, scores, "these scores") + left
    )
    if not scores:
        why = (
            f"no KCC of any of these rows: `evaluate: {{tasks: [ranking]}}` {TO_EVALUATE} ranking; "
            "built-in sets have none, as no sentence is in more than three of their pairs"
        )
        return Picture(name, title, caption, missing=why)
    averages = FAMILIES["ranking"].averages
    return Picture(name, title, caption, ranking_figure.ranking_scores(scores, averages))


def buckets(reader: LeaderboardReader, rows: Rows, task: str = "stsb") -> Picture:
    """The distribution of cosines by gold score (RankCSE, figure 5).

    Args:
        reader: of the leaderboard that the rows are of.
        rows: those that are shown, each with its best seed on dev that has been scored.
        task: one of the STS tasks.
    """
    labelled, left = first_rows(rows)
    found = {}
    for label, row in labelled.items():
        if (trial := scored_trial(row, task)) is not None:
            with suppress(StoreError):  # imported scores come without the cosines behind them
                found[label] = reader.similarities(trial, task)
    name, title = f"buckets_{task}", f"Cosines by gold score, {TASKS.get(task, task)}"
    caption = (
        "Density of the cosines of the test pairs whose gold score lies between two grades, with "
        "their mean; each method by its best seed on dev. After RankCSE, figure 5."
        + _without(labelled, found, f"cosines on {task}")
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


def _curves(reader: LeaderboardReader, labelled: Mapping[str, LeaderboardRow]) -> dict[str, Seeds]:
    return {label: reader.dev_curves(row) for label, row in labelled.items()}


def _with(curves: Mapping[str, Seeds], metric: str) -> dict[str, Seeds]:
    return {label: seeds for label, seeds in curves.items() if over_seeds(seeds, metric)}


def _ranking(reader: LeaderboardReader, row: LeaderboardRow) -> Mapping[str, Estimate]:
    """A row's averages of KCC and NDCG; empty where it was not scored for these."""
    same = Filters(configuration=row.configuration.hash)
    found = reader.rows(same, tasks="ranking", per_configuration=True, standing=False)
    averages = FAMILIES["ranking"].averages
    scores = found[0].scores if found else {}
    return {column: scores[column] for column in averages if column in scores}


def _without(labelled: Mapping[str, object], found: Mapping[str, object], what: str) -> str:
    absent = [label for label in labelled if label not in found]
    return f" Without {what}, and left out: {', '.join(absent)}." if absent and found else ""
