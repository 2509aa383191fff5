"""Rankings of graded targets by models and by gold scores (RankCSE, tables 1 and 12)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from scipy.stats import rankdata

from cse_dashboards.encoded import Embeddings, paired_cosines
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_name,
    dev_of,
    differing_pairs,
    spread_by_gold,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, colour, cut_text, make_figure
from cse_methods.data.pairs import GradedPair, PairSet
from cse_methods.evaluation.measures.ranking import kendall, queries

GOLD = "gold"
LETTERS = 46
"""Most characters of a sentence on the axis; the hover text has the whole sentence."""
TARGETS = 8
"""Most targets that a case study ranks."""
RANKED_PAIRS = 6
"""Most pairs that it ranks; each takes two lines."""
FEWEST = 3
"""Fewest targets that make a ranking."""


def case_of(dev: PairSet, query: str | None = None) -> tuple[str | None, list[GradedPair]]:
    """Choose what to rank: at most 8 targets of a query, spread over their gold, or 6 pairs.

    The default query is the sentence in most pairs, if it is in more than three; otherwise, pairs
    of different sentences are ranked. Raises LacksError if the query has fewer than 3 targets.

    Returns:
        The sentence that all pairs share, None if they share none; and the pairs by gold, highest
        first. The query comes first in its pairs.
    """
    by_default = queries(dev.first, dev.second)
    if query is None and not by_default:
        indices = spread_by_gold(dev, differing_pairs(dev), RANKED_PAIRS)
        return None, [GradedPair(dev.first[n], dev.second[n], float(dev.gold[n])) for n in indices]
    chosen = query or max(by_default, key=lambda sentence: len(by_default[sentence]))
    chosen = " ".join(chosen.split())
    targets: dict[str, int] = {}
    for index, (first, second) in enumerate(zip(dev.first, dev.second, strict=True)):
        if chosen in (first, second) and first != second:
            targets.setdefault(second if chosen == first else first, index)
    if len(targets) < FEWEST:
        raise LacksError(
            f"{query!r} has fewer than 3 targets in {dev_name(dev)}: name another of its sentences"
        )
    sentence = {index: target for target, index in targets.items()}
    indices = spread_by_gold(dev, list(sentence), TARGETS)
    return chosen, [GradedPair(chosen, sentence[n], float(dev.gold[n])) for n in indices]


def case_study(embeddings: Embeddings, trials: Trials, query: str | None) -> tuple[Drawn, str]:
    """Draw how each model ranks the graded targets of a sentence of STS-B dev.

    The query must have at least 3 targets; by default, it is the sentence in most pairs. If no
    sentence is in more than three pairs, pairs of different sentences are ranked instead.
    """
    dev = dev_of(embeddings, trials)
    shared, pairs = case_of(dev, query)
    first, second, gold = zip(*pairs, strict=True)
    vectors, absent = vectors_of(embeddings, trials, [*first, *second])
    cosines = {label: paired_cosines(*np.split(own, 2)).tolist() for label, own in vectors.items()}
    if shared is None:
        caption = (
            f"No sentence is in more than three pairs of {dev_name(dev)}: {len(first)} of these, "
            "spread over their gold, are ranked instead of one sentence’s targets."
        )
    else:
        caption = f"Targets of a sentence of {dev_name(dev)}, at most 8, spread over their gold."
    taus = ", ".join(f"{label} {kendall(own, gold):.2f}" for label, own in cosines.items())
    return draw_case_study(shared, pairs, cosines), (
        f"{caption} A column ranks by the scores at its marks: gold, 0 to 5, or cosines; lines "
        f"that cross are wrong orders. Kendall’s tau-b: {taus} (after RankCSE, tables 1 and 12)."
        f"{absent}"
    )


def draw_case_study(
    query: str | None, pairs: Sequence[GradedPair], cosines: Mapping[str, Sequence[float]]
) -> Drawn:
    """Draw ranks by gold on the left and each model's beside it; crossing lines are wrong orders.

    The score is written at each mark. Ties are ranked in the order of the targets.

    Source:
        Liu et al. 2023 (RankCSE), tables 1 and 12.
    """
    scores = {GOLD: [pair.gold for pair in pairs], **cosines}
    ranks = {name: rankdata(-np.asarray(own), method="ordinal") for name, own in scores.items()}
    columns = [cut_text(name, 40) for name in scores]
    lines, labels, records = [], [], []
    for index, pair in enumerate(pairs):
        shown = (pair.first, pair.second) if query is None else (pair.second,)
        target, own = " ↔ ".join(shown), [float(values[index]) for values in scores.values()]
        heights = [int(values[index]) for values in ranks.values()]
        labels.append("<br>".join(cut_text(sentence, LETTERS) for sentence in shown))
        records += [(target, *cell) for cell in zip(scores, heights, own, strict=True)]
        lines.append(
            go.Scatter(
                name=target,
                x=columns,
                y=heights,
                mode="lines+markers+text",
                line={"color": colour(index), "width": 2},
                marker={"size": 11},
                text=[f"{own[0]:.1f}", *(f"{score:.2f}" for score in own[1:])],
                textposition="top right",
                customdata=[[score] for score in own],
                hovertemplate=f"{target}<br>%{{x}}: rank %{{y}}, %{{customdata[0]:.3f}}"
                "<extra></extra>",
            )
        )
    title = "Ranking of pairs" if query is None else f"Ranking for “{query}”"
    height = max(420, 56 * len(lines) + 140)
    figure = make_figure(
        *lines, title=title, x="ranked by", y="rank", showlegend=False, height=height
    )
    figure.update_xaxes(showgrid=False, range=[-0.15, len(scores) - 0.7])
    figure.update_yaxes(
        tickvals=ranks[GOLD].tolist(),
        ticktext=labels,
        range=[len(lines) + 0.6, 0.4],
        showgrid=False,
    )
    return Drawn(figure, pd.DataFrame(records, columns=["target", "ranked by", "rank", "score"]))
