"""How well methods rank a sentence's neighbours (RankCSE, figure 1)."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour
from cse_dashboards.figures.naming import score_quantity
from cse_dashboards.figures.panels import panelled
from cse_platform.leaderboard.row import Estimate

GREY = 6
"""Place of a colour that is seen on every bar, and on white as on black."""


def ranking_scores(
    scores: Mapping[str, Mapping[str, Estimate]], columns: Sequence[str]
) -> go.Figure:
    """A panel a measure, a bar a method: the mean over seeds, ± their standard deviation.

    Args:
        scores: by label, scores by column.
        columns: one a panel, e.g. `avg_sts_kcc`, `avg_sts_ndcg`; their scales differ.
    """
    titles = [score_quantity(column).title for column in columns]
    panels = {
        title: [
            _bars({n: one[column] for n, one in scores.items() if column in one}, title, scores)
        ]
        for title, column in zip(titles, columns, strict=True)
    }
    figure = panelled(
        panels, title="Ranking of a sentence's neighbours", x="method", y="", showlegend=False
    )
    for place, title in enumerate(titles, start=1):
        figure.update_yaxes(title_text=title, col=place)
    return figure


def _bars(scores: Mapping[str, Estimate], name: str, order: Iterable[str]) -> go.Bar:
    places = list(order)
    return go.Bar(
        name=name,
        x=list(scores),
        y=[100 * one.mean for one in scores.values()],
        error_y={
            "array": [None if one.std is None else 100 * one.std for one in scores.values()],
            "color": colour(GREY),
        },
        texttemplate="%{y:.2f}",
        textposition="inside",
        insidetextanchor="middle",
        marker_color=[colour(places.index(label)) for label in scores],
        hovertemplate="%{x}: %{y:.2f}<extra></extra>",
    )
