from typing import Any

from cse_platform.leaderboard.trials import complete_curves
from cse_platform.tracking.events import TrialFinished
from cse_platform.tracking.history import TrialHistory

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
    drive.results.record_end(drive.state.live[key])
    trial: TrialHistory = drive.history.trials[key]
    return trial


def with_four_good(drive: Any) -> Any:
    for number in range(4):
        assert ran(drive, (0.6, 0.61 + 0.001 * number)).state == "COMPLETE"
    return drive


def test_a_trial_that_cannot_be_the_best_is_stopped_also_after_a_kill(start) -> None:
    experienced = with_four_good(start(search={"trials": 9}, pruner=CURVE))
    bad = ran(experienced, BAD)
    assert (bad.state, bad.last_step, bad.best_value) == ("PRUNED", 2, 0.2)
    assert bad.why is not None and "4 complete curves" in bad.why
    told = experienced.study().trials[4]
    assert (told.state.name, told.intermediate_values) == ("PRUNED", {2: 0.2})
    ends = [event for event in experienced.events() if isinstance(event, TrialFinished)]
    assert [end.why for end in ends if end.state == "PRUNED"] == [bad.why]
    # After a kill, a trial that was running goes on, and is judged by its whole curve.
    (plan,) = experienced.start()
    experienced.report(plan.key, 0, **{"dev/stsb_spearman": 0.9})
    experienced.close()
    again = start(experienced.spec)
    (same,) = again.start()
    assert same.key == plan.key
    assert went_on(again, same.key, (2, 4), BAD).state == "PRUNED"
    assert ran(again, BAD).state == "PRUNED"
    good = ran(again, (0.6, 0.65))
    assert (good.state, good.why) == ("COMPLETE", None)


def test_a_collapsed_trial_is_stopped_at_once(start) -> None:
    """Without any evidence; its uniformity before training means nothing."""
    drive = start(pruner={"kind": "curve", "min_step": 4})
    fine = ran(drive, GOOD, **{"dev/uniformity": -2.0})
    broken = ran(drive, GOOD, **{"dev/uniformity": -0.001})
    assert (fine.state, broken.state, broken.last_step) == ("COMPLETE", "PRUNED", 2)
    assert broken.why is not None and "collapsed" in broken.why


def test_trials_of_further_seeds_are_never_stopped(start) -> None:
    drive = start(search={"trials": 4}, pruner=CURVE, seeds={"confirm": {"top": 1, "seeds": [0]}})
    for _ in range(4):
        ran(drive, GOOD)
    confirmed = ran(drive, BAD, **{"dev/uniformity": -0.001})
    assert (confirmed.role, confirmed.state) == ("confirm", "COMPLETE")


def test_curves_of_other_sweeps_with_the_same_method_backbone_dev_data_and_corpus_count(
    start,
) -> None:
    with_four_good(start(sweep="earlier", search={"trials": 4, "seed": 9})).close()
    asking = start(sweep="x", folder="first", leaderboard="")
    dev = asking.state.identity.dev
    same = {"method": "cheap", "backbone": "mini", "dev": dev, "limit": 9}
    with asking.state.leaderboard.session() as session:
        found = complete_curves(session, **same)
        assert len(found) == 4
        curves = [{point.step: point.value for point in trial.points} for trial in found]
        assert {0: 0.9, 2: 0.6, 4: 0.61} in curves
        newest = complete_curves(session, **same | {"limit": 2})
        assert {trial.points[-1].value for trial in newest} == {0.612, 0.613}
        other = {name: dev | {name: "other"} for name in ("identity", "corpus_sha256", "corpus")}
        for changes in ({"method": "other"}, {"backbone": "x"}, {"dev": other["identity"]}):
            assert complete_curves(session, **same | changes) == []
        assert complete_curves(session, **same | {"dev": other["corpus_sha256"]}) == []
        assert len(complete_curves(session, **same | {"dev": other["corpus"]})) == 4
    drive = start(pruner=CURVE, folder="own", leaderboard="")
    assert ran(drive, GOOD).state == "COMPLETE"
    assert ran(drive, BAD).state == "PRUNED"
    alone = start(pruner=CURVE, folder="alone")
    assert [ran(alone, curve).state for curve in (GOOD, BAD)] == ["COMPLETE"] * 2


def test_a_trial_that_failed_sets_no_bar(start) -> None:
    drive = with_four_good(start(search={"trials": 9}, pruner=CURVE))
    (broken,) = drive.start()
    for step in (0, 2):
        drive.report(broken.key, step, **{"dev/stsb_spearman": 0.9})
    drive.fail(broken.key, "loss is NaN", crashed=False)
    assert (broken.state, broken.best_value) == ("FAIL", 0.9)
    assert ran(drive, (0.6, 0.65)).state == "COMPLETE"


def test_the_pruner_that_stopped_a_trial_is_named(start) -> None:
    median = start(pruner={"kind": "median", "startup_trials": 1}, folder="median")
    ran(median, GOOD)
    assert ran(median, BAD).why == "stopped by median at step 2"
