"""The leaderboard as a plot: one line per row, best on top."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import (
    SENTEVAL,
    Quantity,
    Rows,
    data_of,
    dev_data,
    dev_quantity,
    method_style,
    picture_per_data,
    score_quantity,
)
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_figure, replace_missing
from cse_methods.names import backbone_name, method_name
from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.published.rows import PublishedRow, source_of
from cse_platform.leaderboard.records import Estimate, FamilyName, LeaderboardRow, family_of

KINDS: dict[str, dict[str, Any]] = {
    "mean over seeds, 95 % interval": {"symbol": "circle"},
    "mean over seeds, no interval": {"symbol": "square"},
    "one seed, 95 % interval over pairs": {"symbol": "diamond"},
    "one seed, no interval": {"symbol": "triangle-up"},
    "published": {"symbol": "circle-open", "line_width": 2},
}
"""The marker of each kind of row, in its method's colour. Intervals over the pairs of a single seed
have a marker of their own, because they do not cover the spread over seeds.
"""
_WHISKERS = {"color": colour(6), "thickness": 1.5, "width": 5}
_OVER_PAIRS = "over the pairs of a single seed; how other seeds would do is not in them"

Published = Sequence[tuple[str, PublishedRow]]
"""Published rows, each with the label of its line in front."""


def leaderboard_pictures(
    rows: Rows, published: Sequence[PublishedRow] = (), family: FamilyName | None = None
) -> list[Picture]:
    """Show the rows on their headline, or on dev if no row has a test score.

    There is a picture for each source of the test data or, without test scores, for each dev set.
    Published rows on test sets with that headline are included. By default, `family` is the first
    one that any row has test scores of.
    """
    column = Board(rows, family=family or family_of(rows)).headline
    theirs = [row for row in published if row.split == "test" and column in row.scores]
    scored = [row for row in rows if column in row.scores]
    if not scored and not published:
        return _draw_on_dev(rows)
    if not scored and not theirs:
        return [_make_missing_picture(f"no row and no published one has a score on {column}")]
    without = len(rows) - len(scored)
    left = f" Rows without that score, which are not shown: {without}." if without else ""

    def draw(data: str) -> Picture:
        ours = [row for row in scored if _name_test_data(row, column) == data]
        return _draw_on_test(ours, theirs if data == SENTEVAL else (), column, left)

    data = [_name_test_data(row, column) for row in scored]
    return picture_per_data([*data, *([SENTEVAL] if theirs else [])], draw)


def _name_test_data(row: LeaderboardRow, column: str) -> str:
    return data_of(source_of(row.scores[column], row.dev))


def _draw_on_test(rows: Rows, theirs: Sequence[PublishedRow], column: str, left: str) -> Picture:
    shown = _label_rows(rows)
    ours = {label: row.scores[column] for label, row in shown.items()}
    papers = " Hollow: papers' own numbers, on the papers' data." if theirs else ""
    quantity = score_quantity(column)
    drawn = draw_leaderboard(
        ours, quantity, _map_methods(shown), column=column, published=_place_published(theirs, rows)
    )
    return _make_picture(
        f"{quantity.title}.{_describe_intervals(ours.values())}{papers}{left}", drawn
    )


def _draw_on_dev(rows: Rows) -> list[Picture]:
    if not rows:
        why = (
            "no trial is complete among those that the filters let through; "
            "cse-sweep sweeps/quickstart.yaml makes some"
        )
        return [_make_missing_picture(why)]

    def draw(name: str) -> Picture:
        shown = _label_rows([row for row in rows if _name_dev_set(row) == name])
        quantity = dev_quantity(next(iter(shown.values())).dev.search)
        scores = {label: row.dev_score for label, row in shown.items()}
        why = " No row has test scores: `evaluate:` in a sweep file, or cse-evaluate, makes them."
        caption = f"{quantity.title}.{_describe_intervals(scores.values())}{why}"
        return _make_picture(caption, draw_leaderboard(scores, quantity, _map_methods(shown)))

    return picture_per_data(map(_name_dev_set, rows), draw)


def _name_dev_set(row: LeaderboardRow) -> str:
    return f"{row.dev.search} dev, {dev_data(row)}"


def _label_rows(rows: Rows) -> dict[str, LeaderboardRow]:
    """Label rows by method and backbone, plus the configuration if that is not unique."""
    for name in (_make_label, lambda row: f"{_make_label(row)} @{row.configuration.hash[:8]}"):
        named = {name(row): row for row in rows}
        if len(named) == len(rows):
            return named
    return {f"{name(row)} ({n})": row for n, row in enumerate(rows, start=1)}


def _map_methods(labelled: Mapping[str, LeaderboardRow]) -> dict[str, str]:
    return {label: row.method for label, row in labelled.items()}


def _make_label(row: LeaderboardRow) -> str:
    return f"{method_name(row.shown_method)} {backbone_name(row.shown_backbone)}"


def _place_published(published: Sequence[PublishedRow], rows: Rows) -> Published:
    """Label each published row like our first row of its method and backbone, else by its name."""
    lines: dict[tuple[str, str], str] = {}
    for label, row in _label_rows(rows).items():
        system = row.released.system if row.released else row.method
        lines.setdefault((system, row.shown_backbone), label)
    return [
        (
            lines.get(
                (row.method, row.backbone),
                f"{method_name(row.system)} {backbone_name(row.backbone)}",
            ),
            row,
        )
        for row in published
    ]


def _describe_intervals(scores: Iterable[Estimate]) -> str:
    over = [score.interval.over for score in scores if score.interval]
    text = " Means with 95 % intervals (Student's t over seeds)." if "seeds" in over else ""
    return f"{text} Diamonds: intervals {_OVER_PAIRS}." if "pairs" in over else text


def _make_picture(caption: str, drawn: Drawn) -> Picture:
    return Picture("leaderboard", "Leaderboard", caption, *drawn)


def _make_missing_picture(why: str) -> Picture:
    caption = "The mean score of each row, with its interval."
    return Picture("leaderboard", "Leaderboard", caption, missing=why)


def draw_leaderboard(
    scores: Mapping[str, Estimate],
    quantity: Quantity,
    methods: Mapping[str, str],
    *,
    column: str | None = None,
    published: Published = (),
) -> Drawn:
    """Draw means by label with 95 % intervals; published scores of `column` are hollow markers."""
    theirs = [(label, row) for label, row in published if column in row.scores]
    data = _build_data(scores, quantity, methods, theirs, column)
    best = data.drop_duplicates("row")  # ours come first
    order = list(best.sort_values(quantity.title, kind="stable")["row"])
    traces = [
        trace
        for kind in KINDS
        if not (own := data[data["kind"] == kind]).empty
        for trace in (_make_markers(kind, own, quantity), _make_legend_key(kind))
    ]
    figure = make_figure(
        *traces,
        title=quantity.name,
        x=quantity.title,
        y="",
        height=max(260, 150 + 28 * len(order)),
        showlegend=True,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        margin_b=96,
    )
    figure.update_yaxes(categoryorder="array", categoryarray=order, range=[-0.6, len(order) - 0.4])
    return Drawn(figure, data)


def _build_data(
    scores: Mapping[str, Estimate],
    quantity: Quantity,
    methods: Mapping[str, str],
    theirs: Published,
    column: str | None,
) -> pd.DataFrame:
    ours = [
        {
            "row": label,
            "method": methods[label],
            "kind": _classify_score(score),
            quantity.title: quantity.factor * score.mean,
            "low": quantity.factor * score.interval.low if score.interval else None,
            "high": quantity.factor * score.interval.high if score.interval else None,
            "seeds": score.n,
        }
        for label, score in scores.items()
    ]
    papers = [
        {
            "row": label,
            "method": row.method,
            "kind": "published",
            quantity.title: quantity.factor * row.scores[column or ""],
            "seeds": row.seeds,
            "source": _format_source(row),
        }
        for label, row in theirs
    ]
    columns = ["row", "method", "kind", quantity.title, "low", "high", "seeds", "source"]
    return pd.DataFrame([*ours, *papers], columns=columns).astype({"seeds": "Int64"})


def _classify_score(score: Estimate) -> str:
    over = "one seed" if score.n == 1 else "mean over seeds"
    if score.interval is None:
        return f"{over}, no interval"
    return f"{over}, 95 % interval" + (" over pairs" if score.interval.over == "pairs" else "")


def _format_source(row: PublishedRow) -> str:
    text = f"{method_name(row.system)} in {', '.join(row.sources)}"
    return f"{text} ({row.label})" if row.label else text


def _make_markers(kind: str, data: pd.DataFrame, quantity: Quantity) -> go.Scatter:
    means, theirs = data[quantity.title].astype(float), kind == "published"
    up, down = data["high"].astype(float) - means, means - data["low"].astype(float)
    hover = "%{hovertext}" if theirs else "seeds: %{customdata[0]}"
    return go.Scatter(
        name=kind,
        x=means.tolist(),
        y=data["row"].tolist(),
        error_x=None
        if theirs
        else {"array": replace_missing(up), "arrayminus": replace_missing(down), **_WHISKERS},
        customdata=None if theirs else [[n] for n in data["seeds"]],
        hovertext=data["source"].tolist() if theirs else None,
        mode="markers",
        marker={
            "size": 10,
            "color": [method_style(method).colour for method in data["method"]],
            **KINDS[kind],
        },
        hovertemplate=f"%{{y}}: %{{x:.2f}}, {hover}<extra></extra>",
        legendgroup=kind,
        showlegend=False,
    )


def _make_legend_key(kind: str) -> go.Scatter:
    """Make the legend entry of a kind, in a colour that no method has."""
    marker = {"size": 10, "color": colour(6), **KINDS[kind]}
    return go.Scatter(
        name=kind, x=[None], y=[None], mode="markers", marker=marker, legendgroup=kind
    )
