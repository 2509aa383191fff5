"""The best so far by number of trials, and the expected best of that many."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import Quantity
from cse_dashboards.figures.picture import Drawn, Picture, colour, fade_colour, make_figure
from cse_dashboards.figures.search.study import ReplayedSearch
from cse_platform.search.findings import LEAST_SEARCHED, SearchFindings

TRIALS, EXPECTED, LOW, HIGH = "trials", "expected best", "low", "high"


def expected_best_picture(study: ReplayedSearch) -> Picture:
    """Show what more trials would bring (after Dodge et al. 2019, figure 1)."""
    name, title = "search_expected", "Expected best of n trials"
    caption = (
        "The best dev score that n trials of the search are expected to reach, with the 95 % "
        "interval of a bootstrap over the trials, and the best so far in the order in which they "
        "were begun. After Dodge et al. 2019, figure 1."
    )
    findings = study.findings
    if findings is None:
        few = f"fewer than {LEAST_SEARCHED} trials with a score"
        why = f"the search of sweep {study.history.sweep} has {few}"
        return Picture(name, title, caption, missing=why)
    if not findings.independent:
        caption += (
            f" Trials of {findings.sampler} depend on the ones before them: this is of n of these "
            "trials, taken in any order."
        )
    return Picture(name, title, caption, *_draw_expected_best(findings, study.quantity, title))


def _draw_expected_best(findings: SearchFindings, quantity: Quantity, title: str) -> Drawn:
    factor = quantity.factor
    data = pd.DataFrame(
        [(o.trials, factor * o.mean, factor * o.low, factor * o.high) for o in findings.expected],
        columns=[TRIALS, EXPECTED, LOW, HIGH],
    )
    ends = [
        go.Scatter(
            name=end,
            x=data[TRIALS].tolist(),
            y=data[end].tolist(),
            mode="lines",
            line={"width": 0, "color": colour(5)},
            fill="tonexty" if end == HIGH else None,
            fillcolor=fade_colour(5),
            hoverinfo="skip",
            showlegend=False,
        )
        for end in (LOW, HIGH)
    ]
    expected = go.Scatter(
        name=EXPECTED,
        x=data[TRIALS].tolist(),
        y=data[EXPECTED].tolist(),
        mode="lines",
        line={"color": colour(5), "width": 2},
        hovertemplate="%{x} trials: %{y:.2f}<extra></extra>",
    )
    reached = [(point.trials, factor * point.value) for point in findings.best_so_far]
    reached.append((max(findings.trials, reached[-1][0]), reached[-1][1]))
    best = go.Scatter(
        name="best so far",
        x=[trials for trials, _ in reached],
        y=[value for _, value in reached],
        mode="lines",
        line={"color": colour(0), "shape": "hv"},
        hovertemplate="%{x} trials: %{y:.2f}<extra></extra>",
    )
    figure = make_figure(*ends, expected, best, title=title, x=TRIALS, y=quantity.title)
    return Drawn(figure, data.rename(columns={EXPECTED: quantity.title}))
