import math
from collections.abc import Sequence
from typing import Any

import cheap as _registers_it  # noqa: F401
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.failures import FAILURE_CAUSE, RETRY_OF, FailurePredictor, show_failures
from cse_platform.search.proposals import add_proposal, propose
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec

SPACE = {"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}}


def searching(sampler: Any, **search: Any) -> SweepSpec:
    base = {"sweep": "small", "method": "cheap", "backbone": "mini", "corpus": "builtin"}
    base |= {"space": SPACE, "search": {"sampler": sampler, **search}}
    return SweepSpec.model_validate(base)


def slow(*rows: Any) -> list[Any]:
    """Rows of a table of parameters that are tried under the slow mark."""
    return [
        pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
        for row in rows
    ]


def _trials(*given: dict[str, Any]) -> list[FrozenTrial]:
    trials = []
    for number, fields in enumerate(given):
        trial = create_trial(state=TrialState.RUNNING)
        trial.number = number
        for name, value in fields.items():
            setattr(trial, name, value)
        trials.append(trial)
    return trials


def _failed(cause: str | None, **attrs: Any) -> dict[str, Any]:
    return {"state": TrialState.FAIL, "user_attrs": {FAILURE_CAUSE: cause, **attrs}}


def _complete(value: float) -> dict[str, Any]:
    return {"state": TrialState.COMPLETE, "value": value}


def _told(trials: Sequence[FrozenTrial]) -> list[tuple[str, float | None]]:
    return [(t.state.name, t.value) for t in show_failures(trials)]


@pytest.mark.parametrize(
    ("kind", "at_once"),
    [
        ("tpe", 8),
        *slow(("tpe", 1), *((kind, n) for kind in ("auto", "cmaes") for n in (1, 8))),
    ],
)
def test_a_region_that_diverges_is_left_after_three_failures(kind: str, at_once: int) -> None:
    """It has the upper 0.3 of `x`, and scores rise towards it. Random goes there 6 times of 20."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spec = searching(kind, trials=40, seed=2)
    study = optuna.create_study(direction="maximize")
    given = [
        {"x": 0.8 + 0.05 * (n % 3) if n % 5 == 4 else 0.05 * n, "y": (0.37 * n) % 1}
        for n in range(15)
    ]
    running: list[tuple[int, dict[str, Any]]] = []
    entered = 0
    for number in range(35):
        start_point = given[number] if number < 15 else None
        proposal = propose(study, spec, start_point=start_point)
        add_proposal(study, spec, proposal)
        entered += number >= 15 and proposal.assignment["x"] > 0.7
        running.append((proposal.number, proposal.assignment))
        if number >= 15 and len(running) < at_once:
            continue
        ended, point = running.pop(0)
        if point["x"] > 0.7:
            trial = study.get_trials(deepcopy=False)[ended]
            optuna.Trial(study, trial._trial_id).set_user_attr(FAILURE_CAUSE, "trial")
            study.tell(ended, state=TrialState.FAIL)
        else:
            study.tell(ended, point["x"] - (point["y"] - 0.7) ** 2)
    assert entered <= 6


def test_a_configuration_whose_nearest_trials_failed_is_predicted_to_fail() -> None:
    """Of three trials at 0.8, 0.9 and 1.0 that failed, and three at 0.1, 0.2 and 0.6."""
    space = Space.model_validate({"x": {"low": 0.0, "high": 1.0}})
    places = [0.1, 0.2, 0.6, 0.8, 0.9, 1.0, 0.85]
    running = {"state": TrialState.RUNNING}
    trials = _trials(*[_complete(0.5)] * 3, *[_failed("trial")] * 3, running)
    for trial, place in zip(trials, places, strict=True):
        trial.params = {"x": place}
    predictor = FailurePredictor(trials, space)
    predicted = [predictor.predicts_failure({"x": x}) for x in (0.0, 0.5, 0.65, 0.76, 1.0)]
    assert predicted == [False, False, True, True, True]
    for trial in trials[3:6]:
        trial.user_attrs = {FAILURE_CAUSE: "machine"}
    assert not FailurePredictor(trials, space).predicts_failure({"x": 1.0})


def test_too_few_failures_and_nothing_else_predict_none() -> None:
    """One failure is chance; where all failed, no place is better than another."""
    for failed in (0, 1, 6):
        trials = _trials(*[_failed("trial")] * failed, *[_complete(0.5)] * (6 - failed))
        for trial in trials:
            trial.params = {"x": 0.5, "y": 0.5}
        predictor = FailurePredictor(trials, Space.model_validate(SPACE))
        assert not predictor.predicts_failure({"x": 0.5, "y": 0.5}), failed
    assert not FailurePredictor([], Space.model_validate(SPACE)).predicts_failure({"x": 0.5})


def test_a_trial_that_failed_of_its_configuration_is_shown_with_the_worst_value() -> None:
    trials = _trials(
        _complete(0.5), _complete(0.7), _failed("trial"), _failed("person"),
        _failed("machine"), _failed("refusal"), _failed(None),
    )  # fmt: skip
    assert _told(trials)[2:] == [("COMPLETE", 0.5), *[("FAIL", None)] * 4]
    assert trials[2].state == TrialState.FAIL  # a copy is shown
    assert _told(_trials(_complete(0.5), _failed("error")))[1] == ("COMPLETE", 0.5)
    pruned = {"state": TrialState.PRUNED, "intermediate_values": {1: 0.4, 2: 0.3}}
    assert _told(_trials(_complete(0.5), pruned, _failed("trial")))[2] == ("COMPLETE", 0.3)


def test_a_retried_failure_and_infinite_values_are_not_shown_to_samplers() -> None:
    pruned = {"state": TrialState.PRUNED, "intermediate_values": {1: 0.4, 2: math.nan}}
    trials = _trials(_complete(math.inf), _complete(0.5), pruned)
    assert _told(trials) == [("COMPLETE", 0.5)] * 3
    assert _told(_trials(_complete(-math.inf))) == [("FAIL", None)]
    assert _told(_trials(_failed("trial"))) == [("FAIL", None)]  # nothing is worse than nothing
    again = {**_complete(0.9), "user_attrs": {RETRY_OF: 1}}
    assert _told(_trials(_complete(0.5), _failed("trial"), again))[1] == ("FAIL", None)
