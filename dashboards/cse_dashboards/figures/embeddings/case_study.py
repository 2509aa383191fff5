"""Rankings of graded targets by models and by gold scores (RankCSE, tables 1 and 12)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from scipy.stats import rankdata

from cse_dashboards.encoded import Embeddings, paired_cosines
from cse_dashboards.figures.embeddings.sentences import (
    Trials,
    dev_name,
    dev_of,
    embeddings_picture,
    ranked_case,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, Picture, colour, cut_text, make_figure
from cse_methods.evaluation.measures.ranking import kendall

GOLD = "gold"
LETTERS = 46
"""Most characters of a sentence on the axis; the hover text has the whole sentence."""


def case_study(embeddings: Embeddings, trials: Trials, query: str | None = None) -> Picture:
    """Show how each model ranks the graded targets of a sentence of STS-B dev.

    The query must have at least 3 targets; by default, it is the sentence in most pairs. If no
    sentence is in more than three pairs, pairs of different sentences are ranked instead.
    """
    return embeddings_picture(
        "case_study", "Ranking case study", lambda: _make_case_study(embeddings, trials, query)
    )


def _make_case_study(
    embeddings: Embeddings, trials: Trials, query: str | None
) -> tuple[Drawn, str]:
    dev = dev_of(embeddings, trials)
    case = ranked_case(dev, query)
    first, second = zip(*case.pairs, strict=True)
    vectors, absent = vectors_of(embeddings, trials, [*first, *second])
    cosines = {label: paired_cosines(*np.split(own, 2)).tolist() for label, own in vectors.items()}
    targets: list[tuple[str, ...]]
    if case.query is None:
        title, targets = "Ranking of pairs", [*case.pairs]
        caption = (
            f"No sentence is in more than three pairs of {dev_name(dev)}: {len(targets)} of these, "
            "spread over their gold, are ranked instead of one sentence’s targets."
        )
    else:
        title, targets = f"Ranking for “{case.query}”", [(target,) for target in second]
        caption = f"Targets of a sentence of {dev_name(dev)}, at most 8, spread over their gold."
    drawn = draw_case_study(targets, case.gold, cosines, title=title)
    taus = ", ".join(f"{label} {kendall(own, case.gold):.2f}" for label, own in cosines.items())
    return drawn, (
        f"{caption} A column ranks by the scores at its marks: gold, 0 to 5, or cosines; lines "
        f"that cross are wrong orders. Kendall’s tau-b: {taus} (after RankCSE, tables 1 and 12)."
        f"{absent}"
    )


def draw_case_study(
    targets: Sequence[Sequence[str]],
    gold: Sequence[float],
    cosines: Mapping[str, Sequence[float]],
    *,
    title: str,
) -> Drawn:
    """Draw ranks by gold on the left and each model's beside it; crossing lines are wrong orders.

    Targets are in order of gold, highest first: one sentence each, or the two of a pair. The score
    is written at each mark. Ties are ranked in the order of the targets.

    Source:
        Liu et al. 2023 (RankCSE), tables 1 and 12.
    """
    scores = {GOLD: gold, **cosines}
    ranks = {
        name: rankdata(-np.asarray(values), method="ordinal") for name, values in scores.items()
    }
    lines = [
        _make_line(" ↔ ".join(target), place, scores, ranks) for place, target in enumerate(targets)
    ]
    labels = ["<br>".join(cut_text(sentence, LETTERS) for sentence in target) for target in targets]
    figure = make_figure(*lines, title=title, x="ranked by", y="rank", showlegend=False)
    figure.update_xaxes(showgrid=False, range=[-0.15, len(scores) - 0.7])
    figure.update_yaxes(
        tickvals=ranks[GOLD].tolist(),
        ticktext=labels,
        range=[len(targets) + 0.6, 0.4],
        showgrid=False,
    )
    figure.update_layout(height=max(420, 56 * len(targets) + 140))
    records = [
        {
            "target": " ↔ ".join(target),
            "ranked by": name,
            "rank": int(ranks[name][place]),
            "score": float(values[place]),
        }
        for place, target in enumerate(targets)
        for name, values in scores.items()
    ]
    return Drawn(figure, pd.DataFrame(records))


def _make_line(
    target: str, place: int, scores: Mapping[str, Sequence[float]], ranks: Mapping[str, Any]
) -> Any:
    own = [values[place] for values in scores.values()]
    return go.Scatter(
        name=target,
        x=[cut_text(name, 40) for name in scores],
        y=[int(values[place]) for values in ranks.values()],
        mode="lines+markers+text",
        line={"color": colour(place), "width": 2},
        marker={"size": 11},
        text=[f"{own[0]:.1f}", *(f"{score:.2f}" for score in own[1:])],
        textposition="top right",
        customdata=[[score] for score in own],
        hovertemplate=f"{target}<br>%{{x}}: rank %{{y}}, %{{customdata[0]:.3f}}<extra></extra>",
    )
