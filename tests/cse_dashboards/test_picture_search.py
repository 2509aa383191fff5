"""Pictures of searches: Optuna's figures have our numbers, names and units."""

import csv
import math
import random
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import plotly.graph_objects as go
import pytest
from searches import NOON, history_of, searched

from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.contour import contour
from cse_dashboards.figures.search.expected import expected_best_picture
from cse_dashboards.figures.search.history import search_history_picture
from cse_dashboards.figures.search.importances import hyperparameter_importances
from cse_dashboards.figures.search.parallel import parallel_coordinates
from cse_dashboards.figures.search.slices import MOST_PANELS, slices
from cse_dashboards.figures.search.study import MOST_MARKS, ReplayedSearch
from cse_dashboards.figures.training.best_so_far import best_so_far
from cse_dashboards.figures.training.trials_by_state import state_picture
from cse_platform.leaderboard.annotations import Annotations
from cse_platform.leaderboard.sweeps import SweepOverview

SCORE = "STS-B dev, Spearman × 100"
SPACE = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "tau2": [0.025, 0.05],
    "tau3": {"choices": [0.1, 0.2, 0.4], "when": {"tau2": 0.05}},
}
EVERY = (search_history_picture, parallel_coordinates, hyperparameter_importances, slices, contour)


def study_of(*given: Any, total: int | None = None) -> ReplayedSearch:
    return ReplayedSearch(history_of(*given, total=total))


def found_of(trials: int = 12, *, total: int | None = None) -> ReplayedSearch:
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


def complete(found: ReplayedSearch) -> dict[int, float]:
    """Scores as they are drawn, by number."""
    return {t.number: 100 * (t.value or 0) for t in found.history.trials if t.state == "COMPLETE"}


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
    assert len(figure.data) == len(complete(found))
    best = max(figure.data, key=lambda trace: trace.y[0])
    alpha = [float(trace.line.color.split(",")[-1][:-1]) for trace in figure.data]
    assert best.line.color.endswith(f",{max(alpha)})")
    head, *lines = csv.reader(StringIO(picture.csv))
    assert head == ["trial", "key", SCORE, "rate", "tau2", "tau3"]
    tried = {t.number: t.values for t in found.complete}
    assert [int(line[0]) for line in lines] == list(tried)
    assert [line[5] for line in lines] == [str(one.get("tau3", "")) for one in tried.values()]
    assert [float(line[3]) for line in lines] == [one["rate"] for one in tried.values()]


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


def test_heavy_figures_take_the_best_and_an_even_sample() -> None:
    found = found_of(600)
    scores = complete(found)
    assert len(scores) == 400
    picture = parallel_coordinates(found)
    figure = figure_of(picture)
    assert len(figure.data) == MOST_MARKS == 200
    assert "Of 600 trials 200 are shown" in picture.caption
    shown = sorted(picture.data[SCORE], reverse=True)
    best = sorted(scores.values(), reverse=True)[:100]
    assert shown[:100] == pytest.approx(best)
    assert shown[-1] == pytest.approx(min(scores.values()))
    figure = figure_of(contour(found, "rate", "tau2"))
    assert len(figure.data[1].x) == 200


def test_importance_names_its_evaluator_and_finds_what_decides() -> None:
    dice = random.Random(0)
    told = [
        searched(n, {"a": a, "b": dice.choice([1, 2, 3])}, value=a / 2)
        for n, a in enumerate(dice.random() for _ in range(60))
    ]
    found = study_of(told, {"a": {"low": 0.0, "high": 1.0}, "b": [1, 2, 3]})
    figure = figure_of(hyperparameter_importances(found))
    [bars] = figure.data
    shares = dict(zip(bars.y, bars.x, strict=True))
    assert shares["a"] > 0.8 and sum(shares.values()) == pytest.approx(1)
    assert figure.layout.title.text == "Importance of hyperparameters for the best 10% (PED-ANOVA)"
    assert figure.layout.xaxis.title.text == "importance, all together 1"


