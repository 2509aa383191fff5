"""A trial that hangs is killed and goes on once; a second time it fails."""

from pathlib import Path

import pytest
import stuck as _registers_it  # noqa: F401
from store_contents import assert_stores_agree
from sweeps import CHEAP

from cse_platform.tracking.events import TrialStarted

STUCK = CHEAP | {"method": "stuck"}
SILENCE = "15s"
"""Longer than a busy machine needs to start a process and to report."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hangs", "state", "points"),
    [(1, "COMPLETE", [0, 2, 4, 6]), (2, "FAIL", [0, 2])],
    ids=["once", "twice"],
)
def test_a_trial_that_hangs(
    run_here, new_sweep, tmp_path: Path, hangs: int, state: str, points: list[int]
) -> None:
    fixed = {"attempts": str(tmp_path / "attempts"), "hangs": hangs, "kind": "b"}
    sweep = new_sweep(
        tmp_path,
        STUCK,
        fixed=fixed,
        space={"depth": [1, 2]},
        search={"sampler": "grid"},
        resources={"cpu": 2, "silent_for": SILENCE},  # one at a time
    )
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    first, second = sweep.history().trials.values()
    assert (first.state, sorted(first.curve)) == (state, points)
    assert (second.state, sorted(second.curve)) == ("COMPLETE", [0, 2, 4, 6])
    resumed = [e.resumed_from for e in sweep.events() if isinstance(e, TrialStarted)]
    assert resumed == [None, 2, None]
    assert (first.error is None) == (hangs == 1)
    assert_stores_agree(sweep)
