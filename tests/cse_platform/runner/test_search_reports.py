"""What the study is told, and what its pruner decides."""

import math
from typing import Any

from search_studies import asked, lived, opened, tell_live


def test_the_study_has_the_truth(new_spec) -> None:
    search = opened(new_spec())
    asked(search, 3)
    tell_live(search, lived(0, [0.1, 0.6, 0.4], state="COMPLETE"))
    tell_live(search, lived(1, [0.1, 0.3], state="PRUNED"))
    tell_live(search, lived(2, [math.nan, math.nan], state="FAIL"))
    complete, pruned, failed = search.study.get_trials()
    assert [t.state.name for t in (complete, pruned, failed)] == ["COMPLETE", "PRUNED", "FAIL"]
    assert complete.value == 0.6  # the best, not the last
    assert complete.intermediate_values == {1: 0.6, 2: 0.6}  # what would have been kept
    assert pruned.intermediate_values == {1: 0.3}
    assert failed.value is None and math.isnan(failed.intermediate_values[1])


def test_pruners_stop_the_worst(new_spec) -> None:
    for pruner, stopped_at in PRUNERS:
        search = opened(new_spec(pruner=pruner))
        asked(search, 3)
        for number, level in enumerate((0.7, 0.8)):
            curve = [0.1, *(level + 0.01 * step for step in range(4))]
            verdicts = tell_live(search, lived(number, curve, state="COMPLETE"))
            assert number == 0 or not any(verdicts), pruner
        worst = [0.9, *[0.2] * 4]
        verdicts = tell_live(search, lived(2, worst))
        assert next((step for step, stops in enumerate(verdicts) if stops), None) == stopped_at


def test_a_further_seed_is_trained_to_its_end(new_spec) -> None:
    search = opened(new_spec(pruner={"kind": "threshold", "lower": 0.3}))
    asked(search, 2)
    assert any(tell_live(search, lived(0, [0.9, 0.2])))
    assert not any(tell_live(search, lived(1, [0.9, 0.2], role="confirm")))


PRUNERS: list[tuple[dict[str, Any], int | None]] = [
    ({"kind": "none"}, None),
    ({"kind": "median", "startup_trials": 2, "min_step": 2}, 2),
    ({"kind": "threshold", "lower": 0.3, "min_step": 2}, 2),
    ({"kind": "patient", "patience": 2, "min_step": 4}, 4),
    # One of two passes a rung: rungs at 1, 2, 4, and it is the worst of three at the first.
    ({"kind": "successive_halving", "min_step": 1, "reduction_factor": 2}, 1),
    # One bracket, which is a successive halving from step 2.
    ({"kind": "hyperband", "min_step": 2, "max_step": 3, "reduction_factor": 2}, 2),
]
"""Each with the step at which it stops the worst of three."""


def test_step_0_and_a_fall_after_the_peak_say_nothing_about_what_was_trained(new_spec) -> None:
    """Step 0 is the highest of some curves; and a trial is no worse for what comes after its best.

    The worst are stopped where training lowers the score, and none for its fall.
    """
    for kind, began, curves, stops in (
        ({"kind": "median", "startup_trials": 2}, 0.6, [[0.5] * 3, [0.4] * 3, [0.1] * 3], True),
        (
            {"kind": "successive_halving", "min_step": 2},
            0.1,
            [[0.5] * 3] * 4 + [[0.6, 0.2, 0.2]],
            False,
        ),
    ):
        search = opened(new_spec(pruner=kind))
        asked(search, len(curves))
        for number, curve in enumerate(curves[:-1]):
            tell_live(search, lived(number, [began, *curve], state="COMPLETE"))
        assert any(tell_live(search, lived(len(curves) - 1, [began, *curves[-1]]))) is stops
