"""Everything about one trial, as the leaderboard has it."""

import json
from dataclasses import asdict

from stored_trials import apply_events

from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.render.table import to_json
from cse_platform.stores.sql.store import Store
from cse_platform.tracking.events import Event, TrialStarted

KEY = "0a1b2c3d" + "0" * 56


def told(board: Store, *events: Event, key: str = KEY) -> TrialDetails:
    apply_events(board, events)
    return Leaderboard(board).trial(key[:8])


def test_it_ran_under_the_last_start_before_its_own(board, began, life) -> None:
    story = told(
        board,
        began(0, packages={"numpy": "1"}),
        began(5, packages={"numpy": "2"}),
        *life(begin=6),
        began(60, packages={"numpy": "3"}),  # after its end
    )
    assert [start.packages for start in story.starts] == [{"numpy": "2"}]


def test_one_that_was_cut_off_has_the_starts_that_it_went_on_under(board, began, life) -> None:
    first, *_ = events = life(begin=1)
    assert isinstance(first, TrialStarted)
    resumed = first.model_copy(update={"resumed_from": 10})
    middle = began(3, packages={"numpy": "2"})
    story = told(
        board, began(0, packages={"numpy": "1"}), *events[:3], middle, resumed, *events[3:]
    )
    assert [start.packages["numpy"] for start in story.starts] == ["1", "2"]


def test_the_sweep_that_reused_it_is_not_the_one_that_ran_it(
    board, began, life, trial_reused
) -> None:
    events = life(begin=10)
    reused = trial_reused(events, "early", number=3, model=None)
    early = {"sweep": "early", "spec": {"experiment": "other"}}
    story = told(board, began(0, **early), began(5), *events, began(12, **early), reused)
    assert [place.sweep for place in story.sweeps] == ["early", "first"]
    assert [start.sweep for start in story.starts] == ["first"]
    assert story.spec["sweep"] == "first"


def test_json_is_the_story(board, began, life, tested) -> None:
    story = told(board, began(), *life(curve={0: 0.25, 10: float("nan")}), *tested())
    read = json.loads(to_json(story.as_record()))
    assert read["started"] == story.started.isoformat()
    assert read["curve"][1]["value"] is None
    assert read["starts"][0]["packages"] == story.starts[0].packages
    assert set(read) == {*asdict(story), "marks", "openings"} - {"test_accesses"}
