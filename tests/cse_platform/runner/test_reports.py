"""What leaves a worker: reports, of the trial that the process works on, and nothing else."""

from contextlib import closing
from types import SimpleNamespace

import pytest

from cse_platform.runner import worker
from cse_platform.runner.checkpoints import TrialCheckpoints
from cse_platform.runner.failures import report_of
from cse_platform.runner.machine_sampling import MachineSampler
from cse_platform.runner.reports import REPORT, Report, make_result, read_report

SCORE = {"dev/stsb_spearman": 0.5}


def test_a_report_arrives_as_it_was_sent() -> None:
    numbers = {"dev/a": float("-inf"), "train/b": 0.1 + 0.2, "train/c": float("nan")}
    error = report_of(ValueError("a file \udcff\0"))
    sent = Report(attempt="one", step=0, metrics=numbers, model_problem="", error=error)
    assert repr(read_report(make_result(sent)[REPORT])) == repr(sent)


def test_a_report_of_another_kind_is_called_invalid() -> None:
    sent = make_result(Report(attempt="one", step=0, metrics={"a": 1.0}))[REPORT]
    for text, what in (
        (sent.replace("1.0", '"x"'), r"metrics\.a: Input "),
        ("no JSON", "Invalid "),
    ):
        with pytest.raises(ValueError, match=rf"^its worker sent an invalid report \({what}"):
            read_report(text)


def test_a_run_belongs_to_one_trial(monkeypatch, cheap) -> None:
    """Its reports name the attempt in which it was made; after the end they raise."""
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
    reusable = worker.make_reusable(lambda settings: None)
    monkeypatch.setattr(reusable.__bases__[0], "step", lambda self: handed)
    assert object.__new__(reusable).step() == {REPORT: own[REPORT]}


class Text(str):
    """Text of a method, whose class the driver may lack."""


def test_a_method_cannot_send_objects_or_its_end_by_hand(monkeypatch) -> None:
    made_up = {"cse": Text("{}"), "__duplicate__": Text("1"), "should_checkpoint": Text("1")}
    reusable = worker.make_reusable(lambda settings: None)
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
