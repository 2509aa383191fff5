"""What stops a trial in a sweep: the rule `curve`, its evidence, and what is said of it."""

from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec

from cse_platform.leaderboard.trials import complete_curves
from cse_platform.tracking.events import TrialFinished
from cse_platform.tracking.history import TrialHistory
from cse_platform.tracking.journal import read_journal

CURVE = {"kind": "curve", "startup_trials": 4, "chance": 0.9}
GOOD, BAD = (0.6, 0.61), (0.2, 0.21)
"""Dev scores at steps 2 and 4."""


def ran(drive: Any, curve: tuple[float, float], **metrics: float) -> TrialHistory:
    """The next trial, run to its end; at step 0 it has the highest score of all."""
    (plan,) = drive.start()
    return went_on(drive, plan.key, (0, 2, 4), (0.9, *curve), **metrics)


def went_on(
    drive: Any, key: str, steps: tuple[int, ...], values: tuple[float, ...], **metrics: float
) -> TrialHistory:
    for step, value in zip(steps, values, strict=True):
        if drive.report(key, step, **{"dev/stsb_spearman": value}, **(metrics if step else {})):
            break
    drive.results.record_end(key)
    trial: TrialHistory = drive.history.trials[key]
    return trial


@pytest.fixture
def experienced(tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec) -> Any:
    """A sweep with the rule, and with four good trials behind it."""
    drive = new_drive(tmp_path / "own", new_spec(search={"trials": 9}, pruner=CURVE))
    for number in range(4):
        assert ran(drive, (0.6, 0.61 + 0.001 * number)).state == "COMPLETE"
    return drive


def test_a_trial_that_cannot_be_the_best_is_stopped_also_after_a_kill(
    experienced: Any, new_drive: NewDrive
) -> None:
    bad = ran(experienced, BAD)
    assert (bad.state, bad.step, bad.best_value) == ("PRUNED", 2, 0.2)
    assert bad.why is not None and "4 complete curves" in bad.why
    told = experienced.study().trials[4]
    assert (told.state.name, told.intermediate_values) == ("PRUNED", {2: 0.2})
    events = [event for _, event in read_journal(experienced.folder / "journal.jsonl")]
    assert [e.why for e in events if isinstance(e, TrialFinished) and e.state == "PRUNED"] == [
        bad.why
    ]
    # After a kill, a trial that was running goes on, and is judged by its whole curve.
    (plan,) = experienced.start()
    experienced.report(plan.key, 0, **{"dev/stsb_spearman": 0.9})
    experienced.close()
    again = new_drive(experienced.folder, experienced.spec)
    (same,) = again.start()
    assert same.key == plan.key
    assert went_on(again, same.key, (2, 4), BAD).state == "PRUNED"
    assert ran(again, BAD).state == "PRUNED"
    good = ran(again, (0.6, 0.65))
    assert (good.state, good.why) == ("COMPLETE", None)


def test_a_collapsed_trial_is_stopped_at_once(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Without any evidence; its uniformity before training means nothing."""
    drive = new_drive(tmp_path, new_spec(pruner={"kind": "curve", "min_step": 4}))
    fine = ran(drive, GOOD, **{"dev/uniformity": -2.0})
    broken = ran(drive, GOOD, **{"dev/uniformity": -0.001})
    assert (fine.state, broken.state, broken.step) == ("COMPLETE", "PRUNED", 2)
    assert broken.why is not None and "collapsed" in broken.why


def test_trials_of_further_seeds_are_never_stopped(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    spec = new_spec(search={"trials": 4}, pruner=CURVE, seeds={"confirm": {"top": 1, "seeds": [0]}})
    drive = new_drive(tmp_path, spec)
    for _ in range(4):
        ran(drive, GOOD)
    confirmed = ran(drive, BAD, **{"dev/uniformity": -0.001})
    assert (confirmed.role, confirmed.state) == ("confirm", "COMPLETE")


@pytest.fixture
def earlier(tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec) -> Any:
    """Another sweep on the same leaderboard, complete, with four good trials."""
    drive = new_drive(tmp_path, new_spec(sweep="earlier", search={"trials": 4, "seed": 9}))
    for number in range(4):
        ran(drive, (0.6, 0.61 + 0.001 * number))
    drive.close()
    return drive


def test_curves_of_other_sweeps_with_the_same_method_backbone_dev_data_and_corpus_count(
    earlier: Any, tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """One trial of its own sets the bar."""
    check_evidence(new_drive(tmp_path / "first", new_spec(sweep="x"), leaderboard=tmp_path))
    drive = new_drive(tmp_path / "own", new_spec(pruner=CURVE), leaderboard=tmp_path)
    assert ran(drive, GOOD).state == "COMPLETE"
    assert ran(drive, BAD).state == "PRUNED"
    alone = new_drive(tmp_path / "alone", new_spec(pruner=CURVE))
    assert [ran(alone, curve).state for curve in (GOOD, BAD)] == ["COMPLETE"] * 2


def check_evidence(drive: Any) -> None:
    """The newest first."""
    dev = drive.state.identity.dev
    same = {
        "method": "cheap", "backbone": "mini", "dev_identity": dev["identity"],
        "corpus": dev["corpus"], "limit": 9,
    }  # fmt: skip
    with drive.state.leaderboard.session() as session:
        found = complete_curves(session, **same)
        assert len(found) == 4
        assert {0: 0.9, 2: 0.6, 4: 0.61} in [one.values for one in found]
        assert {one.values[4] for one in complete_curves(session, **same | {"limit": 2})} == {
            0.612, 0.613,
        }  # fmt: skip
        for name in ("method", "backbone", "dev_identity", "corpus"):
            assert complete_curves(session, **same | {name: "other"}) == []


def test_what_breaks_a_constraint_sets_no_bar(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    search = {"trials": 9, "constraints": ["uniformity <= -1"]}
    drive = new_drive(tmp_path, new_spec(search=search, pruner=CURVE))
    for _ in range(4):
        ran(drive, GOOD, **{"dev/uniformity": -0.5})
    assert ran(drive, BAD, **{"dev/uniformity": -2.0}).state == "COMPLETE"
    assert ran(drive, (0.05, 0.06), **{"dev/uniformity": -2.0}).state == "PRUNED"


def test_the_pruner_that_stopped_a_trial_is_named(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(pruner={"kind": "median", "startup_trials": 1}))
    ran(drive, GOOD)
    assert ran(drive, BAD).why == "stopped by median at step 2"
