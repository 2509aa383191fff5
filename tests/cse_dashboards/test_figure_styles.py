from dataclasses import replace

from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.labels import method_colours, row_styles, value_text, values_line
from cse_dashboards.figures.picture import PALETTE
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_methods.names import method_name


def test_neither_order_nor_filters_change_the_colour_of_a_method(lab, rows) -> None:
    assert len(rows) > 2
    for some in [rows, rows[::-1], rows[1:], rows[:1], [rows[2], rows[0]]]:
        colours = method_colours(row.method for row in some)
        own = {method_name(method): colour for method, colour in colours.items()}
        [picture] = leaderboard_pictures(some)
        marks = [trace for trace in picture.figure.data if trace.showlegend is False]
        board = dict(pair for o in marks for pair in zip(o.y, o.marker.color, strict=True))
        assert {method: board[f"{method_name(method)} mini"] for method in own} == own
        [picture] = dev_curve_pictures(lab, some, "dev/stsb_spearman")
        means = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
        assert {trace.name: trace.line.color for trace in means} == own


def test_methods_of_others_are_unlike_all_that_are_shown_beside_them(rows) -> None:
    known, others = method_colours(["rankcse", "simcse"]), [f"own-{n}" for n in range(6)]
    colours = method_colours([*others, *known])
    assert len(set(colours.values())) == 8
    assert known.items() <= colours.items() == method_colours([*known, *others[::-1]]).items()
    assert set(method_colours(others[:1]).values()) <= set(PALETTE)
    shown = {str(n): replace(rows[0], method=f"own-{n // 7}") for n in range(8)}
    styles = row_styles(shown).values()
    assert len({(style.colour, style.dash, style.symbol) for style in styles}) == 8


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
        *((None, "null"), (True, "true"), (0.00027, "2.7e-4"), (12, "12"), ([], "none")),
        ([{"model": "/lab/models/174118bb"}, {"model": "org/minilm"}], "174118bb, minilm"),
        ({"model": "a/b", "weight": 0.5}, "b (weight=0.5)"),
        ({"tau2": 0.05}, "{τ₂=0.05}"),
    ):
        assert value_text(value) == shown
    values = {"learning_rate": 2.7e-4, "gamma": 0.19, "pooler": "cls", "batch_size": 128}
    assert values_line(values) == "learning_rate=2.7e-4, γ=0.19, pooler=cls, batch_size=128"
