import math
from collections.abc import Callable
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from in_process import new_spec, screen_lines
from search_studies import asked, opened
from stored_trials import fill_store
from sweep_events import sweep_started, trial_life

from cse_platform.cli.outcome import outcome_lines
from cse_platform.cli.progress import SweepProgress
from cse_platform.cli.sweep_lines import trial_line
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.search.confirmation import best_configurations, pareto_front, to_confirm
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import SweepFinished, TrialState
from cse_platform.tracking.history import History

TWO = {"objectives": ["stsb", {"name": "seconds", "direction": "minimize"}]}
EVEN = {"constraints": ["uniformity <= -1.5", "seconds <= 3600"]}


def ended(
    number: int,
    value: float,
    *,
    seconds: float = 60.0,
    uniformity: float = -2.0,
    state: TrialState = "COMPLETE",
    **start: Any,
) -> list[Any]:
    of = {"trial": f"t{number}", "values": {"temperature": number}, "seed": 43, **start}
    measured = {"dev/uniformity": uniformity}
    *events, end = trial_life(
        number, {2: value}, sweep="small", state=state, measured=measured, **of
    )
    best = {"best_value": value, "best_metrics": {"dev/stsb_spearman": value, **measured}}
    return [*events, end.model_copy(update={**best, "wall_seconds": seconds, "gpus": 0.5})]


def history(*trials: list[Any]) -> History:
    return History(event for events in trials for event in events)


@pytest.fixture
def said(tmp_path, empty_leaderboard) -> Callable[..., list[str]]:
    """Says what a complete sweep of these trials has found."""

    def say(spec: SweepSpec, *trials: list[Any]) -> list[str]:
        file = spec.model_dump(mode="json")
        start = sweep_started("small", method="cheap", spec=file)
        end = SweepFinished(sweep="small", state="COMPLETE")
        events = [start, *chain.from_iterable(trials), end]
        url = fill_store(empty_leaderboard(tmp_path / f"{uuid4()}.db"), events)
        with open_leaderboard(url) as board:
            return outcome_lines(board, "small")

    return say


def numbers(configurations: list[Any]) -> list[int]:
    return [seeds[0].number for seeds in configurations]


def test_the_study_has_the_values_and_directions() -> None:
    search = opened(new_spec(search=TWO))
    asked(search, 3)
    found = history(
        ended(0, 0.5, seconds=20), ended(1, 0.4, state="PRUNED"), ended(2, math.nan, state="FAIL")
    )
    for trial in found.trials.values():
        assert search.judge(trial, step=2) == (False, {})
        search.report(trial, step=2, notes={})
        search.tell(trial)
    study = search.study
    assert [one.name for one in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    complete, pruned, failed = study.get_trials()
    assert (complete.values, complete.intermediate_values) == ([0.5, 20], {})
    assert (pruned.state.name, pruned.values, failed.state.name) == ("PRUNED", None, "FAIL")
    assert [one.number for one in study.best_trials] == [0]
    assert search.ask().assignment  # the sampler takes what it was told


def test_the_study_knows_which_trials_are_infeasible() -> None:
    search = opened(new_spec(search=EVEN))
    asked(search, 3)
    found = history(
        ended(0, 0.9, uniformity=-1.0),
        ended(1, 0.8, seconds=4000, state="PRUNED"),
        ended(2, 0.5, seconds=3600),
    )
    for trial in found.trials.values():
        search.tell(trial)
    uneven, slow, kept = (trial.constraints for trial in search.study.get_trials())
    assert uneven == {"uniformity <= -1.5": 0.5, "seconds <= 3600": pytest.approx(-3540)}
    assert slow["seconds <= 3600"] == 400
    assert kept["seconds <= 3600"] == 0
    assert [one.number for one in search.study.best_trials] == [2]


SLOW = ("gp", "qmc", "random", "nsgaii", "nsgaiii", "auto")


@pytest.mark.parametrize(
    "kind", ["tpe", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)]
)
def test_samplers_take_objectives_and_constraints(kind) -> None:
    early = {"population": 4} if "nsga" in kind else {"startup_trials": 4}
    sampler = kind if kind in ("qmc", "random", "auto") else {"kind": kind, **early}
    space = {"temperature": {"low": 0.01, "high": 1.0}}
    spec = new_spec(space=space, search={"sampler": sampler, **TWO, **EVEN})
    search = opened(spec)
    for number in range(8):
        (values,) = asked(search, 1)
        score = 1 - abs(values["temperature"] - 0.4)
        told = ended(number, score, seconds=100 + number, uniformity=-number)
        search.tell(*history(told).trials.values())
    assert len({trial.params["temperature"] for trial in search.study.get_trials()}) == 8


