from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from scored_boards import scored
from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_dashboards.figures.board.buckets import buckets
from cse_dashboards.figures.board.ranking_scores import ranking_pictures
from cse_dashboards.figures.labels import styles_in_order
from cse_dashboards.figures.training.alignment_uniformity import draw_alignment_uniformity
from cse_dashboards.figures.training.dev_curves import (
    at_kept,
    dev_curve_pictures,
    draw_dev_curves,
    over_seeds,
    seeds_having,
)
from cse_dashboards.figures.training.measured import (
    losses_picture,
    machine_picture,
    other_metrics_picture,
)
from cse_platform.leaderboard import Filters, Leaderboard, open_leaderboard
from cse_platform.leaderboard.records import DevPoint
from cse_platform.tracking.events import Event

STSB = "dev/stsb_spearman"
NO_KEYS = defaultdict[str, dict[int, str]](dict[int, str])
"""Trials that nobody leads to."""


def curve(*values: float | None, metric: str = STSB, kept: int = 10) -> list[DevPoint]:
    """A point every 10 steps, and the step of the checkpoint that was kept."""
    return [
        DevPoint(10 * n, value, {metric: value}, kept=10 * n == kept)
        for n, value in enumerate(values)
    ]


def moved(*places: tuple[float, float]) -> list[DevPoint]:
    """Points at (uniformity, alignment); the second checkpoint was kept."""
    return [
        DevPoint(10 * n, 0.5 - n, {"dev/uniformity": u, "dev/alignment": a}, kept=n == 1)
        for n, (u, a) in enumerate(places)
    ]


def test_seeds_are_joined_at_the_steps_that_all_with_the_metric_have() -> None:
    seeds = {0: curve(0.5, 0.6, 0.7), 1: curve(0.3, None, 0.9, 0.95, kept=20)}
    assert over_seeds(seeds, STSB) == {0: [0.5, 0.3], 20: [0.7, 0.9]}
    assert at_kept(seeds, STSB) == [(10, 0.6), (20, 0.9)]  # neither is the highest
    # A seed without the metric takes nothing from the others.
    seeds = {0: curve(0.5, 0.6), 1: curve(None, None), 2: curve(0.1, metric="train/loss")}
    assert list(seeds_having(seeds, STSB)) == [0]
    assert over_seeds(seeds, STSB) == {0: [0.5], 10: [0.6]}
    curves = {"a": seeds, "b": {7: curve(0.4)}}  # a single seed each: no band
    figure = draw_dev_curves(curves, STSB, styles_in_order(curves), NO_KEYS).figure
    names = ["a", "a, kept checkpoint", "b", "b, kept checkpoint"]
    assert [trace.name for trace in figure.data] == names
    assert figure.data[0].line.color != figure.data[2].line.color


def test_dev_curves_are_means_in_a_band_from_the_lowest_to_the_highest_seed() -> None:
    curves = {"simcse": {0: curve(0.5, 0.6), 1: curve(0.3, 0.8)}}
    figure = draw_dev_curves(curves, STSB, styles_in_order(curves), NO_KEYS).figure

    low, high, mean, best = figure.data
    assert list(low.y) == pytest.approx([30, 60])
    assert list(high.y) == pytest.approx([50, 80])
    assert high.fill == "tonexty"
    assert (mean.name, list(mean.x), list(mean.y)) == ("simcse", [0, 10], pytest.approx([40, 70]))
    assert (list(best.x), list(best.y)) == ([10, 10], pytest.approx([60, 80]))
    assert figure.layout.xaxis.title.text == "optimiser step"
    assert figure.layout.yaxis.title.text == "STS-B dev, Spearman × 100"


def test_the_plane_goes_through_the_means_of_the_seeds_from_a_hollow_marker_to_a_star() -> None:
    half = [DevPoint(0, 0.5, {"dev/uniformity": -9.0}, kept=True)]  # lacks a measure: left out
    seeds = {0: moved((-1.0, 0.2), (-2.0, 0.4)), 1: moved((-1.2, 0.4), (-3.0, 0.6)), 2: half}
    figure = draw_alignment_uniformity({"simcse": seeds}, styles_in_order(["simcse"])).figure
    path, star = figure.data
    assert list(path.x) == pytest.approx([-1.1, -2.5])
    assert list(path.y) == pytest.approx([0.3, 0.5])
    assert [one[0] for one in path.customdata] == [0, 10]
    assert path.marker.symbol == ("circle-open", "circle")
    assert (star.x[0], star.y[0]) == pytest.approx((-2.5, 0.5))
    assert figure.layout.xaxis.title.text == "uniformity (lower is better)"
    assert figure.layout.yaxis.title.text == "alignment (lower is better)"
    long = "ST ./tiny pooler=lasttoken, " + "lora={rank=4, " + "target_modules=" + 30 * "x" + "}"
    drawn = draw_alignment_uniformity({long: seeds}, styles_in_order([long])).figure
    first, *others = drawn.data[0].name.split("<br>")
    assert others and len(first) < 70 and " ".join([first, *others]) == long


def test_the_machine_has_a_panel_for_each_measurement_that_there_is() -> None:
    busy, speed = "perf/gpu_percent", "perf/sentences_per_second"
    points = [
        DevPoint(0, 0.5, {busy: 10.0}, kept=False),
        DevPoint(10, 0.6, {busy: None, speed: 300.0, "train/loss": 1.0}, kept=True),
        DevPoint(20, 0.6, {busy: 90.0, speed: 320.0}, kept=False),
    ]
    picture = machine_picture(points)
    assert picture.figure is not None
    assert {trace.name: list(trace.y) for trace in picture.figure.data} == {
        "sentences per second": [None, 300.0, 320.0],
        "GPU, % busy": [10.0, None, 90.0],
    }
    assert picture.csv.startswith("optimiser step,sentences per second,")
    assert machine_picture(curve(0.5, 0.6)).missing == "this trial reported none"


