import math
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_events import NOON, opening, trial_evaluated

from cse_platform.errors import JournalError
from cse_platform.tracking.events import (
    SweepFinished,
    SweepStarted,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
)
from cse_platform.tracking.history import History, TrialCosts, costs_of_report

DEV = {"checkpoint": "stsb", "search": "stsb", "identity": "d", "source": "builtin", "corpus": "c"}


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def begun(minutes: float = 0) -> SweepStarted:
    return SweepStarted(
        sweep="s", method="m", backbone="mini", spec={"trials": 2}, provenance={},
        best={"best:m/mini": "/models/1"}, time=at(minutes),
    )  # fmt: skip


def start(number: int, minutes: float = 0, *, resumed_from: int | None = None) -> TrialStarted:
    return TrialStarted(
        sweep="s", trial=f"t{number}", number=number, role="search", search_number=number, seed=42,
        method="m", revision=1, backbone="mini", configuration=f"c{number}", dev=DEV,
        values={"tau": 0.1, "rate": 1e-5, "size": 64}, searched=("rate", "tau", "left_out"),
        resumed_from=resumed_from, time=at(minutes),
    )  # fmt: skip


def point(
    number: int, step: int, value: float, minutes: float = 0, *, whole: bool = False
) -> TrialPoint:
    return TrialPoint(
        sweep="s", trial=f"t{number}", step=step, value=value, time=at(minutes),
        metrics={"dev/stsb_spearman": value, "dev/sickr_spearman": -value},
        checkpoint=f"/at/{step}" if whole else None,
    )  # fmt: skip


def end(number: int, minutes: float = 0, **fields: Any) -> TrialFinished:
    given: dict[str, Any] = {"state": "COMPLETE", "best_step": 2, "best_value": 0.5} | fields
    return TrialFinished(sweep="s", trial=f"t{number}", time=at(minutes), **given)


def reused(number: int) -> TrialReused:
    return TrialReused(
        sweep="s", trial=f"t{number}", reused_from="other", number=number, role="search",
        search_number=number, seed=42, configuration=f"c{number}", values={"tau": 0.1},
        searched=("tau",), curve={0: 0.1, 2: 0.7}, best_step=2, best_value=0.7, model=None,
        time=at(0), method="m", revision=1, backbone="mini", dev=DEV, started=at(0),
        finished=at(0),
    )  # fmt: skip


def test_a_second_attempt_that_is_reused_takes_the_place_of_the_failed_one() -> None:
    """Its key is different where the code has changed since."""
    again = reused(0).model_copy(update={"trial": "t0 of the mended code"})
    failed = end(0, 1, state="FAIL", error="no", best_value=None)
    history = History([begun(), start(0), failed, start(1), end(1), again])
    states = {trial.number: trial.state for trial in history.trials.values()}
    assert (states, history.searched) == ({0: "COMPLETE", 1: "COMPLETE"}, 2)


def test_a_whole_sweep_by_hand() -> None:
    history = History([
        begun(), start(0, 0), point(0, 0, 0.1, 1), point(0, 2, 0.5, 3, whole=True), end(0, 4),
        start(1, 4), point(1, 0, 0.2, 5), end(1, 6, state="FAIL", error="no", best_value=None),
        reused(2), SweepFinished(sweep="s", state="COMPLETE"),
    ])  # fmt: skip
    first, second, third = history.trials.values()
    assert (first.state, first.best_step, first.best_value) == ("COMPLETE", 2, 0.5)
    assert (first.curve, first.last_step, first.checkpoint) == ({0: 0.1, 2: 0.5}, 2, (2, "/at/2"))
    assert (first.busy_seconds, first.finished) == (240, at(4))
    assert first.searched_values == {"rate": 1e-5, "tau": 0.1}
    assert (second.state, second.error, second.best_value) == ("FAIL", "no", None)
    assert (third.state, third.curve, third.best_value) == ("COMPLETE", {0: 0.1, 2: 0.7}, 0.7)
    assert list(history.configurations()) == ["c0", "c2"]
    assert history.complete and history.spec == {"trials": 2}
    assert history.best == {"best:m/mini": "/models/1"}
    history.apply(begun())
    assert not history.complete


