import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive
from slow_storage import slow_storage

from cse_methods.contract import BEST_FOLDER
from cse_platform.runner.report_messages import Report
from cse_platform.tracking.events import TrialFinished
from cse_platform.tracking.output import OutputFile, output_file


@pytest.fixture
def one(start: NewDrive) -> tuple[Any, str]:
    """A sweep of one trial, which is running, and its key."""
    drive = start(search={"trials": 1})
    (plan,) = drive.start()
    return drive, plan.key


@pytest.fixture
def many(start: NewDrive) -> Any:
    """A sweep of nine trials, which begin when they are asked for."""
    return start(search={"trials": 9, "give_up_after": 9})


def begun(drive: Any) -> str:
    drive.running.clear()
    (plan,) = drive.start()
    return str(plan.key)


def point(drive: Any, key: str, step: int, value: float, **metrics: float) -> bool:
    return bool(drive.report(key, step, **{"dev/stsb_spearman": value, **metrics}))


def points(drive: Any, key: str, curve: Mapping[int, float]) -> list[bool]:
    """Whether it is stopped, by point."""
    return [point(drive, key, step, value) for step, value in curve.items()]


def receive(
    drive: Any, key: str, step: int, metrics: Mapping[str, float], attempt: str = "a", **more: Any
) -> None:
    report = Report(attempt=attempt, step=step, metrics=dict(metrics), **more)
    drive.results.receive(drive.state.live[key], report)


def finished(drive: Any, key: str) -> TrialFinished:
    (end,) = [e for e in drive.events() if isinstance(e, TrialFinished) and e.trial == key]
    return end


def ended(drive: Any, key: str) -> TrialFinished:
    """How a trial has ended that ends now."""
    drive.results.record_end(drive.state.live[key])
    return finished(drive, key)


def test_a_trial_ends_with_its_best_trained_step(one) -> None:
    """Step 0 is the untrained backbone, which is never the best."""
    drive, key = one
    assert points(drive, key, {0: 0.9, 2: 0.5, 4: 0.4}) == [False] * 3
    drive.complete(key)
    end = finished(drive, key)
    assert (end.state, end.best_step, end.best_value) == ("COMPLETE", 2, 0.5)
    assert end.best_metrics["dev/stsb_spearman"] == 0.5
    assert end.model is not None and Path(end.model).is_dir()
    assert drive.study().trials[0].value == 0.5
    assert drive.state.live == {}


def test_the_checkpoint_set_picks_and_the_search_set_is_told(start) -> None:
    drive = start(dev={"checkpoint": "sickr", "search": "stsb"}, search={"trials": 1})
    (plan,) = drive.start()
    point(drive, plan.key, 2, 0.7, **{"dev/sickr_spearman": 0.1})
    point(drive, plan.key, 4, 0.6, **{"dev/sickr_spearman": 0.2})
    end = ended(drive, plan.key)
    assert (end.best_step, end.best_value) == (4, 0.6)


def test_reports_do_not_wait_for_storage(one) -> None:
    drive, key = one
    answers = threading.Event()
    with slow_storage(answers.wait):
        points(drive, key, {2: 0.5, 4: 0.5})
        drive.results.record_end(drive.state.live[key])
        places = [drive.checkpoints / key[:12] / f"checkpoint_{step}" for step in (2, 4)]
        assert [place.is_dir() for place in places] == [True, True]
        answers.set()
        drive.state.folders.close()
    assert places[0].is_dir() is False


def test_an_ended_trial_keeps_no_training_state(many) -> None:
    for end in ("COMPLETE", "PRUNED", "FAIL"):
        key = begun(many)
        point(many, key, 2, 0.5)
        if end == "COMPLETE":
            many.complete(key)
        elif end == "PRUNED":
            many.results.stop(many.state.live[key])
            many.results.record_end(many.state.live[key])
        else:
            many.fail(key, "ValueError: no", crashed=False)
        error, cause = ("ValueError: no", "error") if end == "FAIL" else (None, None)
        told = finished(many, key)
        assert (told.state, told.error, told.cause) == (end, error, cause)
    many.state.folders.close()
    assert not list(many.checkpoints.rglob(BEST_FOLDER))


def test_what_goes_on_keeps_its_checkpoint_and_what_a_kill_left_is_deleted(one, start) -> None:
    drive, key = one
    left = [drive.checkpoints / trial / f"checkpoint_{n}" for trial in "ab" for n in (0, 2)]
    for place in left:
        (place / BEST_FOLDER).mkdir(parents=True)
    receive(drive, key, 2, {"dev/stsb_spearman": 0.5}, attempt="a", checkpoint_step=2)
    drive.close()
    again = start(drive.spec)
    again.state.folders.close()
    assert [place for place in left if place.is_dir()] == [left[1]]
    (plan,) = again.start()
    assert plan.resumed_from == 2


