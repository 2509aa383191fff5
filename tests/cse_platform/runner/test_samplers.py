import itertools
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, get_args

import numpy as np
import optuna
import pytest
from cheap import CheapConfig
from in_process import new_spec
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from pydantic import model_validator
from search_studies import asked, in_memory, opened, score
from sweep_events import trial_life
from threadpoolctl import threadpool_info, threadpool_limits

from cse_methods import registry
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.search.proposals import propose
from cse_platform.search.samplers.cmaes import GENERATION, ReplayedCmaEs
from cse_platform.search.samplers.gp import NoisyGp
from cse_platform.sweep import spec as spec_module
from cse_platform.sweep.samplers import Gp, Sampler
from cse_platform.tracking.events import TrialStarted
from cse_platform.tracking.history import History

KINDS = {options().kind: options for options in get_args(get_args(Sampler)[0])}

PLANE: dict[str, Any] = {"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}}
MIXED: dict[str, Any] = {
    **PLANE,
    "kind": ["a", "b", "c"],
    "depth": {"low": 1, "high": 9, "when": {"kind": ["a", "b"]}},
}
COMPARED: dict[str, Any] = {**PLANE, "depth": {"low": 1, "high": 9, "when": {"x": "> 0.5"}}}
LEARNING: list[dict[str, Any]] = [
    {"kind": "tpe", "startup_trials": 4},
    {"kind": "gp", "startup_trials": 4},
    {"kind": "cmaes"},
    {"kind": "auto"},
]


def label(sampler: Any) -> str:
    return "-".join(map(str, sampler.values()))


def resumed(spec: Any, trials: int) -> list[dict[str, Any]]:
    """The points of a search whose driver ends after each trial."""
    found, history = [], History()
    for number in range(trials):
        found += asked(opened(spec, history=history), 1, history)
        for event in trial_life(number, {0: score(found[-1])}, sweep="small", trial=f"t{number}")[
            1:
        ]:
            history.apply(event)
    return found


def slow(*values: Any) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.mark.parametrize(
    "sampler",
    [{"kind": "tpe", "startup_trials": 3}, *slow({"kind": "random"}, {"kind": "qmc"}, *LEARNING)],
    ids=label,
)
def test_a_search_goes_on_after_each_stop_as_without_one(sampler) -> None:
    trials = 5 if sampler.get("startup_trials") == 3 else 11
    search = {"sampler": sampler, "trials": trials}
    spec = new_spec(space=MIXED, search=search)
    undisturbed = in_memory(spec, trials)
    assert resumed(spec, trials) == undisturbed
    assert in_memory(new_spec(space=MIXED, search=search | {"seed": 2}), trials) != undisturbed


def test_a_dimension_takes_part_only_if_its_comparison_holds() -> None:
    search = {"sampler": {"kind": "tpe", "startup_trials": 8}}
    points = in_memory(new_spec(space=COMPARED, search=search), 16)
    assert {"depth" in point for point in points} == {True, False}
    assert all(("depth" in point) == (point["x"] > 0.5) for point in points)


@pytest.mark.parametrize("sampler", [LEARNING[0], *slow(*LEARNING[1:])], ids=label)
def test_a_learning_sampler_leaves_its_best_point_after_three_trials(sampler) -> None:
    """A further seed's value is not told to it: after two of them it tries the other points."""
    space = {"x": [0.1, 0.3, 0.9], "y": [0.2, 0.7]}
    points = in_memory(new_spec(space=space, search={"sampler": sampler}), 17)
    times = Counter(map(str, points))
    assert (len(times), max(times.values())) == (6, 3)


@pytest.mark.parametrize("kind", ["tpe", *slow("gp")])
def test_every_option_has_an_effect(kind) -> None:
    (option,) = KINDS[kind].model_fields.keys() - {"kind"}
    samplers = [{"kind": kind, option: value} for value in (3, 10)]
    one, other = (
        in_memory(new_spec(space=PLANE, search={"sampler": each}), 16) for each in samplers
    )
    assert one != other


def test_a_sequence_fills_the_space_evenly() -> None:
    """Of 16 points of a Sobol sequence, four lie in each quarter, and each choice has its share."""
    space = {**PLANE, "kind": ["a", "b"]}
    points = in_memory(new_spec(space=space, search={"sampler": "qmc"}), 16)
    quarters = [(point["x"] > 0.5, point["y"] > 0.5) for point in points]
    assert sorted(quarters.count(one) for one in set(quarters)) == [4, 4, 4, 4]
    assert [point["kind"] for point in points].count("a") == 8


def test_cmaes_is_where_optunas_own_is_and_keeps_no_pickle() -> None:
    """After 31 trials of Optuna's sampler: five generations of six, and draws around their mean."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}

    def run(sampler: optuna.samplers.BaseSampler, trials: int) -> optuna.Study:
        study = optuna.create_study(sampler=sampler, direction="maximize")
        for _ in range(trials):
            trial = study.ask(space)
            study.tell(trial, score(trial.params))
        return study

    optunas = optuna.samplers.CmaEsSampler(seed=1)
    study = run(optunas, 31)
    study.ask(space)  # tells it the fifth generation
    pickled = optunas._restore_optimizer(study.get_trials(deepcopy=False))
    draws, drawn = [], create_trial(state=TrialState.RUNNING)
    for seed in range(200):
        point = ReplayedCmaEs(seed=seed).sample_relative(study, drawn, {**space})
        draws.append([point["x"], point["y"]])
    assert drawn.system_attrs == {GENERATION: 5} and pickled.generation == 5
    assert np.mean(draws, axis=0).tolist() == pytest.approx(pickled.mean.tolist(), abs=0.03)
    fresh = run(ReplayedCmaEs(seed=1), 20)
    assert {key for trial in fresh.trials for key in trial.system_attrs} == {GENERATION}
    assert max(trial.system_attrs.get(GENERATION, -1) for trial in fresh.trials) == 3


def test_cmaes_keeps_to_the_grid_and_to_the_scale_of_a_dimension() -> None:
    """A step of 0.25, whole numbers, and half of the draws below the middle of a logarithm."""
    distributions: dict[str, BaseDistribution] = {
        "grid": FloatDistribution(0.0, 1.0, step=0.25),
        "whole": IntDistribution(1, 64, log=True),
        "rate": FloatDistribution(1e-6, 1e-2, log=True),
    }
    study = optuna.create_study(direction="maximize")
    params = {"grid": 0.5, "whole": 8, "rate": 1e-4}
    study.add_trial(create_trial(params=params, distributions=distributions, value=0.5))
    drawn = create_trial(state=TrialState.RUNNING)
    points = [
        ReplayedCmaEs(seed=seed).sample_relative(study, drawn, distributions) for seed in range(100)
    ]
    assert {point["grid"] for point in points} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert all(isinstance(p["whole"], int) and 1 <= p["whole"] <= 64 for p in points)
    assert all(1e-6 <= point["rate"] <= 1e-2 for point in points)
    for name, middle in (("whole", 7.5), ("rate", 1e-4)):
        assert 30 <= sum(point[name] < middle for point in points) <= 70, name


def test_a_gaussian_process_learns_from_pruned_trials() -> None:
    """Two complete trials and four pruned ones are the five that it needs."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spec = new_spec(space=PLANE, search={"sampler": {"kind": "gp", "startup_trials": 5}})
    study = optuna.create_study(direction="maximize")
    for number in range(6):
        trial = study.ask()
        value = score({name: trial.suggest_float(name, 0, 1) for name in "xy"})
        trial.report(value, 1)
        pruned = number >= 2
        state = TrialState.PRUNED if pruned else TrialState.COMPLETE
        study.tell(trial, None if pruned else value, state=state)
    noted = propose(study, spec).notes.trial
    assert any(name.startswith("gp:relative_params") for name in noted)


@pytest.mark.slow
def test_a_gaussian_process_does_not_aim_above_a_lucky_score() -> None:
    """A hill around the middle of a grid, and a corner that had a lucky score and a usual one.

    Ours goes up the hill. Optuna's own asks what exceeds the lucky score, which nothing there does.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ranges = dict.fromkeys("xy", FloatDistribution(0, 1))
    corner, luck = (1.0, 0.0), 0.1

    def proposed(sampler: optuna.samplers.BaseSampler, *, noise: int) -> tuple[float, float]:
        study, rng = optuna.create_study(direction="maximize", sampler=sampler), Random(noise)

        def tried(place: tuple[float, float], luck: float) -> None:
            hill = 0.7 - 0.1 * sum((one - 0.5) ** 2 for one in place)
            params = dict(zip("xy", place, strict=True))
            study.add_trial(create_trial(params=params, distributions=ranges, value=hill + luck))

        for place in itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), repeat=2):
            tried(place, rng.gauss(0, 0.01) if place != corner else 0.0)
        tried(corner, luck)
        found = study.ask(ranges).params
        return found["x"], found["y"]

    middle = pytest.approx((0.5, 0.5), abs=0.25)
    assert [proposed(NoisyGp(Gp(), seed=noise), noise=noise) for noise in range(6)] == [middle] * 6


def test_a_gaussian_process_proposes_on_one_thread() -> None:
    """Threads that share its small matrices wait for each other, and take the trials' cores."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info()}

    class Watched(NoisyGp):
        def _optimize_acqf(self, *arguments: Any) -> Any:
            proposing.append(threads())
            return super()._optimize_acqf(*arguments)

    proposing: list[set[int]] = []
    study = optuna.create_study(sampler=Watched(Gp(startup_trials=3), seed=0))
    with threadpool_limits(2):
        for _ in range(4):
            trial = study.ask({"x": FloatDistribution(0, 1)})
            study.tell(trial, trial.params["x"])
        assert (proposing, threads()) == ([{1}], {2})


class RuledConfig(CheapConfig):
    x: float = 1
    y: float = 0
    gap: float = 0

    @model_validator(mode="after")
    def _check_order(self) -> "RuledConfig":
        if self.x < self.y + self.gap:
            raise ValueError("x is too low")
        return self


@pytest.fixture
def ruled(monkeypatch: pytest.MonkeyPatch) -> None:
    method = replace(get_method("cheap"), config=RuledConfig)
    monkeypatch.setitem(registry._METHODS, "cheap", method)


@pytest.mark.parametrize(
    ("sampler", "gap"),
    [
        ({"kind": "tpe", "startup_trials": 3}, 0),
        ({"kind": "random"}, 0.8),  # a fiftieth of the square
        pytest.param({"kind": "gp", "startup_trials": 3}, 0.5, marks=pytest.mark.slow),
        pytest.param({"kind": "cmaes"}, 0.8, marks=pytest.mark.slow),
    ],
)
def test_a_search_with_refused_draws_goes_on_after_each_stop(ruled, sampler, gap) -> None:
    spec = new_spec(space=PLANE, fixed={"gap": gap}, search={"sampler": sampler, "trials": 8})
    undisturbed = in_memory(spec, 8)
    assert all(point["x"] >= point["y"] + gap for point in undisturbed)
    assert len({point["x"] for point in undisturbed}) > 4
    assert resumed(spec, 8) == undisturbed


def test_a_grid_leaves_out_what_is_refused(ruled, monkeypatch) -> None:
    whole = {name: {"low": 1, "high": 3} for name in "xy"}
    search = {"sampler": "grid", "trials": None}
    spec = new_spec(space=whole, fixed={"gap": 1}, search=search)
    expected = [{"x": 2, "y": 1}, {"x": 3, "y": 1}, {"x": 3, "y": 2}]
    study = opened(spec)
    assert opened(spec).preview(3) == asked(study, 3) == expected
    assert study.has_tried_grid
    monkeypatch.setattr(spec_module, "MOST_REFUSED", 3)
    with pytest.raises(SweepRefusedError, match="cheap refuses 3 points of the grid in a row"):
        opened(spec).preview(1)


def test_no_trial_is_spent_on_what_is_refused(ruled, new_drive, tmp_path) -> None:
    drive = new_drive(tmp_path, new_spec(space=PLANE, search={"trials": 4})).run()
    started = [event for event in drive.events() if isinstance(event, TrialStarted)]
    assert [event.search_number for event in started] == [0, 1, 2, 3]
    assert all(event.values["x"] >= event.values["y"] for event in started)
