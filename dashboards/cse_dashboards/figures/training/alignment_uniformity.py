"""Alignment against uniformity (CompCSE figure 2, RankCSE figure 4, WhitenedCSE figure 3)."""

from collections.abc import Mapping
from statistics import fmean

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import Drawn, Picture, make_figure
from cse_dashboards.figures.training import dev_curves
from cse_platform.leaderboard.api import Leaderboard

UNIFORMITY, ALIGNMENT = "dev/uniformity", "dev/alignment"


def alignment_uniformity(reader: Leaderboard, rows: labels.Rows) -> list[Picture]:
    """Show how training moves the embeddings, with one picture per source of dev data."""
    return labels.picture_per_dev_data(rows, lambda shown: _make_picture(reader, shown))


def _make_picture(reader: Leaderboard, rows: labels.Rows) -> Picture:
    labelled, left = labels.first_rows(rows)
    curves, seeds = dev_curves.curves_of(reader, labelled, UNIFORMITY, ALIGNMENT)
    name, title = "alignment_uniformity", "Alignment and uniformity"
    caption = (
        "On STS-B dev, or without it on the dev set that picks the checkpoint. Mean over the seeds "
        "at each step, from a hollow marker before training to a star at the mean of the "
        "checkpoints that were kept; lower is better on both axes. After CompCSE figure 2, RankCSE "
        "figure 4 and WhitenedCSE figure 3."
        + labels.left_out(labelled, curves, "both measures")
        + seeds
        + left
    )
    if not curves:
        why = (
            "no dev curve of these rows has alignment and uniformity; trials that cse-sweep runs "
            "report both, imported ones may not"
        )
        return Picture(name, title, caption, missing=why)
    return Picture(
        name, title, caption, *draw_alignment_uniformity(curves, labels.row_styles(labelled))
    )


def draw_alignment_uniformity(
    curves: Mapping[str, dev_curves.SeedCurves], styles: Mapping[str, labels.Style]
) -> Drawn:
    """Draw a line per method through the means over seeds at each step; lower is better on both
    axes.

    It starts at a hollow marker before training; a star marks the mean over the kept checkpoints,
    one per seed. Seeds without both measures are left out.
    """
    traces, records = list[go.Scatter](), list[tuple[object, ...]]()
    for label, seeds in curves.items():
        both = dev_curves.seeds_having(seeds, UNIFORMITY, ALIGNMENT)
        across, up = dev_curves.over_seeds(both, UNIFORMITY), dev_curves.over_seeds(both, ALIGNMENT)
        means = [(step, fmean(across[step]), fmean(up[step])) for step in up if step in across]
        records += [(label, dev_curves.MEAN, *mean) for mean in means]
        style = styles[label]
        traces.append(
            go.Scatter(
                name=label,
                x=[x for _, x, _ in means],
                y=[y for _, _, y in means],
                customdata=[[step] for step, _, _ in means],
                mode="lines+markers",
                line={"color": style.colour, "width": 1.5, "dash": style.dash},
                marker={
                    "size": 7,
                    "symbol": [f"{style.symbol}{'' if step else '-open'}" for step, _, _ in means],
                },
                legendgroup=label,
                hovertemplate=f"{labels.STEP} %{{customdata[0]}}: "
                "uniformity %{x:.3f}, alignment %{y:.3f}",
            )
        )
        kept = [
            [value for _, value in dev_curves.at_kept(both, name)]
            for name in (UNIFORMITY, ALIGNMENT)
        ]
        if all(kept):
            x, y = map(fmean, kept)
            records.append((label, dev_curves.KEPT, None, x, y))
            hover = "kept checkpoints: uniformity %{x:.3f}, alignment %{y:.3f}"
            traces.append(
                dev_curves.mark_kept(label, [x], [y], colour=style.colour, hovertemplate=hover)
            )
    figure = make_figure(
        *traces,
        title="Alignment and uniformity on dev",
        x="uniformity (lower is better)",
        y="alignment (lower is better)",
        hovermode="closest",
    )
    columns = ["method", "point", labels.STEP, "uniformity", "alignment"]
    return Drawn(figure, pd.DataFrame(records, columns=columns).astype({labels.STEP: "Int64"}))
