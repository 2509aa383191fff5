import csv
import math
from io import StringIO
from typing import Any

import plotly.graph_objects as go
import pytest
from searches import history_of, searched

from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.history import expected_best_picture, search_history_picture
from cse_dashboards.figures.search.importances import hyperparameter_importances
from cse_dashboards.figures.search.parallel import MOST_LINES, parallel_coordinates
from cse_dashboards.figures.search.study import StudiedSearch

SCORE = "STS-B dev, Spearman × 100"
SPACE = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "tau2": [0.025, 0.05],
    "tau3": {"choices": [0.1, 0.2, 0.4], "when": {"tau2": 0.05}},
}
EVERY = (search_history_picture, parallel_coordinates, hyperparameter_importances)


def study_of(*given: Any, total: int | None = None) -> StudiedSearch:
    return StudiedSearch(history_of(*given, total=total))


def found_of(trials: int = 12, *, total: int | None = None) -> StudiedSearch:
    """Every third trial is pruned; what is complete is the better, the higher its rate."""
    told = []
    for number in range(trials):
        rate = 10 ** (-5 + 2 * ((number * 7) % trials) / trials)
        values: dict[str, Any] = {"rate": rate, "tau2": 0.05 if number % 2 else 0.025}
        if number % 2:
            values["tau3"] = (0.1, 0.2, 0.4)[number // 2 % 3]
        state = "PRUNED" if number % 3 == 2 else "COMPLETE"
        told.append(searched(number, values, state=state, value=0.5 + math.log10(rate) / 100))
    return study_of(told, SPACE, total=total)


def complete(found: StudiedSearch) -> dict[int, float]:
    """Scores as they are drawn, by number."""
    return {
        t.number: 100 * (t.best_value or 0) for t in found.history.trials if t.state == "COMPLETE"
    }


def figure_of(picture: Picture) -> go.Figure:
    assert picture.missing is None and picture.figure is not None
    assert picture.data is not None and len(picture.data)
    return picture.figure


def test_history_has_the_sweep_s_numbers() -> None:
    found = found_of()
    figure = figure_of(search_history_picture(found))
    trials, best = figure.data
    scores = complete(found)
    assert dict(zip(trials.x, trials.y, strict=True)) == pytest.approx(scores)
    so_far = [max(scores[n] for n in scores if n <= number) for number in scores]
    assert list(best.x) == list(scores) and list(best.y) == pytest.approx(so_far)
    assert (trials.name, best.name) == ("trial", "best so far")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("trial", SCORE)
    # Numbers may have gaps: a selection of many, or trials that still run.
    told = [searched(number, {"tau2": 0.05}) for number in (3, 70, 9000)]
    figure = figure_of(search_history_picture(study_of(told, {"tau2": [0.05, 0.1]}, total=10_000)))
    assert list(figure.data[0].x) == [3, 70, 9000]


def test_parallel_coordinates() -> None:
    found = found_of()
    picture = parallel_coordinates(found)
    figure = figure_of(picture)
    names = ["STS-B dev,<br>Spearman × 100", "rate", "τ₂", "τ₃"]
    assert list(figure.layout.xaxis.ticktext) == names
    assert list(figure.layout.xaxis.autotickangles) == [0, 90]  # they overlap on a phone
    scores = complete(found)
    best = max(scores, key=lambda number: scores[number])
    lines = {int(trace.meta["trial"]): list(trace.y) for trace in figure.data}
    assert lines.keys() == scores.keys()
    assert lines[best][0] == 1 and min(line[0] for line in lines.values()) == 0
    tried = {trial.number: trial.searched_values for trial in found.scored}
    for number, (_, rate, tau2, tau3) in lines.items():
        values = tried[number]
        assert rate == pytest.approx((math.log10(values["rate"]) + 5) / 2)
        assert tau2 == [0.025, 0.05].index(values["tau2"])
        assert tau3 == {None: None, 0.1: 0, 0.2: 0.5, 0.4: 1}[values.get("tau3")]
    head, *records = csv.reader(StringIO(picture.csv))
    assert head[4:] == [SCORE, "rate", "tau2", "tau3"]
    assert {int(line[0]): float(line[5]) for line in records} == {
        number: values["rate"] for number, values in tried.items()
    }
    assert len(figure_of(parallel_coordinates(found_of(600))).data) == MOST_LINES
    tries = [{"tau2": None, "tau3": None}, {"tau2": None, "tau3": 1}, {"tau2": 0.05}]
    space = {"tau2": [None, 0.05], "tau3": {"choices": [None, 1], "when": {"tau2": None}}}
    picture = parallel_coordinates(study_of([searched(n, v) for n, v in enumerate(tries)], space))
    sides = [trace.y[1:] for trace in figure_of(picture).data]
    assert sides == [(0, 0), (0, 1), (1, None)]  # null is a choice; what is inactive is no value
    assert [line[5:] for line in csv.reader(StringIO(picture.csv))][1:] == [
        ["null", "null"], ["null", "1"], ["0.05", ""],
    ]  # fmt: skip


def test_importances_are_those_that_are_said_of_the_search_with_their_intervals() -> None:
    found = found_of(24, total=8000)
    assert found.findings is not None
    picture = hyperparameter_importances(found)
    (bars,) = figure_of(picture).data
    data = picture.data.set_index("hyperparameter")
    said = {one.name: one.value for one in found.findings.importances}
    assert data["importance"].to_dict() == said
    highest = data[["high", "importance"]].max(axis=1).to_dict()
    ends = {name: bars.x[n] + bars.error_x.array[n] for n, name in enumerate(bars.y)}
    assert ends == pytest.approx(highest)


def test_where_there_is_nothing_to_draw_it_says_why() -> None:
    running = [searched(0, {"rate": 1e-4, "tau2": 0.025}, state="RUNNING", value=None)]
    unknown = study_of([searched(n, {}, value=n / 20) for n in range(12)], {})
    alone = study_of([searched(n, {"tau2": 0.025}, value=n / 20) for n in range(12)], {"tau2": [1]})
    for picture in EVERY:
        found = picture(study_of(running, SPACE))
        assert found.figure is None and "complete" in (found.missing or "")
    assert search_history_picture(unknown).figure is not None
    assert "is unknown" in (parallel_coordinates(unknown).missing or "")
    for study in (unknown, alone):
        assert "searches fewer than two" in (hyperparameter_importances(study).missing or "")


def test_the_expected_best_is_drawn_beside_the_best_so_far() -> None:
    found = found_of(24)
    picture = expected_best_picture(found)
    figure = figure_of(picture)
    assert picture.data is not None
    assert picture.data["trials"].tolist() == list(range(1, 13))
    reached = next(trace for trace in figure.data if trace.name == "best so far")
    assert reached.y[-1] == pytest.approx(max(complete(found).values()))
    assert (reached.x[0], reached.x[-1]) == (1, 24)
    assert "in any order" in picture.caption  # nobody knows the sampler
    assert expected_best_picture(found_of(6)).missing is not None