def test_an_interruption_adds_no_working_time_and_loses_no_point() -> None:
    history = History([
        begun(), start(0, 0), point(0, 0, 0.1, 1), point(0, 2, 0.5, 2, whole=True),
        point(0, 4, 0.6, 3),  # its checkpoint was not whole when the driver was killed
        begun(60), start(0, 61, resumed_from=2), point(0, 4, 0.7, 63, whole=True), end(0, 64),
    ])  # fmt: skip
    (trial,) = history.trials.values()
    assert trial.curve == {0: 0.1, 2: 0.5, 4: 0.6}  # the first values stay
    assert trial.started == at(0)
    assert trial.busy_seconds == 60 * (3 + 3)
    given_up = History([begun(), start(0, 0), point(0, 0, 0.1, 2), begun(60), end(0, 60)])
    assert given_up.trials["t0"].busy_seconds == 120


def test_costs_are_summed_over_interruptions_and_memory_is_the_most() -> None:
    """64 sentences a step, eight steps an epoch; 128 a second at first, then 32.

    The trial is cut off after step 4 and goes on from step 2: what it repeats counts once.
    """

    def costing(step: int, speed: float, *, memory: float) -> TrialPoint:
        trained = {"perf/sentences_per_second": speed}
        told = point(0, step, 0.5, whole=True)
        metrics = {**told.metrics, "perf/host_memory_gib": memory, **(trained if step else {})}
        metrics |= costs_of_report(metrics, {}, epoch_sentences=8 * 64)
        return told.model_copy(update={"metrics": metrics})

    started = start(0).model_copy(update={"values": {"batch_size": 64}})
    events = [
        *(begun(), started, costing(0, 0, memory=1.0), costing(2, 128, memory=3.5)),
        *(costing(4, 128, memory=1.5), begun(60)),
        started.model_copy(update={"resumed_from": 2, "time": at(61)}),
        *(costing(4, 64, memory=0.5), costing(6, 32, memory=2.0)),
    ]
    costs = History(events).trials["t0"].costs.totals()
    seconds = 2 * 64 / 128 + 2 * 64 / 128 + 2 * 64 / 32  # 6
    assert costs == pytest.approx({
        "train_minutes": seconds / 60, "sentences_per_second": 6 * 64 / seconds, "epochs": 0.75,
        "epoch_minutes": seconds / 60 / 0.75, "host_memory_gib": 3.5,
    })  # fmt: skip


def test_costs_that_are_not_known_are_left_out() -> None:
    def costs(*metrics: dict[str, float], **values: Any) -> dict[str, float]:
        points = [
            point(0, 2 * place, 0.5).model_copy(update={"metrics": {**one, "dev/stsb_spearman": 0}})
            for place, one in enumerate(metrics, start=1)
        ]
        started = start(0).model_copy(update={"values": {"batch_size": 64, **values}})
        return History([started, *points]).trials["t0"].costs.totals()

    speed = {"perf/sentences_per_second": 128.0}
    assert costs({}) == {}
    assert costs({"perf/gpu_memory_gib": 7.5}) == {"gpu_memory_gib": 7.5}
    assert costs(speed) == {"train_minutes": 1 / 60, "sentences_per_second": 128}
    assert costs(speed, {}) == costs({}, speed) == {}  # how long did half of the steps take?
    assert costs(speed, batch_size="many") == {}
    assert costs({"perf/sentences_per_second": math.nan}) == {}
    assert costs(speed | {"perf/epoch_minutes": 1 / 60}, speed) == {
        "train_minutes": 2 / 60, "sentences_per_second": 128, "epochs": 2, "epoch_minutes": 1 / 60,
    }  # fmt: skip


@settings(max_examples=30)
@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30))
def test_a_whole_epoch_is_never_taken_for_a_part_of_one(speeds) -> None:
    costs = TrialCosts()
    for step, speed in enumerate(speeds, start=1):
        metrics = {"perf/sentences_per_second": speed}
        metrics |= costs_of_report(metrics, {}, epoch_sentences=48 * len(speeds))
        costs.add(step, metrics, batch_size=48)
    assert costs.totals()["epochs"] == 1


def test_a_report_says_its_memory_in_gib_and_how_long_an_epoch_takes() -> None:
    memory = {"host": "lab-1", "peak_memory_mib": "512", "gpu_peak_memory_mib": "10240"}
    speed = {"perf/sentences_per_second": 500.0, "dev/stsb_spearman": 0.5}
    assert costs_of_report(speed, memory, epoch_sentences=1_000_000) == {
        "perf/gpu_memory_gib": 10,
        "perf/host_memory_gib": 0.5,
        "perf/epoch_minutes": pytest.approx(100 / 3),
    }
    assert costs_of_report({}, {}, epoch_sentences=1_000_000) == {}
    assert costs_of_report(speed, {"peak_memory_mib": "?"}, epoch_sentences=None) == {}