def test_infeasible_configurations_are_not_chosen() -> None:
    found = history(ended(0, 0.9, uniformity=-1.0), ended(1, 0.5), ended(2, 0.6, seconds=4000))
    chosen = best_configurations(
        found.configurations().values(), chose=(), constraints=EVEN["constraints"]
    )
    assert numbers(chosen) == [1]
    confirmed = to_confirm(found, top=3, constraints=EVEN["constraints"])
    assert [trial.number for trial in confirmed] == [1]
    assert numbers(best_configurations(found.configurations().values(), chose=())) == [0, 2, 1]
    trials = [
        ended(seed, 0.5, uniformity=each, configuration="c", seed=seed)
        for seed, each in enumerate((-1.8, -1.4, -1.2))
    ]
    for count, best in ((2, [0]), (3, [])):
        several = best_configurations(
            history(*trials[:count]).configurations().values(),
            chose=(),
            constraints=["uniformity <= -1.5"],
        )
        assert numbers(several) == best


def test_an_infeasible_trial_is_marked_while_the_sweep_runs(start, tmp_path) -> None:
    bound = {"trials": 2, "constraints": ["sickr >= 0.3"]}
    drive = start(search=bound)
    for sickr in (0.2, 0.4):
        (plan,) = drive.start()
        drive.report(plan.key, 2, **{"dev/stsb_spearman": 1 - sickr, "dev/sickr_spearman": sickr})
        drive.results.record_end(drive.state.live[plan.key])
    view = SweepProgress(drive.state, errors=tmp_path)
    lines = screen_lines(view)
    assert any(line.split()[:2] == ["0", "infeasible"] for line in lines)
    assert any(line.startswith("best: trial 1") for line in lines)
    first = next(iter(drive.trials))
    constraints = drive.spec.search.constraints
    assert "  infeasible" in trial_line(first, constraints, errors=None)


def test_the_front_is_over_feasible_means(said) -> None:
    trials = [
        ended(0, 0.60, seconds=30),
        ended(1, 0.62, seconds=90),
        ended(2, 0.59, seconds=40),  # worse than the first one in both
        ended(3, 0.70, seconds=20, uniformity=-1.0),  # infeasible
        ended(4, 0.64, seconds=90, configuration="c1", seed=44),
    ]
    spec = new_spec(search=TWO | EVEN)
    assert numbers(pareto_front(history(*trials), spec.search)) == [0, 1]
    lines = said(spec, *trials)
    assert lines[0].startswith("2 on the Pareto front of stsb (maximize), ")
    assert "stsb 63.00, seconds 1 min 30 s, means of 2 seeds (trial 1" in lines[1]
    assert "stsb 60.00, seconds 30 s (trial 0" in lines[2]


def test_the_end_names_a_feasible_configuration_or_says_that_there_is_none(said) -> None:
    spec, infeasible = new_spec(search=EVEN), ended(0, 0.9, uniformity=-1.0)
    (line,) = said(spec, infeasible)
    assert "uniformity <= -1.5 and seconds <= 3600" in line
    line, *_ = said(spec, infeasible, ended(1, 0.5))
    assert line.startswith("best dev stsb: 50.00 at step 2 (trial 1")
    trials = [
        ended(n, 0.5 + n / 10, uniformity=u, configuration="c", seed=n)
        for n, u in enumerate((-1.6, -1.2))
    ]
    (line,) = said(new_spec(search=EVEN), *trials)
    assert line.startswith("no configuration satisfies")


def test_a_trial_that_lacks_what_is_wanted_or_whose_objective_is_no_number_fails(start) -> None:
    for folder, objective, uniformity, told in (
        ("a", "dev/sikcr_spearman", 0.4, "no dev/sikcr_spearman at step 2"),
        ("b", "uniformity", math.nan, "dev/uniformity is nan"),
    ):
        search = {"trials": 1, "objectives": ["stsb", objective]}
        drive = start(search=search, folder=folder)
        (plan,) = drive.start()
        known = {"dev/sickr_spearman": 0.4, "dev/uniformity": uniformity}
        assert drive.report(plan.key, 0, **known) is False
        assert drive.report(plan.key, 2, **known) is (folder == "a")
        drive.results.record_end(drive.state.live[plan.key])
        (trial,) = drive.trials
        assert trial.state == "FAIL" and told in trial.error
        assert ("did you mean 'dev/sickr_spearman'?" in trial.error) is (folder == "a")
        assert drive.study().trials[0].state.name == "FAIL"