def test_a_repeated_step_changes_nothing_and_is_said_once(one, caplog) -> None:
    drive, key = one
    point(drive, key, 2, 0.5)
    assert [point(drive, key, 2, value) for value in (0.6, 0.7)] == [False, False]
    assert [record.args[:3] for record in caplog.records] == [(0, 2, 2)]
    assert drive.history.trials[key].curve == {2: 0.5}
    drive.fail(key, "SIGKILL", crashed=True)
    drive.start()
    caplog.clear()
    point(drive, key, 2, 0.5)  # what it does again after its checkpoint is no fault of its method
    assert not caplog.records
    point(drive, key, 4, 0.4)
    drive.results.record_end(drive.state.live[key])
    drive.assert_sound()


@pytest.mark.parametrize("tags", [(), ("smoke",)])
def test_what_the_file_sets_and_the_method_never_reads_is_told_once(start, caplog, tags) -> None:
    unread = ("learning_rate", "weight_decay", "epochs", "eval_steps", "temperature")
    drive = start(
        method="st",
        space={"learning_rate": [1e-5, 3e-5]},
        fixed={"max_steps": 4, "epochs": 3, "eval_steps": 2, "weight_decay": 0.1, "batch_size": 8},
        tags=tags,
        search={"trials": 2},
    )
    for _ in range(2):
        key = begun(drive)
        points(drive, key, {0: 0.1, 2: 0.5})
        drive.results.receive(drive.state.live[key], Report(attempt="a", unread=unread))
        drive.complete(key)
    searched, fixed = [record.getMessage() for record in caplog.records]
    assert searched.startswith("trial 0 never read learning_rate, which is in 'space': ")
    of_rehearsal = "" if tags else "eval_steps and "  # which a rehearsal sets
    assert fixed.startswith(f"trial 0 never read {of_rehearsal}weight_decay, which is in 'fixed': ")


def test_a_checkpoint_that_is_told_later_is_gone_on_from(one, start) -> None:
    drive, key = one
    first, left, *further = [
        drive.checkpoints / trial / "checkpoint_6" for trial in ("a", "left", "b", "c")
    ]
    for place in (first, left, further[0]):
        (place / BEST_FOLDER).mkdir(parents=True)
    for step in (2, 4, 6):
        receive(drive, key, step, {"dev/stsb_spearman": 0.5})
    drive.results.record_checkpoint(drive.state.live[key], step=2, location=str(first))
    drive.results.record_checkpoint(drive.state.live[key], step=4, location=str(further[0]))
    drive.results.record_checkpoint(
        drive.state.live[key], step=2, location=str(left)
    )  # an older one changes nothing
    drive.close()
    again = start(drive.spec)
    (plan,) = again.start()
    assert plan.resumed_from == 4
    further[1].mkdir(parents=True)
    receive(again, key, 6, {"dev/stsb_spearman": 0.4}, attempt="c", checkpoint_step=6)
    trial = again.history.trials[key]
    assert (trial.checkpoint, trial.curve) == ((6, str(further[1])), {2: 0.5, 4: 0.5, 6: 0.5})
    again.state.folders.close()
    assert [place.is_dir() for place in (first, left, *further)] == [False, False, False, True]
    again.complete(key)
    again.assert_sound()


def test_what_is_no_number_is_never_the_best(many) -> None:
    none = begun(many)
    points(many, none, dict.fromkeys((0, 2, 4), math.nan))
    end = ended(many, none)
    assert (end.state, end.best_step, end.best_value) == ("FAIL", None, None)
    assert end.error.startswith("its dev score is not a number at step 4")
    assert end.cause == "trial"
    empty = begun(many)
    point(many, empty, 2, math.nan)
    (Path(many.history.trials[empty].checkpoint[1]) / BEST_FOLDER).rmdir()
    many.complete(empty)
    assert finished(many, empty).state == "FAIL"
    perfect = begun(many)  # average precision can be this
    points(many, perfect, {0: 0.5, 2: 1.0000000000000002})
    end = ended(many, perfect)
    assert (end.state, end.best_value) == ("COMPLETE", 1.0)
    percent = begun(many)
    assert point(many, percent, 2, 78.5) is True
    end = ended(many, percent)
    assert (end.state, end.best_value) == ("FAIL", None)
    assert end.error == "it reported dev/stsb_spearman = 78.5 at step 2, not a fraction"
    assert not Path(many.state.folders.models).exists()
    one = begun(many)
    points(many, one, {2: math.nan, 4: 0.3, 6: math.nan})
    end = ended(many, one)
    assert (end.state, end.best_value) == ("COMPLETE", 0.3)
    many.close()
    assert [trial.state.name for trial in many.study().trials] == [
        "FAIL",
        "FAIL",
        "COMPLETE",
        "FAIL",
        "COMPLETE",
    ]


