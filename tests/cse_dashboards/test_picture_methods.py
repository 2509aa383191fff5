"""Whose seeds, checkpoints and evaluations the pictures of methods show."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from cse_dashboards.figures.board.buckets import buckets
from cse_dashboards.figures.board.ranking_scores import ranking_pictures
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_platform.leaderboard import Filters, Leaderboard, open_leaderboard
from cse_platform.tracking.events import Event, TrialEvaluated

Life = Callable[..., list[Event]]
Start = Callable[..., Event]
Evaluated = Callable[..., TrialEvaluated]

STSB = "dev/stsb_spearman"


@pytest.fixture
def told(filled_with: Callable[..., str]) -> Iterator[Callable[..., Leaderboard]]:
    """Makes a leaderboard that has heard of these."""
    with ExitStack() as opened:
        yield lambda *events: opened.enter_context(open_leaderboard(filled_with(*events)))


@pytest.fixture
def life(trial_life: Life) -> Life:
    """A trial of a method's only configuration; its key is the method's letter and the seed."""

    def make(method: str, seed: int, **changes: Any) -> list[Event]:
        letter = method[0]
        curve = changes.pop("curve", {0: 0.5, 5: 0.8, 9: 0.6 + 0.01 * seed})
        return trial_life(
            seed,
            curve,
            method=method,
            configuration=letter * 64,
            seed=seed,
            trial=f"{letter}{seed}" * 32,
            **{"sweep": method} | changes,
        )

    return make


def kcc(evaluated: Evaluated, trial: str, value: float, identity: str = "e1") -> Event:
    scores = {"test/avg_sts_kcc": value, "test/avg_sts_ndcg": value}
    return evaluated(trial * 32, scores, identity=identity)


def test_curves_show_the_kept_checkpoint_and_count_seeds_without_the_metric(
    told: Callable[..., Leaderboard], sweep_started: Start, life: Life
) -> None:
    *first, end = life("a", 0)
    start, *_, end_of_second = life("a", 1)
    kept = end.model_copy(update={"best_step": 9})
    reader = told(sweep_started("a", method="a"), *first, kept, start, end_of_second)
    [picture] = dev_curve_pictures(reader, reader.rows(ranked=False), STSB)
    assert list(picture.figure.data[0].x) == [0, 5, 9]
    star = picture.figure.data[-1]
    assert (star.name, list(star.x), list(star.y)) == ("a, kept checkpoint", [9], [60])
    assert f"Seeds without {STSB}, and left out: 1." in picture.caption


def test_kcc_is_of_the_seeds_of_the_row(
    told: Callable[..., Leaderboard],
    sweep_started: Start,
    life: Life,
    trial_evaluated: Evaluated,
) -> None:
    second = life("a", 0, sweep="second")[0]
    reader = told(
        *(sweep_started("a", method="a"), *life("a", 0), *life("a", 1)),
        *(sweep_started("second", method="a"), second),
        *(kcc(trial_evaluated, f"a{seed}", 0.5 + 0.2 * seed) for seed in (0, 1)),
    )
    [own], [every] = (reader.rows(Filters(sweep=sweep), ranked=False) for sweep in ("second", "a"))

    assert list(ranking_pictures(reader, [own])[0].figure.data[0].y) == [50]
    assert list(ranking_pictures(reader, [every])[0].figure.data[0].y) == [60]


def test_of_several_evaluations_the_shared_one_is_shown_and_told(
    told: Callable[..., Leaderboard],
    sweep_started: Start,
    life: Life,
    trial_evaluated: Evaluated,
) -> None:
    lives = [
        *(sweep_started("a", method="a"), *life("a", 0)),
        *(sweep_started("b", method="b"), *life("b", 0)),
    ]
    a1, a2 = (kcc(trial_evaluated, "a0", 0.5, "e1"), kcc(trial_evaluated, "a0", 0.9, "e2"))
    reader = told(*lives, a1, a2, kcc(trial_evaluated, "b0", 0.6, "e1"))
    [picture] = ranking_pictures(reader, reader.rows(tasks="sts", ranked=False))
    bars = dict(zip(picture.figure.data[0].x, picture.figure.data[0].y, strict=True))
    assert bars == pytest.approx({"a": 50, "b": 60})
    assert "one of which is shown: a." in picture.caption
    assert "cannot be compared" not in picture.caption
    # Bars of different evaluations are said to be.
    reader = told(*lives, a1, kcc(trial_evaluated, "b0", 0.6, "e2"))
    caption = ranking_pictures(reader, reader.rows(ranked=False))[0].caption
    assert "so that some bars cannot be compared" in caption


def test_buckets_leave_out_who_was_scored_on_other_pairs(
    told: Callable[..., Leaderboard], sweep_started: Start, life: Life, scored: Evaluated
) -> None:
    reader = told(
        *(sweep_started("a", method="a"), *life("a", 0)),
        scored("a0" * 32, noise=1.0, tasks=("stsb",)),
        *(sweep_started("b", method="b"), *life("b", 0)),
        scored("b0" * 32, noise=1.0, tasks=("stsb",), data="other"),
    )
    picture = buckets(reader, reader.rows(ranked=False))

    assert {ridge.name for ridge in picture.figure.data} == {"a"}
    assert "left out: b." in picture.caption
    assert "best scored seed on dev" in picture.caption
