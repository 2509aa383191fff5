"""How cosines spread within buckets of gold scores (RankCSE, figure 5)."""

from collections.abc import Mapping

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, faded
from cse_dashboards.figures.naming import TASKS
from cse_dashboards.figures.panels import panelled
from cse_methods.evaluation.measures.buckets import in_buckets
from cse_methods.evaluation.results import Similarities


def buckets(similarities: Mapping[str, Similarities]) -> go.Figure:
    """A panel a method: for each bucket of gold scores, the density of its pairs' cosines.

    A line within a ridge is the bucket's mean.

    Args:
        similarities: by label, one or more, all of the pairs of one task.
    """
    some = next(iter(similarities.values()))
    figure = panelled(
        {
            label: _ridges(label, one, place)
            for place, (label, one) in enumerate(similarities.items())
        },
        title=f"Cosines by gold score, {TASKS.get(some.task, some.task)} {some.split}",
        x="cosine",
        y="gold score",
        shared_yaxes="all",
        horizontal_spacing=0.06,
        showlegend=False,
        violingap=0,
        violinmode="overlay",
    )
    # All share the range of the first, which warns in the browser where it shares its own.
    return figure.update_xaxes(matches="x").update_layout(xaxis_matches=None)


def _ridges(label: str, one: Similarities, place: int) -> list[go.Violin]:
    return [
        go.Violin(
            name=label,
            x=one.cosines[inside].round(4),
            y=[bucket] * int(inside.sum()),
            orientation="h",
            side="positive",
            width=1.7,
            points=False,
            meanline_visible=True,
            line={"color": colour(place), "width": 1.2},
            fillcolor=faded(place, 0.4),
            spanmode="hard",
            hoverinfo="x+y",
        )
        for bucket, inside in in_buckets(one.gold).items()
    ]