def test_importance_is_not_taken_from_a_selection_of_the_best() -> None:
    """Half of what is shown are the best: their share of the selection is that of all trials."""
    told = [searched(n, {"a": n / 200}, value=0.9 if n % 2 else 0.001 * n) for n in range(200)]
    for total in (230, 400, 4000):
        found = study_of(told, {"a": {"low": 0.0, "high": 1.0}}, total=total)
        kept = found.even_sample.history.trials
        best = sum(trial.value == 0.9 for trial in kept)
        assert best / len(kept) == pytest.approx(100 / total, abs=0.01)


def test_slices() -> None:
    found = found_of()
    figure = figure_of(slices(found))
    scores = complete(found)
    panels = [figure.layout[f"xaxis{n}"].title.text for n in ("", 2, 3)]
    assert panels == ["rate", "tau2", "tau3"]
    assert figure.layout.yaxis.title.text == SCORE
    rate, _, tau3 = figure.data
    assert list(rate.marker.color) == list(scores)
    assert list(rate.y) == pytest.approx(list(scores.values()))
    assert set(tau3.marker.color) == {number for number in scores if number % 2}
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.xaxis.tickformat  # else 0.2 is written 2


def test_many_settings_are_cut_to_the_important_ones() -> None:
    names = [f"s{n}" for n in range(9)]
    dice = random.Random(1)
    told = [searched(n, {name: dice.random() for name in names}) for n in range(30)]
    told = [searched(t.number, t.values, value=t.values["s8"] / 2) for t in told]
    found = study_of(told, {name: {"low": 0.0, "high": 1.0} for name in names})
    picture = slices(found)
    figure = figure_of(picture)
    panels = {figure.layout[f"xaxis{n or ''}"].title.text for n in (0, 2, 3, 4, 5, 6)}
    assert len(figure.data) == len(panels) == MOST_PANELS and "s8" in panels
    assert re.search("Of 9 hyperparameters .* 6 ", picture.caption)


def test_each_axis_of_the_contour_has_the_values_of_its_own_hyperparameter() -> None:
    for names in (("rate", "tau2"), ("tau2", "rate")):
        found = found_of(24)
        figure = figure_of(contour(found, *names))
        between, trials = figure.data
        tried = [t.values for t in found.history.trials if t.state == "COMPLETE"]
        pairs = sorted((one[names[0]], one[names[1]]) for one in tried)
        assert sorted(zip(map(float, trials.x), map(float, trials.y), strict=True)) == pairs
        axes = dict(zip(names, (figure.layout.xaxis, figure.layout.yaxis), strict=True))
        assert {name: axis.title.text for name, axis in axes.items()} == {n: n for n in names}
        assert [name for name, axis in axes.items() if axis.type == "log"] == ["rate"]
        sides = dict(zip(names, (between.x, between.y), strict=True))
        for name, values in sides.items():  # Optuna's grid reaches a little beyond the trials
            tried_here = [one[name] for one in tried]
            assert {min(tried_here), max(tried_here)} <= {float(value) for value in values}
        assert (len(between.z), len(between.z[0])) == (len(between.y), len(between.x))
        known = [one for row in between.z for one in row if one == one]
        assert sorted(known) == pytest.approx(sorted(complete(found).values()))
        assert between.colorbar.title.text == SCORE
        # tau3 takes part only where tau2 is 0.05: there is nothing to draw.
        assert (contour(found).missing or "").endswith(" of tau2 and tau3")


