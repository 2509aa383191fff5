"""The leaderboard as a plot: one line per row, best on top."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_figure, replace_missing
from cse_methods.names import backbone_name, method_name
from cse_platform.leaderboard.families import FamilyName, family_of
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Estimate
from cse_platform.presentation.board_entries import Board

KINDS: dict[str, dict[str, Any]] = {
    "mean over seeds, 95 % interval": {"symbol": "circle"},
    "mean over seeds, no interval": {"symbol": "square"},
    "one seed, 95 % interval over examples": {"symbol": "diamond"},
    "one seed, no interval": {"symbol": "triangle-up"},
    "chosen by its own values": {"symbol": "x"},
    "published": {"symbol": "circle-open", "line_width": 2},
}
"""The marker of each kind of row, in its method's colour. Intervals over the examples of a single
seed have a marker of their own, because they do not cover the spread over seeds, and so have scores
that a value counts in which chose the row.
"""

Published = Sequence[tuple[str, PublishedRow]]
"""Published rows, each with the label of its line in front."""


def leaderboard_pictures(
    rows: labels.Rows, published: Sequence[PublishedRow] = (), family: FamilyName | None = None
) -> list[Picture]:
    """Show the rows on their headline, or on dev if no row has a test score.

    There is a picture for each source of the test data or, without test scores, for each dev set.
    Published rows on test sets with that headline are included. By default, `family` is the first
    one that any row has test scores of.
    """
    column = Board(rows, family=family or family_of(rows)).headline
    theirs = [row for row in published if row.split == "test" and column in row.scores]
    scored = [row for row in rows if column in row.scores]
    why = ""
    if not rows and not published:
        why = "no trial that matches the filters is complete; cse-sweep quickstart runs some"
    elif published and not scored and not theirs:
        why = f"no row and no published one has a score on {column}"
    if why:
        caption = "The mean score of each row, with its interval."
        return [Picture("leaderboard", "Leaderboard", caption, missing=why)]

    if scored or theirs:
        shown, without = scored, len(rows) - len(scored)
        note = f" Rows without that score, which are not shown: {without}." if without else ""
        data_by_row = [labels.data_of(row, row.scores[column]) for row in scored]
    else:
        shown = list(rows)
        note = (
            " No row has test scores; add them with `evaluate:` in a sweep file, or with "
            "cse-evaluate."
        )
        data_by_row = [f"{row.dev.search} dev, {labels.dev_data(row)}" for row in rows]

    # Of all rows, so that a method has one colour in each picture and in the table above them.
    methods = [row.method for row in rows] + [row.method for row in published]
    colours = labels.method_colours(methods)

    def draw(data: str) -> Picture:
        ours = [row for row, own in zip(shown, data_by_row, strict=True) if own == data]
        if not scored and not theirs:
            quantity = labels.dev_quantity(ours[0].dev.search)
            return _make_picture(ours, [row.dev_score for row in ours], quantity, colours, note)
        papers = theirs if data == labels.SENTEVAL else ()
        hollow = " Hollow: papers' own numbers, on the papers' data." if papers else ""
        scores = [row.scores[column] for row in ours]
        quantity = labels.score_quantity(column)
        return _make_picture(ours, scores, quantity, colours, hollow + note, papers, column)

    return labels.picture_per_data([*data_by_row, *([labels.SENTEVAL] if theirs else [])], draw)


def _make_picture(
    rows: labels.Rows,
    scores: Sequence[Estimate],
    quantity: labels.Quantity,
    colours: Mapping[str, str],
    note: str,
    papers: Sequence[PublishedRow] = (),
    column: str = "",
) -> Picture:
    """Make a picture of rows with their scores, and of papers' rows with a score of `column`."""
    names, pairs = _label_rows(rows), zip(rows, scores, strict=True)
    scores = [replace(score, counts_choice=row.counts_choice_in(score)) for row, score in pairs]
    lines: dict[tuple[str, str], str] = {}
    for label, row in zip(names, rows, strict=True):
        system = row.released.system if row.released else row.method
        lines.setdefault((system, row.shown_backbone), label)
    published = []
    for printed in papers:
        label = f"{method_name(printed.shown_system)} {backbone_name(printed.backbone)}"
        if not printed.apart:
            label = lines.get((printed.method, printed.backbone), label)
        published.append((label, printed))
    drawn = draw_leaderboard(
        dict(zip(names, scores, strict=True)),
        quantity,
        {label: row.method for label, row in zip(names, rows, strict=True)},
        colours,
        column=column,
        published=published,
    )
    over = [score.interval.over for score in scores if score.interval]
    means = " Means with 95 % intervals (Student's t over seeds)." if "seeds" in over else ""
    if any(score.counts_choice for score in scores):
        means += (
            " Crosses: a search chose the row by a value that counts here, so the mean is too high "
            "and the interval covers less than 95 %."
        )
    if "examples" in over:
        means += " Diamonds: intervals over the examples of a single seed; other seeds may differ."
    return Picture("leaderboard", "Leaderboard", f"{quantity.title}.{means}{note}", *drawn)


