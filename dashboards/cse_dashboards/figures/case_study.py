"""How models rank graded targets, beside how people do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.stats import rankdata

from cse_dashboards.figures.look import colour, drawn
from cse_dashboards.figures.panels import short

GOLD = "gold"
LETTERS = 46
"""Of a sentence on the axis; the hover has it whole."""


def case_study(
    targets: Sequence[Sequence[str]],
    gold: Sequence[float],
    cosines: Mapping[str, Sequence[float]],
    *,
    title: str,
) -> go.Figure:
    """Ranks by gold on the left, each model's beside it; lines that cross are wrong orders.

    The score stands at each mark. Of equal scores the earlier target has the better rank.

    Args:
        targets: what is ranked, highest gold first: a sentence each, or the two of a pair.
        gold: similarities that people (or the grammar) gave.
        cosines: by model.
        title: whose targets.

    Source:
        Liu et al. 2023 (RankCSE), tables 1 and 12.
    """
    scores = {GOLD: gold, **cosines}
    ranks = {
        name: rankdata(-np.asarray(values), method="ordinal") for name, values in scores.items()
    }
    lines = [
        _line(" ↔ ".join(target), place, scores, ranks) for place, target in enumerate(targets)
    ]
    labels = ["<br>".join(short(sentence, LETTERS) for sentence in target) for target in targets]
    figure = drawn(*lines, title=title, x="ranked by", y="rank", showlegend=False)
    figure.update_xaxes(showgrid=False, range=[-0.15, len(scores) - 0.7])
    figure.update_yaxes(
        tickvals=ranks[GOLD].tolist(),
        ticktext=labels,
        range=[len(targets) + 0.6, 0.4],
        showgrid=False,
    )
    return figure.update_layout(height=max(420, 56 * len(targets) + 140))


def _line(
    target: str, place: int, scores: Mapping[str, Sequence[float]], ranks: Mapping[str, Any]
) -> Any:
    own = [values[place] for values in scores.values()]
    return go.Scatter(
        name=target,
        x=[short(name, 40) for name in scores],
        y=[int(values[place]) for values in ranks.values()],
        mode="lines+markers+text",
        line={"color": colour(place), "width": 2},
        marker={"size": 11},
        text=[f"{own[0]:.1f}", *(f"{score:.2f}" for score in own[1:])],
        textposition="top right",
        customdata=[[score] for score in own],
        meta=["score"],
        hovertemplate=f"{target}<br>%{{x}}: rank %{{y}}, %{{customdata[0]:.3f}}<extra></extra>",
    )
