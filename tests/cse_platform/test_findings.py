import random
import re
from dataclasses import replace
from typing import Any

import pytest
from commands import invoke
from searches import history_of, searched
from stored_trials import fill_store
from sweep_events import sweep_started, trial_life

from cse_platform.cli.leaderboard import main
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.statistics.searches import LEAST_SEARCHED
from cse_platform.search.findings import (
    SearchFindings,
    format_findings,
    replay_study,
    search_findings,
)

SPACE = {
    "rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "layers": {"low": 1, "high": 12},
    "tau2": [0.1, 0.05, 0.2],
    "tau3": {"choices": [1.0, 2.0], "when": {"tau2": 0.2}},
    "pooler": ["cls", "mask", "avg"],
}


def trials_of(count: int, *, by: str = "rate") -> list[Trial]:
    """The higher `by`, the better; values of the others mean nothing."""
    rng, told = random.Random(0), []
    for number in range(count):
        share = (number * 7 % count) / count
        values: dict[str, Any] = {
            "rate": 10 ** (-5 + 2 * (share if by == "rate" else rng.random())),
            "layers": rng.randint(1, 12),
            "tau2": [0.05, 0.1, 0.2][int(3 * (share if by == "tau2" else rng.random()))],
            "pooler": rng.choice(["cls", "mask", "avg"]),
        }
        if values["tau2"] == 0.2:
            values["tau3"] = rng.choice([1.0, 2.0])
        told.append(searched(number, values, value=0.5 + share / 10))
    return told


def found_in(trials: list[Trial]) -> SearchFindings:
    return search_findings(history_of(trials, SPACE))


def test_the_best_against_the_number_of_trials_and_of_fewer() -> None:
    trials = trials_of(40)
    pruned = searched(40, trials[0].searched_values, state="PRUNED", value=0.3)
    failed = searched(41, trials[0].searched_values, state="FAIL", value=None)
    found = found_in([*trials, pruned, failed])
    assert found.trials == 41
    assert found.best == max(one.best_value or 0 for one in trials)
    reached = found.best_so_far
    assert (reached[0].trials, reached[0].value) == (1, trials[0].best_value)
    assert reached[-1].value == found.best
    assert [one.trials for one in found.expected] == list(range(1, 21))
    assert found.expected[0].mean == pytest.approx(
        (sum(one.best_value or 0 for one in trials) + 0.3) / 41
    )
    for count in (20, 60):
        first = format_findings(found_in(trials_of(count)))[0]
        told = [int(n) for n in re.findall(r"(?:of|,) (\d+) [\d.]+ \[", first)]
        shares = zip(told, (count // 8, count // 4), strict=True)
        assert all(share - 2 <= n <= share for n, share in shares), count


def test_luck_is_told_from_seeds_that_did_not_choose_the_best() -> None:
    trials = trials_of(20)
    found = found_in(trials)
    assert found.curse is None
    assert any("not known which seeds chose it" in line for line in format_findings(found))
    searched_by_tpe = format_findings(replace(found, sampler="tpe"))
    assert any("it has no further seeds (seeds: " in line for line in searched_by_tpe)
    best, second = sorted(trials, key=lambda one: -(one.best_value or 0))[:2]
    told = [(best, "confirm", 0.57), (best, "confirm", 0.58), (best, "repeat", 0.99)]
    further = []
    for place, (first, role, value) in enumerate([*told, (second, "confirm", 0.5)]):
        same = {"configuration": first.configuration, "seed": place}
        further.append(searched(20 + place, first.searched_values, role=role, value=value, **same))
    found = found_in([*trials, *further])
    curse = found.curse
    assert (curse.best, curse.fresh) == (best.best_value, pytest.approx(0.575))
    assert curse.seeds == 2
    told = format_findings(found)
    assert any(line.startswith("luck in the best: 2.00") for line in told)


def test_what_decides_has_its_uncertainty() -> None:
    few, many = (found_in(trials_of(count)).importances for count in (12, 80))
    assert few[0].name == many[0].name == "rate"
    for found in (few, many):
        assert {one.name for one in found} == set(SPACE)  # the conditional one, too
        assert sum(one.value for one in found) == pytest.approx(1)
        assert all(0 <= one.low <= one.high <= 1 for one in found)
    assert many[0].high - many[0].low < few[0].high - few[0].low
    assert many[0].low > 0.5


def test_the_bound_to_move_is_named() -> None:
    for by, bound, words in (
        ("rate", 1e-3, "in the outer tenth at high=0.001; move high up"),
        ("tau2", 0.2, "at 0.2; add a choice above"),
    ):
        found = found_in(trials_of(40, by=by))
        (border,) = [one for one in found.borders if one.name == by]
        assert (border.side, border.bound) == ("high", bound)
        assert "pooler" not in {one.name for one in found.borders}  # it has no order
        assert any(words in line for line in format_findings(found)), by


def test_a_sampler_that_learns_has_no_expected_best_of_its_own() -> None:
    history = history_of(trials_of(20), SPACE)
    for sampler, independent in (("random", True), ("tpe", False)):
        found = search_findings(replace(history, sampler=sampler))
        assert found is not None and found.independent == independent
        assert ("in any order" in format_findings(found)[0]) is not independent


def test_the_same_importances_as_optuna_gives() -> None:
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    history = history_of(trials_of(60), SPACE)
    theirs = get_param_importances(replay_study(history), evaluator=PedAnovaImportanceEvaluator())
    found = search_findings(history)
    assert {one.name: one.value for one in found.importances} == pytest.approx(theirs)


def test_too_few_trials_are_told(tmp_path, empty_leaderboard) -> None:
    events = [sweep_started(), *trial_life(0, {0: 0.3, 50: 0.5})]
    fill_store(empty_leaderboard(tmp_path / "leaderboard.db"), events)
    short = invoke(main, "search", "first", "--runs", tmp_path, code=1)
    assert f"fewer than {LEAST_SEARCHED} search trials" in short.stderr
