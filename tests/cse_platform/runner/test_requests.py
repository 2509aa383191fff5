from contextlib import closing
from typing import Any, Self

import pytest
from cheap import CheapConfig, train
from in_process import NewDrive, new_spec
from pydantic import model_validator

from cse_methods.contract import Paper
from cse_methods.registry import get_method, register
from cse_platform.control.requests import Requests
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.runner.state import LiveTrial
from cse_platform.stores.sql.lease import add_request, waiting_requests
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.tracking.events import SweepRequested


@pytest.fixture
def drive(start: NewDrive) -> Any:
    return start()


def asked(action: str, **what: Any) -> SweepRequested:
    fields = {"sweep": "small", "request": str(what).encode().hex()[-100:], "who": "ann@lab"}
    return SweepRequested.model_validate(fields | {"action": action} | what)


def act(drive: Any, request: SweepRequested) -> None:
    """What Ray does when a trial is stopped: it tells the scheduler that the trial has ended."""

    def stop(live: LiveTrial) -> None:
        drive.results.stop(live)
        if drive.running.pop(live.trial.key, None) is not None:
            drive.results.record_end(live)

    drive.state.apply_requests([request], stop_trial=stop)


def states(drive: Any) -> list[str]:
    return [trial.state for trial in drive.trials]


def test_request_is_heard_once_and_kept(drive) -> None:
    board = drive.state.leaderboard
    add_request(board, asked("retry"))
    with closing(Requests(board, "small")) as requests:
        (heard,) = requests.take()
        act(drive, heard)
        act(drive, heard)
        assert list(requests.take()) == []
        assert drive.history.requests == {heard.request}
        drive.close()
        add_request(board, asked("stop"))
        add_request(board, asked("stop").model_copy(update={"sweep": "another"}))
        with board.session() as session:
            [waiting] = waiting_requests(session, "small")
    assert waiting.action == "stop"


def test_enqueued_configuration_is_tried_next_and_beside_the_search(drive, start) -> None:
    (first,) = drive.start()
    act(drive, asked("enqueue", values={"temperature": 0.125}))
    drive.close()
    drive = start()
    assert [trial.key for trial in drive.start()] == [first.key]
    drive.finish(first.key)
    (second,) = drive.start()
    assert second.values["temperature"] == 0.125
    assert second.values["kind"] in ("a", "b")
    assert states(drive.run().assert_sound()) == ["COMPLETE"] * 4


def test_all_that_is_enqueued_begins_after_a_smaller_number_of_trials(start) -> None:
    start(search={"trials": 3}).run().close()
    drive = start(search={"trials": 2}, capacity=3)
    for temperature in (0.125, 0.25):
        act(drive, asked("enqueue", values={"temperature": temperature, "kind": "a"}))
    assert drive.planner.count_startable() == 2
    drive.run().assert_sound()
    assert [trial.values["temperature"] for trial in drive.trials[3:]] == [0.125, 0.25]


def test_a_limit_holds_for_what_begins_and_a_start_goes_by_the_file_again(start) -> None:
    drive = start(capacity=3, resources={"at_most": 2})
    first, _ = drive.start()
    assert drive.planner.count_startable() == 0
    act(drive, asked("limit", at_most=1))
    drive.finish(first.key)
    assert drive.start() == []
    act(drive, asked("limit"))
    assert drive.planner.count_startable() == 1
    assert len(drive.start()) == 1
    drive.close()
    drive = start(capacity=3, resources={"at_most": 1})
    assert len(drive.start()) == 1
    assert drive.planner.count_startable() == 0
    assert states(drive.run().assert_sound()) == ["COMPLETE"] * 3


def test_what_can_start_is_counted_up_to_the_limit(start) -> None:
    """The number that an autoscaler hears: seeds only once the search has ended."""
    drive = start(search={"trials": 3}, seeds={"confirm": {"top": 1, "seeds": [0, 1]}}, capacity=2)
    assert drive.planner.count_startable() == 3
    searched = drive.start()
    assert drive.planner.count_startable() == 1
    drive.finish(searched[0].key)
    searched += drive.start()
    assert drive.planner.count_startable() == 0
    drive.finish(*[trial.key for trial in searched[1:]])
    assert drive.planner.count_startable() == 2


class PickyConfig(CheapConfig):
    """Not every point of a space that has both kinds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "b" and self.temperature > 0.9:
            raise ValueError("kind b is cold")
        return self


def test_enqueued_configuration_that_the_method_refuses_is_left_out(start) -> None:
    paper = Paper("Picky", "https://example.org", 2020)
    register("picky", config=PickyConfig, paper=paper, revision=1)(train)
    spec = new_spec(method="picky")
    identity = Identity(spec, get_method("picky"), DevData(spec))
    drive = start(spec, identity=identity)
    act(drive, asked("enqueue", values={"temperature": 0.95, "kind": "b"}))
    assert states(drive.run().assert_sound()) == ["COMPLETE"] * 4


def test_trials_that_were_stopped_do_not_fail_alike(drive) -> None:
    for number in range(2):
        drive.start()
        act(drive, asked("stop", numbers=(number,)))
    drive.state.spec = drive.state.spec.model_copy(
        update={"search": drive.state.spec.search.model_copy(update={"give_up_after": 2})}
    )
    drive.run()
    assert states(drive) == ["FAIL", "FAIL", "COMPLETE"]


def test_failed_trial_is_tried_again(drive, start) -> None:
    (first,) = drive.start()
    drive.fail(first.key, "no luck", crashed=False)
    drive.run_until_idle()
    act(drive, asked("retry", numbers=(0,)))
    drive.close()
    again = start().run().assert_sound().close()  # it was not yet
    assert {t.number: t.state for t in again.trials} == dict.fromkeys(range(3), "COMPLETE")
    third = start()
    assert third.start() == [] and third.state.finished


def test_trial_that_was_stopped_is_pruned_and_can_be_tried_again(drive, tmp_path) -> None:
    (first,) = drive.start()
    drive.advance(first.key)
    drive.advance(first.key)
    act(drive, asked("stop", numbers=(0, 2)))
    assert states(drive) == ["PRUNED"]
    drive.start()
    act(drive, asked("stop", numbers=(1,)))
    drive.run_until_idle()
    assert states(drive) == ["PRUNED", "FAIL", "COMPLETE"]  # one before it reported
    act(drive, asked("retry", request="all"))
    assert [trial.number for trial in drive.trials if trial.retry_requested] == [1]
    act(drive, asked("retry", numbers=(0,)))
    drive.state.finished = False
    assert states(drive.run().close()) == ["COMPLETE"] * 3
    told = [trial.state.name for trial in drive.study().trials]
    assert sorted(told) == ["COMPLETE"] * 3 + ["FAIL", "PRUNED"]
    with open_leaderboard(tmp_path) as board:
        assert board.sweep("small").counts["COMPLETE"] == 3


def test_a_trial_that_waits_to_go_on_is_stopped(drive) -> None:
    first, *_ = drive.start()
    drive.report(first.key, 2)
    drive.fail(first.key, "its process died", crashed=True)
    act(drive, asked("stop", numbers=[first.number]))
    assert states(drive) == ["PRUNED"]
    assert states(drive.run())[0] == "PRUNED"
