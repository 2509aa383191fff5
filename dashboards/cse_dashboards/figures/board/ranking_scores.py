"""Scores for ranking a sentence's neighbours (RankCSE, figure 1)."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_panels, replace_missing
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.families import BOARD_FAMILIES
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.records import Estimate, LeaderboardRow, estimate

_RANKING = BOARD_FAMILIES["ranking"].averages

Scores = Mapping[str, Estimate]
"""Estimates by column, all from one evaluation."""


def ranking_pictures(reader: Leaderboard, rows: labels.Rows) -> list[Picture]:
    """Show KCC and NDCG of each row, with one picture for each source of the test data."""
    labelled, left = labels.first_rows(rows)
    scores, notes = ranking_estimates(reader, labelled)
    added = labels.left_out(labelled, scores, "these scores") + notes + left
    data = {
        label: labels.data_of(labelled[label], next(iter(estimates.values())))
        for label, estimates in scores.items()
    }
    return labels.picture_per_data(
        data.values(),
        lambda name: _make_picture(
            {n: s for n, s in scores.items() if data[n] == name}, labels.row_styles(labelled), added
        ),
    )


def _make_picture(
    scores: Mapping[str, Scores], styles: Mapping[str, labels.Style], added: str
) -> Picture:
    name, title = "ranking_scores", "KCC and NDCG"
    caption = (
        "Mean over the seeds, ± one standard deviation over them; higher is better on both scales. "
        "After RankCSE, figure 1." + added
    )
    if not scores:
        why = (
            "no KCC of any of these rows: `evaluate: {tasks: [ranking]}` "
            f"{labels.TO_EVALUATE} ranking; "
            "built-in sets have none, as no sentence is in more than three of their pairs"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, *draw_ranking_scores(scores, _RANKING, styles))


def draw_ranking_scores(
    scores: Mapping[str, Scores], columns: Sequence[str], styles: Mapping[str, labels.Style]
) -> Drawn:
    """Draw a panel per measure and a bar per method: mean over seeds, ± standard deviation."""
    records = []
    for column in columns:
        measure = labels.score_quantity(column).title
        for label, estimates in scores.items():
            if score := estimates.get(column):
                std = None if score.std is None else 100 * score.std
                records.append((label, measure, 100 * score.mean, std, score.n))
    data = pd.DataFrame(records, columns=["method", "measure", "mean", "std", "seeds"])
    panels = {}
    for title in (labels.score_quantity(column).title for column in columns):
        own = data[data["measure"] == title]
        bars = go.Bar(
            name=title,
            x=own["method"].tolist(),
            y=own["mean"].tolist(),
            # A grey that is visible on every bar, and on white and black.
            error_y={"array": replace_missing(own["std"]), "color": colour(6)},
            texttemplate="%{y:.2f}",
            textposition="inside",
            insidetextanchor="middle",
            marker_color=[styles[label].colour for label in own["method"]],
            hovertemplate="%{x}: %{y:.2f}<extra></extra>",
        )
        panels[title] = [bars]
    figure = make_panels(
        panels,
        title="Ranking of a sentence's neighbours",
        axes=[("method", title) for title in panels],
        showlegend=False,
    )
    return Drawn(figure, data)


def ranking_estimates(
    reader: Leaderboard, labelled: Mapping[str, LeaderboardRow]
) -> tuple[dict[str, Scores], str]:
    """Average KCC and NDCG over each row's own seeds. Also returns a note for the caption.

    Of each row, the evaluation that most rows share is used; rows without scores are left out.
    """
    estimates = {label: _estimate_ranking(reader, row) for label, row in labelled.items()}
    evaluations = {label: several for label, several in estimates.items() if several}
    shared = Counter(
        _list_identities(scores) for several in evaluations.values() for scores in several
    )
    chosen = {
        label: max(several, key=lambda scores: shared[_list_identities(scores)])
        for label, several in evaluations.items()
    }
    added = ""
    if many := [label for label, several in evaluations.items() if len(several) > 1]:
        added += f" Evaluated in several ways, one of which is shown: {', '.join(many)}."
    if len({*map(_list_identities, chosen.values())}) > 1:
        added += " Not all were evaluated alike, so that some bars cannot be compared."
    return chosen, added


def _estimate_ranking(reader: Leaderboard, row: LeaderboardRow) -> list[Scores]:
    """Average KCC and NDCG over a row's seeds, separately for each evaluation."""
    same = Filters(backbone=row.backbone, method=row.method, configuration=row.configuration.hash)
    rows = reader.rows(same, tasks="ranking", per_configuration=True, ranked=False)
    estimates: list[Scores] = []
    for evaluated in rows:
        scores = {
            name: estimate(kept, score.identity, score.source, row.seeds, row.chosen_by)
            for name in _RANKING
            if (score := evaluated.scores.get(name))
            and (kept := {s: v for s, v in score.values.items() if s in row.keys})
        }
        if scores and evaluated.dev == row.dev:
            estimates.append(scores)
    return estimates


def _list_identities(scores: Scores) -> tuple[str, ...]:
    return tuple(score.identity for score in scores.values())
