from typing import Any

import pytest
from in_process import new_spec

TRIALS, CUT_AT = 15, 11
SEEDS = {"search": 42, "repeats": True, "confirm": {"top": 1, "seeds": [0]}}


def _run_until(drive: Any, trials: int) -> None:
    while len(drive.trials) < trials:
        (plan,) = drive.start()
        drive.finish(plan.key)


@pytest.mark.parametrize("sampler", ["random", pytest.param("auto", marks=pytest.mark.slow)])
def test_repeats_are_trials_of_the_search_and_of_its_study(start, sampler) -> None:
    """The scores are luck alone, so seeds differ as much as configurations do."""
    spec = new_spec(search={"sampler": sampler, "trials": TRIALS}, seeds=SEEDS)
    drive = start(spec, folder="whole")
    _run_until(drive, TRIALS)
    drive.assert_sound()
    repeats = [trial for trial in drive.trials if trial.role == "repeat"]
    assert 3 <= len(repeats) <= 5 and len(drive.trials) == TRIALS
    for trial in repeats:
        there = drive.study().trials[trial.search_number]
        assert (there.state.name, there.value) == ("COMPLETE", trial.best_value)
        assert there.user_attrs == {"seed": trial.seed} and trial.seed > 42
        assert there.intermediate_values == trial.kept

    cut = start(spec, folder="cut")
    _run_until(cut, CUT_AT)
    (plan,) = cut.start()
    assert plan.role == "repeat"
    cut.advance(plan.key)
    cut.close()
    resumed = start(spec, folder="cut")
    _run_until(resumed, TRIALS)
    resumed.assert_sound()
    assert resumed.outcome() == drive.outcome()
    assert resumed.told() == drive.told()


def test_a_configuration_with_a_failed_seed_gets_no_more(start) -> None:
    drive = start(search={"trials": TRIALS}, seeds=SEEDS)
    _run_until(drive, 10)
    (first,) = drive.start()
    assert first.role == "repeat"
    drive.report(first.key, 0)
    drive.fail(first.key, "loss is NaN", crashed=False)
    _run_until(drive, 12)  # one more configuration is needed for the ten that begin it
    (second,) = drive.start()
    assert second.role == "repeat" and second.configuration != first.configuration
    assert drive.study().trials[first.search_number].state.name == "FAIL"