def test_losses_are_one_figure_and_other_metrics_have_panels() -> None:
    losses = {"train/loss": 3.0, "train/loss_rank": 1.0, "train/loss_contrastive": 2.0}
    other = {STSB: 0.6, "dev/sickr_spearman": 0.5, "train/learning_rate": 1e-4, "perf/warmth": 20.0}
    points = [DevPoint(0, 0.5, {STSB: 0.5}, False), DevPoint(10, 0.6, losses | other, True)]
    figure = losses_picture(points).figure
    assert figure is not None
    assert {trace.name: list(trace.y) for trace in figure.data} == {
        "training loss": [None, 3.0],
        "training loss, rank part": [None, 1.0],
        "training loss, contrastive part": [None, 2.0],
    }
    figure = other_metrics_picture(points, STSB).figure
    assert figure is not None
    assert {trace.name: list(trace.y) for trace in figure.data} == {
        "SICK-R dev, Spearman × 100": [None, 50.0],
        "learning_rate": [None, 1e-4],
    }
    more = [replace(point, metrics={f"train/m{n}": 1.0 for n in range(5)}) for point in points]
    figure = other_metrics_picture(more, STSB).figure
    assert figure is not None and len(list(figure.select_xaxes())) == 5  # no sixth in the grid
    # A loss of one part is drawn once.
    del losses["train/loss_rank"]
    figure = losses_picture([DevPoint(10, 0.6, losses, True)]).figure
    assert figure is not None and [trace.name for trace in figure.data] == ["training loss"]
    assert losses_picture(points[:1]).missing == "this trial reported no training loss"


@pytest.fixture
def told(filled_with) -> Iterator[Callable[..., Leaderboard]]:
    with ExitStack() as opened:
        yield lambda *events: opened.enter_context(open_leaderboard(filled_with(*events)))


def life(method: str, seed: int, **changes: Any) -> list[Event]:
    """A trial of a method's only configuration; its key is the method's letter and the seed."""
    letter, curve = method[0], {0: 0.5, 5: 0.8, 9: 0.6 + 0.01 * seed}
    of = {"sweep": method, "trial": f"{letter}{seed}" * 32, "configuration": letter * 64}
    return trial_life(seed, curve, method=method, seed=seed, **of | changes)


def kcc(trial: str, value: float, identity: str = "e1") -> Event:
    scores = {"test/avg_sts_kcc": value, "test/avg_sts_ndcg": value}
    return trial_evaluated(trial * 32, scores, identity=identity)


def test_curves_show_the_kept_checkpoint_and_count_seeds_without_the_metric(told) -> None:
    *first, end = life("a", 0)
    start, *_, end_of_second = life("a", 1)
    kept = end.model_copy(update={"best_step": 9})
    reader = told(sweep_started("a", method="a"), *first, kept, start, end_of_second)
    [picture] = dev_curve_pictures(reader, reader.rows(ranked=False), STSB)
    assert list(picture.figure.data[0].x) == [0, 5, 9]
    star = picture.figure.data[-1]
    assert (star.name, list(star.x), list(star.y)) == ("a, kept checkpoint", [9], [60])
    assert f"Seeds without {STSB}, and left out: 1." in picture.caption


def test_kcc_is_of_the_seeds_of_the_row(told) -> None:
    second = life("a", 0, sweep="second")[0]
    reader = told(
        *(sweep_started("a", method="a"), *life("a", 0), *life("a", 1)),
        *(sweep_started("second", method="a"), second),
        *(kcc(f"a{seed}", 0.5 + 0.2 * seed) for seed in (0, 1)),
    )
    [own], [every] = (reader.rows(Filters(sweep=sweep), ranked=False) for sweep in ("second", "a"))

    assert list(ranking_pictures(reader, [own])[0].figure.data[0].y) == [50]
    assert list(ranking_pictures(reader, [every])[0].figure.data[0].y) == [60]


def test_of_several_evaluations_the_shared_one_is_shown_and_told(told) -> None:
    lives = [
        *(sweep_started("a", method="a"), *life("a", 0)),
        *(sweep_started("b", method="b"), *life("b", 0)),
    ]
    a1, a2 = (kcc("a0", 0.5, "e1"), kcc("a0", 0.9, "e2"))
    reader = told(*lives, a1, a2, kcc("b0", 0.6, "e1"))
    [picture] = ranking_pictures(reader, reader.rows(tasks="sts", ranked=False))
    bars = dict(zip(picture.figure.data[0].x, picture.figure.data[0].y, strict=True))
    assert bars == pytest.approx({"a": 50, "b": 60})
    assert "one of which is shown: a." in picture.caption
    assert "cannot be compared" not in picture.caption
    # Bars of different evaluations are said to be.
    reader = told(*lives, a1, kcc("b0", 0.6, "e2"))
    caption = ranking_pictures(reader, reader.rows(ranked=False))[0].caption
    assert "so that some bars cannot be compared" in caption


def test_buckets_leave_out_who_was_scored_on_other_pairs(told) -> None:
    reader = told(
        *(sweep_started("a", method="a"), *life("a", 0)),
        scored("a0" * 32, noise=1.0, tasks=("stsb",)),
        *(sweep_started("b", method="b"), *life("b", 0)),
        scored("b0" * 32, noise=1.0, tasks=("stsb",), data="other"),
    )
    picture = buckets(reader, reader.rows(ranked=False, sort="dev"))

    assert {ridge.name for ridge in picture.figure.data} == {"a"}
    assert "left out: b." in picture.caption
    assert "best scored seed on dev" in picture.caption