def test_which_trials_a_strict_pruner_ends(start) -> None:
    drive = start(search={"trials": 5}, pruner={"kind": "median", "startup_trials": 1})
    good = begun(drive)
    points(drive, good, dict.fromkeys((0, 2, 4), 0.8))
    drive.results.record_end(drive.state.live[good])
    for died in (False, True):
        key = begun(drive)
        assert points(drive, key, {0: 0.1, 2: 0.2}) == [False, True]
        if died:
            drive.fail(key, "SIGTERM", crashed=True)
        else:
            drive.results.record_end(drive.state.live[key])
        trial = drive.history.trials[key]
        assert (trial.state, trial.curve, trial.best_value) == ("PRUNED", {0: 0.1, 2: 0.2}, 0.2)
    drive.assert_sound()
    without = begun(drive)
    assert point(drive, without, 2, math.nan) is True
    assert ended(drive, without).state == "FAIL"
    last = begun(drive)
    assert point(drive, last, 4, 0.2) is False  # the last step is never pruned
    assert ended(drive, last).state == "COMPLETE"


def test_a_trial_whose_process_died_goes_on_three_times(one, caplog) -> None:
    drive, key = one
    points(drive, key, {0: 0.3, 2: 0.5})
    traceback = drive.folder / "errors" / "trial-0.txt"
    for crash in (1, 2, 3):
        drive.fail(key, "SIGKILL", crashed=True)
        told = traceback.read_text().split("\nBefore, it failed with:\n")
        assert told == ["all of SIGKILL\n"] * crash  # it has printed nothing
        assert drive.history.trials[key].state == "RUNNING"
        (plan,) = drive.start()
        assert (plan.key, plan.resumed_from) == (key, 2)
        assert plan.checkpoint is not None
        assert drive.planner.param_space(plan)["resume_from"] == plan.checkpoint[1]
    assert [record.message for record in caplog.records] == [
        "trial 0 was interrupted (SIGKILL); it continues from step 2",
        *["trial 0 was interrupted again, as before; it continues from step 2"] * 2,
    ]
    OutputFile(output_file(drive.folder, 0)).append("epoch 1\n")
    drive.fail(key, "SIGKILL", crashed=True)
    assert (finished(drive, key).state, finished(drive, key).error) == ("FAIL", "SIGKILL")
    logs = f"cse-sweep logs {drive.spec.sweep} --trial 0"
    assert traceback.read_text().startswith(f"all of SIGKILL\n\nIts output: {logs}\n\nBefore, ")
    drive.run().assert_sound()


def test_a_trial_that_gets_further_each_time_goes_on_as_often_as_its_node_is_lost(one) -> None:
    drive, key = one
    for step in range(2, 10, 2):
        point(drive, key, step, 0.5)
        drive.fail(key, "its node is gone", crashed=True)
        assert [plan.resumed_from for plan in drive.start()] == [step]
    assert ended(drive, key).state == "COMPLETE"
    drive.assert_sound()


def test_a_trial_s_provenance_is_put_together_from_its_reports(one) -> None:
    drive, key = one
    values = {"dev/stsb_spearman": 0.5, "dev/sickr_spearman": 0.5}
    facts = [
        {"host": "lab-1", "gpu": "H200", "peak_memory_mib": "10"},
        {"peak_memory_mib": "20"},
        {"host": "lab-2", "peak_memory_mib": "15"},
        {"peak_memory_mib": "16"},
    ]
    for step, provenance in enumerate(facts):
        receive(drive, key, step, values, provenance=provenance)
    assert ended(drive, key).provenance == {"host": "lab-2", "peak_memory_mib": "16"}


def test_a_model_that_cannot_be_kept_does_not_fail_the_trial(many, caplog) -> None:
    for why in (f"it has no folder '{BEST_FOLDER}', where ", "artifacts"):
        key = begun(many)
        point(many, key, 2, 0.5)
        if why == "artifacts":
            (many.folder / "artifacts").write_text("in the way")
        else:
            (many.checkpoints / key[:12] / "checkpoint_2" / BEST_FOLDER).rmdir()
        many.complete(key)
        assert (finished(many, key).state, finished(many, key).model) == ("COMPLETE", None)
        assert "cannot be kept: " in caplog.text and why in caplog.text


@pytest.mark.parametrize("raised", [OSError("gone"), KeyboardInterrupt()], ids=["error", "kill"])
def test_memory_knows_a_dev_point_only_once_the_journal_has_it(start, monkeypatch, raised) -> None:
    """Neither the history nor the study, whose pruner has judged the point before."""
    drive = start(search={"trials": 1}, pruner={"kind": "successive_halving", "min_step": 1})
    (plan,) = drive.start()

    def known() -> tuple[Any, ...]:
        trial, (studied,) = drive.history.trials[plan.key], drive.study().trials
        curves = {*trial.curve}, {*trial.kept}, {*trial.tops}, trial.last_metrics, trial.costs.step
        return *curves, {*trial.pruner_notes}, studied.intermediate_values, studied.system_attrs

    before, append = known(), drive.recorder.record

    def record_or_fail(event: Any) -> Any:
        assert known() == before
        assert event.pruner_notes == {"completed_rung_0": 0.5}
        if raised is not None:
            raise raised
        return append(event)

    monkeypatch.setattr(drive.recorder, "record", record_or_fail)
    with pytest.raises(type(raised)):
        point(drive, plan.key, 2, 0.5)
    assert known() == before
    raised = None
    point(drive, plan.key, 2, 0.5)
    assert known()[-2:] == ({2: 0.5}, {"completed_rung_0": 0.5})