def test_where_there_is_nothing_to_draw_it_says_why() -> None:
    running = [searched(0, {"rate": 1e-4, "tau2": 0.025}, state="RUNNING", value=None)]
    unknown = study_of([searched(0, {}), searched(1, {}, value=0.6)], {})
    alike = [searched(n, {"rate": 1e-4, "tau2": 0.025}, value=0.5 + n / 100) for n in range(2)]
    for picture in EVERY:
        found = picture(study_of(running, SPACE))
        assert found.figure is None
        assert found.missing == "no trial of the search of sweep first is complete yet"
        found = picture(study_of(alike, SPACE))  # as at the start of a search
        assert (found.figure is None) == (found.missing is not None)
    for picture in EVERY[1:]:
        assert picture(unknown).missing.startswith("it is not known what sweep first searched")
    assert search_history_picture(unknown).figure is not None
    alone = [searched(n, {"tau2": 0.025}, value=n / 10) for n in range(3)]
    single = study_of(alone, {"tau2": [0.025, 0.05]})
    equal = study_of([searched(n, {"rate": 1e-4 * n, "tau2": 0.025}) for n in (1, 2)], SPACE)
    for found in (
        hyperparameter_importances(single),
        contour(single),
        contour(found_of(), "rate", "rate"),
        contour(found_of(), "rate", "gone"),
        hyperparameter_importances(equal),
    ):
        assert found.missing is not None and found.figure is None
    assert found.missing == "sweep first has no two complete trials of different scores"


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


def overview(*, planned: int = 10, **counts: int) -> SweepOverview:
    return SweepOverview(
        name="first", journal="", method="simcse", backbone="mini", tags=(), written=Annotations(),
        dev="stsb", state="RUNNING", holder=None, asked=(), started=NOON,
        restarted=NOON, finished=None, ended_by=None, planned=planned, best=None, objectives=(),
        constraints=(), infeasible=0, elapsed=60.0, left=None, quiet=1.0,
        counts={"RUNNING": 0, "COMPLETE": 0, "PRUNED": 0, "FAIL": 0} | counts,
    )  # fmt: skip


def test_trials_by_state_add_up_to_what_is_planned() -> None:
    picture = state_picture(overview(RUNNING=2, COMPLETE=3, FAIL=1))
    assert picture.figure is not None
    bars = {bar.name: bar.x[0] for bar in picture.figure.data}
    assert bars == {"complete": 3, "fail": 1, "running": 2, "planned": 4}
    assert picture.figure.layout.barmode == "stack"
    assert picture.figure.layout.xaxis.title.text == "trials"
    assert picture.csv == "state,trials\nCOMPLETE,3\nFAIL,1\nRUNNING,2\nPLANNED,4\n"
    states, best = state_picture(overview(planned=0)), best_so_far(history_of([], {}))
    assert states.missing == "sweep first has no trial yet"
    assert best.missing == "no trial of sweep first is complete yet"


def test_the_best_so_far_in_the_order_in_which_trials_ended() -> None:
    told = [
        searched(0, {}, value=0.7, finished=NOON + timedelta(minutes=9)),
        searched(1, {}, value=0.6, finished=NOON + timedelta(minutes=3)),
        searched(2, {}, value=0.5, role="confirm", finished=NOON + timedelta(minutes=6)),
        searched(3, {}, value=0.9, state="PRUNED"),
        searched(4, {}, value=None, state="RUNNING", finished=None),
    ]
    picture = best_so_far(history_of(told, {}, total=50))
    assert picture.figure is not None and "Of 50 trials 5 are shown" in picture.caption
    trials, best = picture.figure.data
    assert [time - NOON for time in trials.x] == [timedelta(minutes=m) for m in (3, 6, 9)]
    assert (list(trials.y), list(best.y)) == ([60.0, 50.0, 70.0], [60.0, 60.0, 70.0])
    assert (list(trials.ids), list(best.ids)) == (["1", "2", "0"], ["1", "1", "0"])
    first = f"2030-01-01 12:03:00+00:00,1,{told[1].key},11111111,42,60.0,60.0"
    assert picture.csv.splitlines()[1] == first
    axes = picture.figure.layout
    assert axes.xaxis.title.text == "end of trial (UTC)"
    assert axes.yaxis.title.text == "STS-B dev, Spearman × 100"
