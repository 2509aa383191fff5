"""The leaderboard as a plot: a line a row, the best on top."""

from collections.abc import Iterator, Mapping, Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn
from cse_dashboards.figures.naming import Quantity
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.row import Estimate

KINDS = {
    "mean over seeds, 95 % interval": (0, "circle"),
    "mean over seeds, no interval": (0, "square"),
    "one seed, 95 % interval over pairs": (1, "diamond"),
    "one seed, no interval": (1, "square"),
}
"""Place of the colour, and symbol."""
GREY = 6
"""Place of the colour of published rows."""

Published = Sequence[tuple[str, PublishedRow]]
"""Each with the label of the line that it stands on."""


def leaderboard(
    scores: Mapping[str, Estimate],
    quantity: Quantity,
    *,
    column: str | None = None,
    published: Published = (),
) -> go.Figure:
    """Means with 95 % intervals, published numbers as hollow markers.

    An interval over the pairs of a single seed has a colour and a symbol of its own: how other
    seeds would do is not in it.

    Args:
        scores: by label.
        quantity: of these scores.
        column: the same in published rows; none of them is drawn without it.
        published: has a score in that column.
    """
    theirs = [(label, row) for label, row in published if column in row.scores]
    best = {label: score.mean for label, score in scores.items()}
    for label, row in theirs:
        best.setdefault(label, row.scores[column or ""])
    order = sorted(best, key=lambda label: best[label])
    traces = [*_ours(scores, quantity), *_theirs(theirs, column or "", quantity)]
    figure = drawn(
        *traces,
        title=quantity.name,
        x=quantity.title,
        y="",
        height=max(260, 150 + 28 * len(order)),
        showlegend=True,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        margin_b=96,
    )
    return figure.update_yaxes(
        categoryorder="array", categoryarray=order, range=[-0.6, len(order) - 0.4]
    )


def _ours(scores: Mapping[str, Estimate], quantity: Quantity) -> Iterator[go.Scatter]:
    for kind, (place, symbol) in KINDS.items():
        if mine := {label: one for label, one in scores.items() if _kind(one) == kind}:
            yield _means(kind, mine, quantity, place, symbol)


def _kind(score: Estimate) -> str:
    over = "one seed" if score.n == 1 else "mean over seeds"
    if score.interval is None:
        return f"{over}, no interval"
    return f"{over}, 95 % interval" + (" over pairs" if score.interval.over == "pairs" else "")


def _means(
    name: str, scores: Mapping[str, Estimate], quantity: Quantity, place: int, symbol: str
) -> go.Scatter:
    up, down = [], []
    for one in scores.values():
        low, high = (one.interval.low, one.interval.high) if one.interval else (None, None)
        up.append(None if high is None else quantity.factor * (high - one.mean))
        down.append(None if low is None else quantity.factor * (one.mean - low))
    return go.Scatter(
        name=name,
        x=[quantity.factor * one.mean for one in scores.values()],
        y=list(scores),
        error_x={"array": up, "arrayminus": down, "thickness": 1.5, "width": 5},
        customdata=[[one.n] for one in scores.values()],
        meta=("seeds",),
        mode="markers",
        marker={"size": 10, "symbol": symbol, "color": colour(place)},
        hovertemplate="%{y}: %{x:.2f}, seeds: %{customdata[0]}<extra></extra>",
    )


def _theirs(published: Published, column: str, quantity: Quantity) -> Iterator[go.Scatter]:
    if published:
        yield go.Scatter(
            name="published",
            x=[quantity.factor * row.scores[column] for _, row in published],
            y=[label for label, _ in published],
            hovertext=[_told(row) for _, row in published],
            mode="markers",
            marker={"size": 10, "symbol": "circle-open", "color": colour(GREY), "line_width": 2},
            hovertemplate="%{y}: %{x:.2f}, %{hovertext}<extra></extra>",
        )


def _told(row: PublishedRow) -> str:
    said = f"{row.system} in {', '.join(row.sources)}"
    return f"{said} ({row.label})" if row.label else said
