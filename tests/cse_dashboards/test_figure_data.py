"""A figure as CSV."""

import csv
import math
from io import StringIO

import numpy as np
import optuna
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.visualization import plot_contour, plot_optimization_history, plot_param_importances
from plotly.subplots import make_subplots

from cse_dashboards.figures.data import as_csv
from cse_dashboards.figures.look import drawn


def lines(figure: go.Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(as_csv(figure))))


def test_points_have_the_names_of_the_axes_and_the_ends_of_their_error_bars() -> None:
    points = go.Scatter(
        name="simcse",
        x=[0, 5],
        y=[1.0, 2.0],
        error_y={"array": [0.5, None], "arrayminus": [0.25, 1]},
    )

    assert as_csv(drawn(points, title="t", x="step", y="Spearman × 100")) == (
        "trace,step,Spearman × 100,low,high\nsimcse,0,1.0,0.75,1.5\nsimcse,5,2.0,1.0,\n"
    )


def test_error_bars_along_x_are_of_x() -> None:
    points = go.Scatter(name="a", x=[10.0], y=["row"], error_x={"array": [2.0]})

    assert lines(drawn(points, title="t", x="score", y="method")) == [
        {"trace": "a", "score": "10.0", "method": "row", "low": "8.0", "high": "12.0"}
    ]


def test_what_has_no_mark_has_no_line() -> None:
    figure = drawn(
        go.Scatter(name="a", x=[1, 2, None], y=[3, math.nan, 4]), title="t", x="x", y="y"
    )

    assert lines(figure) == [{"trace": "a", "x": "1", "y": "3"}]


def test_a_heat_map_is_a_line_a_cell_without_the_empty_ones() -> None:
    cells = go.Heatmap(
        name="mean",
        x=["a", "b"],
        y=[1, 2],
        z=[[1, 2], [3, None]],
        colorbar={"title": {"text": "s"}},
    )

    assert as_csv(drawn(cells, title="t", x="across", y="down")) == (
        "trace,across,down,s\nmean,a,1,1\nmean,b,1,2\nmean,a,2,3\n"
    )


def test_numbers_of_the_hover_colours_and_texts_have_columns() -> None:
    points = go.Scatter(
        name="a",
        x=[1],
        y=[2],
        customdata=[[7]],
        meta=("seeds",),
        hovertext=["first<br>second"],
        marker={"color": [0.5], "colorbar": {"title": {"text": "gold"}}},
    )

    [line] = lines(drawn(points, title="t", x="x", y="y"))

    assert line == {
        "trace": "a",
        "x": "1",
        "y": "2",
        "seeds": "7",
        "gold": "0.5",
        "text": "first; second",
    }


def test_an_axis_without_a_title_has_that_of_the_one_it_matches() -> None:
    figure = make_subplots(1, 2, shared_yaxes=True)
    figure.add_bar(name="left", x=["a"], y=[1], row=1, col=1)
    figure.add_bar(name="right", x=["a"], y=[2], row=1, col=2)
    figure.update_yaxes(title_text="KCC × 100", col=1).update_xaxes(title_text="method")

    assert [line["KCC × 100"] for line in lines(figure)] == ["1", "2"]


def test_axes_of_one_name_are_told_apart() -> None:
    [line] = lines(drawn(go.Scatter(x=[1], y=[2]), title="t", x="cosine", y="cosine"))

    assert (line["cosine (x)"], line["cosine (y)"]) == ("1", "2")


def test_a_histogram_and_a_violin_have_their_samples() -> None:
    figure = go.Figure([go.Histogram(name="h", x=[1, 1, 2]), go.Violin(name="v", y=[3])])

    assert [line["trace"] for line in lines(figure)] == ["h", "h", "h", "v"]


def test_parallel_axes_have_a_column_each_with_the_names_of_choices() -> None:
    axes = [
        {"label": "loss", "values": [0, 1], "tickvals": [0, 1], "ticktext": ["listnet", "listmle"]},
        {"label": "tau2", "values": [0.1, 0.2]},
    ]
    shade = {"color": [50.0, 60.0], "colorbar": {"title": {"text": "score"}}}

    assert lines(go.Figure(go.Parcoords(name="trials", dimensions=axes, line=shade))) == [
        {"trace": "trials", "loss": "listnet", "tau2": "0.1", "score": "50.0"},
        {"trace": "trials", "loss": "listmle", "tau2": "0.2", "score": "60.0"},
    ]


def test_a_table_is_itself() -> None:
    table = go.Table(header={"values": ["a", "b"]}, cells={"values": [[1, 2], [3, 4]]})

    assert [(line["a"], line["b"]) for line in lines(go.Figure(table))] == [("1", "3"), ("2", "4")]


def test_a_kind_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no table for a trace of type 'pie'"):
        as_csv(go.Figure(go.Pie(values=[1])))


def test_optunas_figures_have_their_numbers() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("k", 0, 3), 8)

    history = lines(plot_optimization_history(study))
    values = [float(line["Objective Value"]) for line in history if line["trace"] != "Best Value"]
    assert values == [trial.value for trial in study.trials]
    assert {line["Hyperparameter"] for line in lines(plot_param_importances(study))} == {"x", "k"}
    assert {"x", "k", "Objective Value"} <= lines(plot_contour(study))[0].keys()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
def test_every_number_comes_back(points: list[tuple[float, float]]) -> None:
    x, y = np.array(points).T
    found = lines(drawn(go.Scatter(name="a", x=x, y=y), title="t", x="left", y="up"))

    assert [(float(line["left"]), float(line["up"])) for line in found] == points