def _label_rows(rows: labels.Rows) -> list[str]:
    """Label rows by method and backbone, plus the configuration if that is not unique."""
    short = [f"{method_name(row.shown_method)} {backbone_name(row.shown_backbone)}" for row in rows]
    hashes = [row.configuration.hash[:8] for row in rows]
    longer = [f"{name} @{digits}" for name, digits in zip(short, hashes, strict=True)]
    for names in (short, longer):
        if len(set(names)) == len(rows):
            return names
    return [f"{name} ({n})" for n, name in enumerate(longer, start=1)]


def draw_leaderboard(
    scores: Mapping[str, Estimate],
    quantity: labels.Quantity,
    methods: Mapping[str, str],
    colours: Mapping[str, str],
    *,
    column: str = "",
    published: Published = (),
) -> Drawn:
    """Draw means by label with 95 % intervals; published scores of `column` are hollow markers.

    `methods` are given by label, `colours` by method.
    """
    records, factor = list[tuple[Any, ...]](), quantity.factor
    for label, score in scores.items():
        kind, between = "no interval", (nan, nan)
        if interval := score.interval:
            kind = "95 % interval" + " over examples" * (interval.over == "examples")
            between = factor * interval.low, factor * interval.high
        kind = f"{'one seed' if score.n == 1 else 'mean over seeds'}, {kind}"
        kind = "chosen by its own values" if score.counts_choice else kind
        records.append((label, methods[label], kind, factor * score.mean, *between, score.n, None))
    for label, row in published:
        source = f"{method_name(row.system)} in {', '.join(row.sources)}"
        source += f" ({row.label})" if row.label else ""
        mean = factor * row.scores[column]
        records.append((label, row.method, "published", mean, nan, nan, row.seeds, source))
    columns = ["row", "method", "kind", quantity.title, "low", "high", "seeds", "source"]
    data = pd.DataFrame(records, columns=columns).astype({"seeds": "Int64"})
    best = data.drop_duplicates("row")  # ours come first
    order = list(best.sort_values(quantity.title, kind="stable")["row"])
    traces = []
    for kind, symbol in KINDS.items():
        if (own := data[data["kind"] == kind]).empty:
            continue
        means, low, high = (own[c].astype(float) for c in (quantity.title, "low", "high"))
        ends = {"array": replace_missing(high - means), "arrayminus": replace_missing(means - low)}
        notes = own["source"] if kind == "published" else [f"seeds: {n}" for n in own["seeds"]]
        traces.append(
            go.Scatter(
                name=kind,
                x=means.tolist(),
                y=own["row"].tolist(),
                error_x={**ends, "color": colour(6), "thickness": 1.5, "width": 5},
                hovertext=list(notes),
                mode="markers",
                marker={"size": 10, "color": own["method"].map(colours).tolist(), **symbol},
                hovertemplate="%{y}: %{x:.2f}, %{hovertext}<extra></extra>",
                legendgroup=kind,
                showlegend=False,
            )
        )
        # The entry of the legend has a colour that no method has.
        marker = {"size": 10, "color": colour(6), **symbol}
        traces.append(
            go.Scatter(
                name=kind, x=[None], y=[None], mode="markers", marker=marker, legendgroup=kind
            )
        )
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
