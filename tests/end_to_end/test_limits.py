import bad as _registers_them  # noqa: F401
import cheap as _registers_it  # noqa: F401
import pytest
from store_contents import assert_stores_agree

from cse_platform.tracking.events import TrialFinished, TrialStarted

SILENCE = "15s"
"""Longer than a busy machine needs to start a process and to report."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hangs", "state", "points"),
    [(1, "COMPLETE", [0, 2, 4, 6]), (2, "FAIL", [0, 2])],
    ids=["once", "twice"],
)
def test_a_trial_that_hangs(run_here, new_sweep, tmp_path, hangs, state, points) -> None:
    sweep = new_sweep(
        tmp_path,
        gate="hang " * hangs + "6",
        fixed={"kind": "b"},
        space={"depth": [1, 2]},
        search={"sampler": "grid"},
        resources={"cpu": 2, "silent_for": SILENCE},  # one at a time
    )
    run_here(sweep)
    first, second = sweep.history().trials.values()
    assert (first.state, sorted(first.curve)) == (state, points)
    assert (second.state, sorted(second.curve)) == ("COMPLETE", [0, 2, 4, 6])
    resumed = [e.resumed_from for e in sweep.events(TrialStarted)]
    assert resumed == [None, 2, None]
    assert (first.error is None) == (hangs == 1)
    assert_stores_agree(sweep)


@pytest.mark.slow
def test_each_bad_trial_ends_itself_and_the_sweep_goes_on(run_here, new_sweep, tmp_path) -> None:
    said = {
        "well": None,
        "segmentation fault": "ended by SIGSEGV, at bad.py:",
        "SystemExit 0": "sys.exit(0)",
    }
    search = {"sampler": "grid", "start_from": [{"way": way} for way in said]}
    sweep = new_sweep(tmp_path, method="bad", space={"way": [*said]}, search=search)
    run_here(sweep)
    ends = {event.trial: event for event in sweep.events(TrialFinished)}
    trials = {trial.values["way"]: ends[key] for key, trial in sweep.history().trials.items()}
    assert trials.keys() == said.keys()
    for way, end in trials.items():
        assert end.state == ("FAIL" if said[way] else "COMPLETE")
        assert said[way] in end.error if said[way] else end.model
    assert trials["segmentation fault"].error.endswith("; it printed last: the last line")
