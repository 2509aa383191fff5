from dataclasses import replace

from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.labels import method_style, row_styles, value_text, values_line
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_methods.names import method_name


def test_neither_order_nor_filters_change_the_colour_of_a_method(lab, rows) -> None:
    assert len(rows) > 2
    for some in [rows, rows[::-1], rows[1:], rows[:1], [rows[2], rows[0]]]:
        own = {method_name(row.method): method_style(row.method).colour for row in some}
        [picture] = leaderboard_pictures(some)
        marks = [trace for trace in picture.figure.data if trace.showlegend is False]
        board = dict(pair for o in marks for pair in zip(o.y, o.marker.color, strict=True))
        assert {method: board[f"{method_name(method)} mini"] for method in own} == own
        [picture] = dev_curve_pictures(lab, some, "dev/stsb_spearman")
        means = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
        assert {trace.name: trace.line.color for trace in means} == own


def test_rows_of_one_method_differ_by_dash_and_marker_or_alone_by_colour(rows) -> None:
    first, second = rows[:2]
    again = replace(first, backbone="another")
    styles = row_styles({"a": first, "b": second, "c": again})
    assert styles["a"].colour == styles["c"].colour != styles["b"].colour
    assert (styles["a"].dash, styles["a"].symbol) != (styles["c"].dash, styles["c"].symbol)
    alone = row_styles({"a": first, "b": again})
    assert alone["a"].colour != alone["b"].colour


def test_hyperparameters_are_written_for_readers() -> None:
    for value, shown in (
        *((None, "none"), (True, "true"), (0.00027, "2.7e-4"), (12, "12"), ([], "none")),
        ([{"model": "/lab/models/174118bb"}, {"model": "org/minilm"}], "174118bb, minilm"),
        ({"model": "a/b", "weight": 0.5}, "b (weight=0.5)"),
        ({"tau2": 0.05}, "{τ₂=0.05}"),
    ):
        assert value_text(value) == shown
    values = {"learning_rate": 2.7e-4, "gamma": 0.19, "pooler": "cls", "batch_size": 128}
    assert values_line(values) == "learning_rate=2.7e-4, γ=0.19, pooler=cls, batch_size=128"
