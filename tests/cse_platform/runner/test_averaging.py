"""The average of a configuration's seeds: a trial of its own, and never one of the seeds."""

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from in_process import NewDrive

from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.records import Filters
from cse_platform.leaderboard.sweeps import by_configuration, leading_configurations
from cse_platform.leaderboard.trials import best_kept_trial, measured_trials
from cse_platform.runner.averaging import find_averageable, make_task, record_average
from cse_platform.runner.model_retention import delete_surplus_models, surplus_models
from cse_platform.runner.model_tasks import AveragedModel
from cse_platform.runner.prior_results import list_trials_to_retry
from cse_platform.search.confirmation import best_configurations, chosen_trials
from cse_platform.stores.sql.tables import find_sweep
from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted
from cse_platform.tracking.history import TrialHistory

HOT = 0.4
"""The best temperature."""


def hot(values: Mapping[str, Any], seed: int, step: int) -> float:
    """By 0.001 higher with every step and with every seed; 42 counts as 3."""
    return float(values["temperature"]) + step / 1000 + min(seed, 3) / 1000


AVERAGING: dict[str, Any] = {
    "space": {"temperature": [0.2, 0.3, HOT]},
    "search": {"sampler": {"kind": "grid"}, "trials": None},
    "seeds": {"confirm": {"top": 2, "seeds": [0, 1], "average": True}},
    "keep": {"models": 1},
    "score": hot,
}


def record_made_up(drive: Any, *, better: bool) -> TrialHistory:
    """Record an average of the best configuration's seeds, a little above or below the best."""
    [seeds, *_] = find_averageable(drive.state)
    task = make_task(seeds, drive.state.folders)
    assert task.beat == max(trial.best_value or 0.0 for trial in seeds)
    value = task.beat + (0.01 if better else -0.0005)
    if better:
        Path(task.place).mkdir(parents=True)
        Path(task.place, "cse_trial.txt").write_text(task.key)
    metrics = {"dev/stsb_spearman": value}
    place = task.place if better else None
    record_average(drive.state, seeds, AveragedModel(metrics, place, None, 0.5))
    averaged: TrialHistory = drive.history.trials[task.key]
    return averaged


@pytest.fixture
def driven(start: NewDrive) -> Any:
    return start(**AVERAGING).run()


def test_an_average_is_a_trial_with_a_configuration_of_its_own(driven) -> None:
    assert driven.spec.planned == 3 + 2 * 2 + 2
    wanted = find_averageable(driven.state)
    expected = [(HOT, 3), (0.3, 3)]
    assert [(seeds[0].values["temperature"], len(seeds)) for seeds in wanted] == expected
    averaged = record_made_up(driven, better=True)
    seeds = [driven.history.trials[key] for key in averaged.averages]
    assert sorted(trial.seed for trial in seeds) == [0, 1, 42]
    assert {trial.values["temperature"] for trial in seeds} == {HOT}
    assert averaged.seed == 0  # whichever sweep trained which of them first
    assert averaged.configuration not in {trial.configuration for trial in seeds}
    assert (averaged.role, averaged.state, averaged.number) == ("confirm", "COMPLETE", 7)
    assert [len(found) for found in find_averageable(driven.state)] == [3]  # of the other one

    spec, history = driven.spec, driven.history
    assert all(
        averaged not in seeds for seeds in best_configurations(history.configurations().values())
    )
    expected = [*best_configurations(history.configurations().values())[0], averaged]
    assert chosen_trials(history, spec, top=1) == expected
    assert averaged not in surplus_models(history, spec, configurations=1)
    driven.assert_sound()
    values = [trial.best_value for trial in seeds]
    driven.close()
    with driven.state.leaderboard.session() as session:
        [row] = board_rows(session)
        assert (row.configuration.hash, row.n) == (seeds[0].configuration, 3)
        for filters in (Filters(), Filters(sweep="small")):
            own, trained = board_rows(session, filters, averages=True)
            assert (own.configuration.hash, own.n) == (averaged.configuration, 1)
            assert own.shown_method == "cheap (average of 3 seeds)"
            assert own.averages.dev_mean == pytest.approx(fmean(values))
            assert (trained.shown_method, trained.averages) == ("cheap", None)
            every = board_rows(session, filters, averages=True, per_configuration=True)
            assert len(every) == 4
            assert len(board_rows(session, filters, per_configuration=True)) == 3

        reader = Leaderboard(driven.state.leaderboard)
        history = reader.search("small", limit=100)
        assert averaged.key not in {trial.key for trial in history.trials}
        tried = measured_trials(session, find_sweep(session, "small"))
        assert len(by_configuration(tried)) == 3
        group = {"method": "cheap", "backbone": "mini", "dev_identity": own.dev.identity}
        leading = leading_configurations(session, **group, but="other", limit=9)
        assert len(leading) == 3 and leading[0].seeds == 3
        best = best_kept_trial(session, **group)
        assert best is not None and (best.key, best.averages) == (averaged.key, 3)
        told = reader.trial(averaged.key)
        assert [trial.seed for trial in told.averages] == [0, 1, 42]
        assert told.siblings == ()
        assert told.shown_seed == "the average of the weights of seeds 0, 1, 42"


