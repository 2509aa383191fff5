"""Pictures of one method against another."""

from cse_dashboards.figures import differences as differences_figure
from cse_dashboards.figures import pair_scatter as pairs_figure
from cse_dashboards.figures.naming import TASKS
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.methods import TO_EVALUATE, scored_trial
from cse_methods.evaluation.results import Similarities
from cse_platform.errors import NotFoundError, QueryError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.query.board.resolve import named_rows
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.statistics.results import Comparison


def differences(comparison: Comparison) -> Picture:
    """How far A is above B on each task, with its interval and p value."""
    caption = (
        "Difference of the means over seeds, with the 95 % interval of the paired bootstrap; p is "
        "two-sided that there is no difference, by Holm's correction over the tasks; the average "
        "is one test. Hollow: the interval holds zero, or is not known."
    )
    notes = "".join(f" {note[:1].upper()}{note[1:].rstrip('.')}." for note in comparison.notes)
    title = f"{comparison.a} against {comparison.b}"
    return Picture(
        "differences", title, caption + notes, differences_figure.differences(comparison)
    )


def pair_scatter(
    reader: Leaderboard, row_a: LeaderboardRow, row_b: LeaderboardRow, task: str
) -> Picture:
    """The cosine of every pair of a task under one method against that under the other.

    Args:
        reader: of the leaderboard that the rows are of.
        row_a: one row, shown by its best seed on dev that has been scored.
        row_b: the other.
        task: one of the STS tasks.
    """
    name, title = f"pairs_{task}", f"Pairs of {TASKS.get(task, task)}"
    caption = (
        "Every test pair, each method by its best scored seed on dev; the diagonal: both alike."
    )
    labelled = named_rows([row_a, row_b])
    try:
        found = {label: _similarities(reader, row, task) for label, row in labelled.items()}
    except QueryError as error:
        return Picture(name, title, caption, missing=str(error))
    (a, first), (b, second) = found.items()
    if first.data_sha256 != second.data_sha256:
        why = f"{a} and {b} were scored on other pairs of {task}; score both with cse-evaluate"
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, pairs_figure.pair_scatter(a, first, b, second))


def _similarities(reader: Leaderboard, row: LeaderboardRow, task: str) -> Similarities:
    trial = scored_trial(row, task)
    if trial is None:
        raise NotFoundError(
            f"{row.method} has no score on {task}: `evaluate: {{tasks: [{task}]}}` {TO_EVALUATE} "
            f"{task}"
        )
    return reader.similarities(trial, task)
