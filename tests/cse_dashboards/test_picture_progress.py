"""Pictures of how far a sweep is."""

from datetime import timedelta

from searches import NOON, history_of, searched

from cse_dashboards.figures.training.best_so_far import best_so_far
from cse_dashboards.figures.training.trials_by_state import state_picture
from cse_platform.leaderboard.annotations import Annotations
from cse_platform.leaderboard.sweeps import SweepOverview


def overview(*, planned: int = 10, **counts: int) -> SweepOverview:
    return SweepOverview(
        name="first",
        method="simcse",
        backbone="mini",
        tags=(),
        written=Annotations(),
        dev="stsb",
        state="RUNNING",
        holder=None,
        paused=False,
        asked=(),
        started=NOON,
        restarted=NOON,
        finished=None,
        counts={"RUNNING": 0, "COMPLETE": 0, "PRUNED": 0, "FAIL": 0} | counts,
        ended_by=None,
        planned=planned,
        best=None,
        objectives=(),
        constraints=(),
        infeasible=0,
        elapsed=60.0,
        left=None,
        quiet=1.0,
    )


def test_trials_by_state_add_up_to_what_is_planned() -> None:
    picture = state_picture(overview(RUNNING=2, COMPLETE=3, FAIL=1))
    assert picture.figure is not None
    assert {bar.name: bar.x[0] for bar in picture.figure.data} == {
        "complete": 3,
        "fail": 1,
        "running": 2,
        "planned": 4,
    }
    assert picture.figure.layout.barmode == "stack"
    assert picture.figure.layout.xaxis.title.text == "trials"
    assert picture.csv == "state,trials\nCOMPLETE,3\nFAIL,1\nRUNNING,2\nPLANNED,4\n"


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
    assert (axes.xaxis.title.text, axes.yaxis.title.text) == (
        "end of trial (UTC)",
        "STS-B dev, Spearman × 100",
    )


def test_nothing_yet() -> None:
    states, best = state_picture(overview(planned=0)), best_so_far(history_of([], {}))
    assert states.missing == "sweep first has no trial yet"
    assert best.missing == "no trial of sweep first is complete yet"