def test_an_average_below_its_best_seed_has_no_model_and_is_not_chosen(driven) -> None:
    averaged = record_made_up(driven, better=False)
    assert averaged.model is None
    assert averaged not in chosen_trials(driven.history, driven.spec, top=1)
    assert len(find_averageable(driven.state)) == 1  # it is not made again


def test_what_lacks_a_model_is_not_averaged(driven, caplog) -> None:
    delete_surplus_models(driven.state)  # keeps two configurations, as many as are confirmed
    assert len(find_averageable(driven.state)) == 2
    best = best_configurations(driven.history.configurations().values())[0]
    best[1].model, best[1].model_deleted = None, True
    assert [seeds[0].values["temperature"] for seeds in find_averageable(driven.state)] == [0.3]
    assert f"trial {best[1].number}: its model was deleted" in caplog.text


def test_a_record_that_was_cut_off_is_made_again(start) -> None:
    drive = start(**AVERAGING)
    drive.run_until_idle()
    told = []
    record = drive.state.record
    drive.state.record = told.append  # as if the driver had been killed
    [seeds, *_] = find_averageable(drive.state)
    task = make_task(seeds, drive.state.folders)
    metrics = {"dev/stsb_spearman": 0.7}
    record_average(drive.state, seeds, AveragedModel(metrics, None, None, 0.5))
    assert [type(event) for event in told] == [TrialStarted, TrialPoint, TrialFinished]
    record(told[0])
    drive.close()

    again = start(**AVERAGING)
    again.run_until_idle()
    assert again.history.trials[task.key].state == "FAIL"
    assert list_trials_to_retry(again.history, "another environment") == []
    averaged = record_made_up(again, better=True)
    assert (averaged.key, averaged.number, averaged.state) == (task.key, 7, "COMPLETE")
    again.close()

    last = start(**AVERAGING)  # which refuses nothing
    last.run_until_idle()
    assert last.history.trials[task.key].averages == averaged.averages
    assert len(find_averageable(last.state)) == 1


def test_a_further_seed_makes_another_average(start) -> None:
    drive = start(**AVERAGING).run()
    first = record_made_up(drive, better=True)
    drive.close()
    confirm = {"top": 2, "seeds": [0, 1, 2], "average": True}
    longer = start(**AVERAGING | {"seeds": {"confirm": confirm}})
    longer.run_until_idle()
    second = record_made_up(longer, better=True)
    assert len(second.averages) == 4 and set(first.averages) < set(second.averages)
    chosen = chosen_trials(longer.history, longer.spec, top=1)
    assert second in chosen and longer.history.trials[first.key] not in chosen