def test_the_best_step_is_the_first_of_the_highest_dev_score() -> None:
    for curve, checkpoint, best in (
        ({}, "stsb", None),
        ({0: 0.9}, "stsb", None),  # the untrained backbone is no result
        ({0: 0.9, 2: 0.5, 4: 0.5}, "stsb", (2, 0.5)),  # the earlier of equals
        ({2: math.nan, 4: 0.1, 6: math.nan}, "stsb", (4, 0.1)),
        ({2: math.nan}, "stsb", None),
        ({2: -0.2, 4: -0.1}, "stsb", (4, -0.1)),
        ({2: 0.3, 4: 0.5}, "sickr", (2, 0.3)),
    ):
        history = History([start(0), *(point(0, step, value) for step, value in curve.items())])
        found = history.trials["t0"].best(picked_by=checkpoint)
        assert (found and (found.step, found.value)) == best, curve


def test_a_mean_of_dev_sets_picks() -> None:
    """By the mean step 4 is the best, by STS-B step 2, by SICK-R step 6."""
    begin = begun().model_copy(update={"spec": {"dev": {"checkpoint": ["sickr", "stsb"]}}})
    scores = {2: (0.9, 0.1, 0.5), 4: (0.6, 0.6, 0.6), 6: (0.1, 0.9, 0.5)}
    names = ("dev/stsb_spearman", "dev/sickr_spearman", "dev/stsb_sickr_mean")
    points = [
        point(0, step, at[0]).model_copy(update={"metrics": dict(zip(names, at, strict=True))})
        for step, at in scores.items()
    ]
    history = History([begin, start(0), *points])
    trial = history.trials["t0"]
    assert history.dev.checkpoint_name == "stsb+sickr"
    assert trial.kept == {2: 0.9, 4: 0.6, 6: 0.6}
    best = trial.best(picked_by=history.dev.checkpoint_name)
    assert best is not None and best.step == 4


def everything(history: History) -> Any:
    trials = {key: vars(trial) for key, trial in history.trials.items()}
    return trials, history.spec, history.best, history.complete


def test_an_event_that_comes_twice_counts_once() -> None:
    events = [
        begun(), start(0, 0), point(0, 0, 0.1, 1), point(0, 2, 0.5, 2, whole=True), start(1, 2),
        begun(60), start(0, 61, resumed_from=2), point(0, 4, 0.7, 63, whole=True), end(0, 64),
        point(1, 0, 0.2, 65), end(1, 66, state="PRUNED"), start(2, 66), point(2, 0, 0.3, 67),
    ]  # fmt: skip
    for again in ([event for event in events for _ in range(2)], events + events):
        assert everything(History(again)) == everything(History(events))


def test_a_trial_has_the_tasks_of_its_evaluations() -> None:
    asked = [("mr", "sts12"), ("ranking",), ("geometry", "mr")]
    events = [trial_evaluated("t0", {"test/sts12_spearman": 0.5}, tasks=each) for each in asked]
    # An opening alone is no evaluation: the driver can die between the two.
    opened = opening("t0", sweep="s", tasks=("cr",), time=at(9))
    history = History([start(0), end(0, 4), start(1), end(1), opened, events[0]])
    assert history.trials["t0"].busy_seconds == 240
    assert history.trials["t0"].evaluated == {"": {"sts12", "mr"}}  # mr gave no number
    for event in events * 2:
        history.apply(event)
    assert history.trials["t0"].evaluated == {"": {"sts12", "mr", "ranking", "geometry"}}
    assert history.trials["t1"].evaluated == {}
    history.apply(trial_evaluated("t0", {}, tasks=("sts12",), settings="sliced"))
    assert history.trials["t0"].evaluated["sliced"] == {"sts12"}


def test_an_event_of_a_trial_before_its_start_is_named_as_damage() -> None:
    for event in (point(0, 2, 0.5), end(0), trial_evaluated("t0", {"test/sts12_spearman": 0.5})):
        with pytest.raises(JournalError, match="speaks of trial t0 before it starts"):
            History([begun(), event])
