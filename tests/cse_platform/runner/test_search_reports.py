"""What the study is told, what its pruner decides, and what an outage leaves of both."""

import math
from typing import Any

import pytest
from optuna.storages._rdb.models import TrialIntermediateValueModel
from search_studies import alone, asked, lived, opened, tell_live
from sqlalchemy import event

from cse_platform.errors import StoreError


def test_optuna_alone_sees_the_truth(tmp_path, new_spec) -> None:
    search = opened(tmp_path, new_spec())
    asked(search, 4)
    tell_live(search, lived(0, [0.1, 0.6, 0.4], state="COMPLETE"))
    tell_live(search, lived(1, [0.1, 0.3], state="PRUNED"))
    tell_live(search, lived(2, [math.nan, math.nan], state="FAIL"))
    search.close(3, why="the budget was spent")
    complete, pruned, failed, closed = alone(tmp_path).get_trials()
    assert [t.state.name for t in (complete, pruned, failed, closed)] == [
        "COMPLETE", "PRUNED", "FAIL", "FAIL",
    ]  # fmt: skip
    assert complete.value == 0.6  # the best, not the last
    assert complete.intermediate_values == {1: 0.6, 2: 0.6}  # what would have been kept
    assert pruned.intermediate_values == {1: 0.3}
    assert failed.value is None and math.isnan(failed.intermediate_values[1])
    assert closed.user_attrs == {"closed": "the budget was spent"}


def test_pruners_stop_the_worst(tmp_path, new_spec) -> None:
    for place, (pruner, stopped_at) in enumerate(PRUNERS):
        folder = tmp_path / str(place)
        folder.mkdir()
        search = opened(folder, new_spec(pruner=pruner))
        asked(search, 3)
        for number, level in enumerate((0.7, 0.8)):
            curve = [0.1, *(level + 0.01 * step for step in range(4))]
            verdicts = tell_live(search, lived(number, curve, state="COMPLETE"))
            assert number == 0 or not any(verdicts), pruner
        worst = [0.9, *[0.2] * 4]
        verdicts = tell_live(search, lived(2, worst))
        assert next((step for step, stops in enumerate(verdicts) if stops), None) == stopped_at


def test_a_further_seed_is_trained_to_its_end(tmp_path, new_spec) -> None:
    search = opened(tmp_path, new_spec(pruner={"kind": "threshold", "lower": 0.3}))
    asked(search, 2)
    assert any(tell_live(search, lived(0, [0.9, 0.2])))
    assert not any(tell_live(search, lived(1, [0.9, 0.2], role="confirm")))


PRUNERS: list[tuple[dict[str, Any], int | None]] = [
    ({"kind": "none"}, None),
    # Not in the best half.
    ({"kind": "percentile", "percentile": 50.0, "startup_trials": 2, "min_step": 2}, 2),
    ({"kind": "threshold", "lower": 0.3, "min_step": 2}, 2),
    ({"kind": "patient", "patience": 2, "min_step": 4}, 4),
    ({"kind": "patient", "patience": 2, "pruner": {"kind": "threshold", "lower": 0.1}}, None),
    # One of two passes a rung: rungs at 1, 2, 4, and it is the worst of three at the first.
    ({"kind": "successive_halving", "min_step": 1, "reduction_factor": 2}, 1),
    # One bracket, which is a successive halving from step 2.
    ({"kind": "hyperband", "min_step": 2, "max_step": 3, "reduction_factor": 2}, 2),
]
"""Each with the step at which it stops the worst of three."""


def test_step_0_and_a_fall_after_the_peak_say_nothing_about_what_was_trained(
    tmp_path, new_spec
) -> None:
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
        folder = tmp_path / str(kind["kind"])
        folder.mkdir()
        search = opened(folder, new_spec(pruner=kind))
        asked(search, len(curves))
        for number, curve in enumerate(curves[:-1]):
            tell_live(search, lived(number, [began, *curve], state="COMPLETE"))
        assert any(tell_live(search, lived(len(curves) - 1, [began, *curves[-1]]))) is stops


def test_a_point_is_told_once_and_never_to_a_trial_that_has_ended(
    tmp_path, new_spec, recwarn
) -> None:
    """A power cut can take the journal's last events, and leave the study's."""
    history = lived(0, [0.1, 0.6], state="COMPLETE")
    (trial,) = history.trials.values()
    search = opened(tmp_path, new_spec())
    asked(search, 1)
    assert [search.report(trial, step=step) for step in (0, 1, 1)] == [False] * 3
    search.tell(trial)
    trial.kept[2] = 0.7
    assert search.report(trial, step=2) is False
    search.tell(trial)
    assert alone(tmp_path).get_trials()[0].intermediate_values == {1: 0.6}
    assert [str(w.message) for w in recwarn if "already" in str(w.message)] == []


def test_a_point_costs_no_more_where_there_are_many(tmp_path, new_spec) -> None:
    """What was reported before is not read again: no more than the trial, once."""
    search = opened(tmp_path, new_spec(pruner="patient"))
    asked(search, 1)
    (trial,) = lived(0, [0.5] * 41).trials.values()
    read: list[object] = []

    def note(point: object, _context: object) -> None:
        read.append(point)

    event.listen(TrialIntermediateValueModel, "load", note)
    try:
        for step in trial.curve:
            search.report(trial, step=step)
    finally:
        event.remove(TrialIntermediateValueModel, "load", note)
    assert len(alone(tmp_path).trials[0].intermediate_values) == 40
    assert len(read) <= 40  # each point with all before it would be 800


def test_a_wrong_url_is_a_store_error_without_password(tmp_path, new_spec) -> None:
    for url in (
        "postgresql+psycopg://lab:secret@127.0.0.1:1/none",
        "postgresql+psycopg://lab:secret@host:port/none",
        "oracle+nodriver://lab:secret@host/none",
        "lab:secret@host",
        "sqlite:////no/such/folder/search.db",
    ):
        with pytest.raises(StoreError, match=r"^search store ") as caught:
            opened(tmp_path, new_spec(), url=url)
        assert "secret" not in str(caught.value) and "\n" not in str(caught.value)
