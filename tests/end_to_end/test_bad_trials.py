"""A trial that is bad in any way ends itself, and never the sweep."""

from pathlib import Path

import bad
import pytest

from cse_platform.tracking.events import TrialFinished

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.slow]


def test_each_bad_trial_ends_itself_and_the_sweep_goes_on(
    run_here, new_sweep, tmp_path: Path
) -> None:
    ways = ["well", *bad.BAD, *(way for way in bad.FINE if way != "well")]
    sweep = new_sweep(
        tmp_path,
        method="bad",
        space={"way": ways},
        search={
            "sampler": "grid",
            "trials": len(ways),
            "start_from": [{"way": way} for way in ways],
            "give_up_after": len(ways),
        },
    )
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    ends = {event.trial: event for event in sweep.events() if isinstance(event, TrialFinished)}
    trials = {trial.values["way"]: ends[key] for key, trial in sweep.history().trials.items()}
    assert {way: end.state for way, end in trials.items()} == {
        **dict.fromkeys(bad.BAD, "FAIL"),
        **dict.fromkeys(bad.FINE, "COMPLETE"),
    }
    assert "sys.exit(0)" in trials["SystemExit 0"].error
    for way in (*bad.METRICS, *bad.STEPS, *bad.RAISED):
        assert way == "dev score above 1" or ", at bad.py:" in trials[way].error
