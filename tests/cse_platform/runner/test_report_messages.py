import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bad
import pytest
from in_process import NewDrive

from cse_platform.control.requests import Requests
from cse_platform.runner import worker
from cse_platform.runner.checkpoints import TrialCheckpoints
from cse_platform.runner.failures import failure_from_report, report_of
from cse_platform.runner.machine_sampling import MachineSampler
from cse_platform.runner.report_messages import REPORT, Report, make_result, read_report
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.runner.tune import SweepScheduler

SCORE = {"dev/stsb_spearman": 0.5}


def test_a_report_arrives_as_it_was_sent_and_another_kind_is_called_invalid() -> None:
    numbers = {"dev/a": float("-inf"), "train/b": 0.1 + 0.2, "train/c": float("nan")}
    error = report_of(ValueError("a file \udcff\0"))
    sent = Report(attempt="one", step=0, metrics=numbers, model_problem="", error=error)
    assert repr(read_report(make_result(sent)[REPORT])) == repr(sent)
    sent = make_result(Report(attempt="one", step=0, metrics={"a": 1.0}))[REPORT]
    for text, what in (
        (sent.replace("1.0", '"x"'), r"metrics\.a: Input "),
        ("no JSON", "Invalid "),
    ):
        with pytest.raises(ValueError, match=rf"^its worker sent an invalid report \({what}"):
            read_report(text)


def test_a_run_belongs_to_one_trial(monkeypatch, cheap) -> None:
    sent = list[Report]()
    monkeypatch.setattr(worker, "_count_assigned_threads", lambda: 2)
    monkeypatch.setattr(
        worker.tune, "report", lambda result, **_: sent.append(read_report(result[REPORT]))
    )
    monkeypatch.setattr(worker, "find_attempt", lambda: "first")
    config = cheap.config(backbone="mini", corpus="builtin")
    with closing(MachineSampler(2)) as machine:
        run = worker.TuneRun(42, None, config, TrialCheckpoints(0), machine, code=None)
        monkeypatch.setattr(worker, "find_attempt", lambda: "second")
        run.report(step=1, metrics=SCORE)
        run.close()
        with pytest.raises(RuntimeError, match=r"^step 9 is reported after the end"):
            run.report(step=9, metrics=SCORE, save=lambda folder: pytest.fail(str(folder)))
    assert [(report.attempt, report.step) for report in sent] == [("first", 1)]


def test_what_a_method_hands_to_ray_stays_in_its_process(monkeypatch) -> None:
    own = make_result(Report(attempt="one", step=1, metrics=SCORE))
    handed = {**own, 7: {"of": "no text"}, "done": True, "unread_settings": 5, "timestamp": 1}
    reusable = worker.make_reusable_trainable(lambda settings: None)
    monkeypatch.setattr(reusable.__bases__[0], "step", lambda self: handed)
    assert object.__new__(reusable).step() == {REPORT: own[REPORT]}


class Text(str):
    """Text of a method, whose class the driver may lack."""


def test_a_method_cannot_send_objects_or_its_end_by_hand(monkeypatch) -> None:
    made_up = {"cse": Text("{}"), "__duplicate__": Text("1"), "should_checkpoint": Text("1")}
    reusable = worker.make_reusable_trainable(lambda settings: None)
    base = reusable.__bases__[0]
    monkeypatch.setattr(worker, "find_attempt", lambda: "one")
    monkeypatch.setattr(base, "step", lambda self: dict(made_up))
    trial = object.__new__(reusable)
    assert trial.step() == {}
    session = SimpleNamespace(report=lambda result: None)
    monkeypatch.setattr("ray.tune.trainable.function_trainable.get_session", lambda: session)
    trial._trainable_func({})  # returns, and Ray says so
    monkeypatch.setattr(base, "step", lambda self: {"__duplicate__": True, "date": "today"})
    assert trial.step() == {"__duplicate__": True}


NO_REPORTS: dict[str, Any] = {
    "no text": 5,
    "no JSON": "step 5",
    "nested deep": "[" * 100_000,
    "no attempt": "{}",
}
WRONG: dict[str, dict[str, Any]] = {
    "another key": {"steps": 2},
    "step beyond 32 bits": {"step": 2**31},
    "name that cannot be printed": {"metrics": {"train/\0lr": 0.5}},
    "dev score above 1": {"metrics": {bad.DEV: 1.5}},
    "no dev score": {"metrics": {"train/lr": 0.5}},
    "checkpoint elsewhere": {"checkpoint_step": "../other"},
    "unread of a number": {"unread": 5},
}


@pytest.fixture
def heard(start: NewDrive, tmp_path: Path) -> tuple[Any, SweepScheduler]:
    """A sweep with room for many trials at once, and what Ray calls with their results."""
    search = {"trials": None, "budget": {"time": "100d"}, "give_up_after": 99}
    drive = start(search=search)
    requests = Requests(drive.state.leaderboard, drive.spec.sweep)
    outputs = TrialOutputs(drive.folder, str(tmp_path / "ray"))
    return drive, SweepScheduler(drive.planner, drive.results, requests, outputs)


def started(drive: Any, scheduler: SweepScheduler) -> tuple[str, Any]:
    (plan,) = drive.start()
    scheduler.live[plan.key] = drive.state.live[plan.key]
    return plan.key, SimpleNamespace(
        trial_id=plan.key, storage=None, error_file=None, run_metadata=SimpleNamespace()
    )


def point(attempt: str, **changes: Any) -> str:
    return json.dumps({"attempt": attempt, "step": 2, "metrics": {bad.DEV: 0.5}, **changes})


def test_a_malformed_report_ends_its_trial_and_a_raised_error_is_told_in_a_line(heard) -> None:
    drive, scheduler = heard
    wrong = []
    for way in (*NO_REPORTS, *WRONG):
        key, ray_trial = started(drive, scheduler)
        sent = NO_REPORTS[way] if way in NO_REPORTS else point(key, **WRONG[way])
        answer = scheduler.on_trial_result(None, ray_trial, {REPORT: sent})
        scheduler.on_trial_complete(None, ray_trial, {})
        del drive.running[key]
        trial = drive.history.trials[key]
        if (answer, scheduler.broken, trial.state, trial.curve) != ("STOP", None, "FAIL", {}):
            wrong.append(way)
    for way, error in bad.RAISED.items():
        key, _ = started(drive, scheduler)
        failure = failure_from_report(report_of(error), drive.state.method)
        drive.results.record_failure(drive.state.live[key], failure)
        del drive.running[key]
        trial = drive.history.trials[key]
        told = (failure.end, bool(failure.message), trial.state, trial.error)
        if told != ("error", True, "FAIL", failure.message):
            wrong.append(way)
    assert not wrong
    drive.close()  # the stores take it


def test_what_is_no_report_of_this_attempt_is_dropped(heard, caplog) -> None:
    drive, scheduler = heard
    key, ray_trial = started(drive, scheduler)
    for sent in (
        {"step": 2, bad.DEV: 0.9, "unread_settings": 5},
        {"failure": {"said": 1}},
        {"output/text": 1},
        {REPORT: point("another", metrics={bad.DEV: 0.9})},
    ):
        assert scheduler.on_trial_result(None, ray_trial, sent) == "CONTINUE"
        assert scheduler.broken is None, sent
    assert "trial 0: a report of another attempt is dropped" in caplog.text
    assert scheduler.on_trial_result(None, ray_trial, {REPORT: point(key)}) == "CONTINUE"
    assert drive.history.trials[key].curve == {2: 0.5}
