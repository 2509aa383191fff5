from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.search.findings import search_findings
from cse_platform.tracking.events import Event

TRIALS = 41
SPACE = {
    "rank_loss": ["listnet", "listmle"],
    "tau3": {"choices": [0.1, 0.2], "when": {"rank_loss": "listnet"}},
}


def value_of(number: int) -> float:
    """A permutation: the best are spread over the search."""
    return 0.5 + (number * 17 % TRIALS) / 100


def long_search() -> list[Event]:
    """Every fifth trial is pruned, with the highest values of all."""
    told: list[Event] = [sweep_started()]
    for number in range(TRIALS):
        pruned = number % 5 == 0
        value = 0.99 if pruned else value_of(number)
        told += trial_life(number, {1: value}, state="PRUNED" if pruned else "COMPLETE")
    return told


def test_the_best_half_and_an_even_sample_stand_for_all_in_statistics_too(board) -> None:
    apply_events(board, long_search())
    reader = Leaderboard(board)
    complete = [number for number in range(TRIALS) if number % 5]
    for limit in (2, 3, 30):
        found = reader.search("first", limit=limit)
        numbers = [trial.number for trial in found.trials]
        best = sorted(complete, key=value_of)[-(limit // 2) :]
        assert (len(numbers), found.total, found.is_sample) == (limit, TRIALS, True)
        assert numbers == sorted(numbers) and set(best) <= set(numbers)
        rest = [number for number in range(TRIALS) if number not in best]
        places = [rest.index(number) for number in numbers if number not in best]
        gaps = np.diff([-1, *places])  # the last one is always there
        assert places[-1] == len(rest) - 1 and gaps.max() - gaps.min() <= 1, places
        assert sum(trial.weight for trial in found.trials) == pytest.approx(TRIALS)
        assert {trial.number for trial in found.trials if trial.weight == 1} == {*best}
        assert len({trial.weight for trial in found.trials}) == 2
        assert found == reader.search("first", limit=limit)
    whole = reader.search("first", limit=TRIALS)
    assert (len(whole.trials), whole.is_sample) == (TRIALS, False)
    assert {trial.weight for trial in reader.search("first").trials} == {1}
    whole = asdict(search_findings(reader.search("first", limit=TRIALS)))
    found = asdict(search_findings(reader.search("first", limit=12)))
    for told in ("importances", "borders"):
        del whole[told], found[told]
    assert found == whole
    assert (found["trials"], len(found["best_so_far"])) == (TRIALS, 4)


def test_where_too_few_are_complete_the_others_fill_up(board) -> None:
    lives = [trial_life(n, {1: 0.5}, state="PRUNED" if n else "COMPLETE") for n in range(12)]
    apply_events(board, [sweep_started(), *(event for life in lives for event in life)])
    found = Leaderboard(board).search("first", limit=8)
    assert len(found.trials) == 8 and found.trials[0].state == "COMPLETE"


def test_settings_that_took_no_part_are_left_out(board) -> None:
    """What was searched says the sweep that is asked about, not the one that came first."""
    values = [{"rank_loss": loss, "tau3": 0.1, "tau2": 0.5} for loss in ("listnet", "listmle")]
    lives = [
        event
        for number, one in enumerate(values)
        for event in trial_life(number, {1: 0.5}, values=one, searched=("tau2",))
    ]
    apply_events(board, [sweep_started(spec={"space": SPACE, "dev": {"search": "sickr"}}), *lives])
    found = Leaderboard(board).search("first")
    assert [trial.searched_values for trial in found.trials] == [
        {"rank_loss": "listnet", "tau3": 0.1},
        {"rank_loss": "listmle"},
    ]
    assert (list(found.space), found.dev) == (["rank_loss", "tau3"], "sickr")


def test_a_file_that_says_nothing_or_is_of_another_version(board) -> None:
    dev: list[Any] = ["sickr", ["sickr"], {"search": 3}, None]
    specs = [
        {},
        {"source": "imported", "dev": {"search": "stsb"}},
        {"space": {"tau2": {"kind": "of another version"}}},
        *({"dev": one} for one in dev),
    ]
    reader = Leaderboard(board)
    for number, spec in enumerate(specs):
        name = f"s{number}"
        life = trial_life(number, {1: 0.5}, sweep=name)
        apply_events(board, [sweep_started(name, spec=spec), *life], journal=name)
        found = reader.search(name)
        assert (len(found.space), found.dev) == (0, "stsb")
        assert found.trials[0].searched_values == {"tau2": 0.025, "rank_loss": "listnet"}
    assert {(one.planned, one.dev, one.left) for one in reader.sweeps()} == {(1, "stsb", None)}


def test_further_seeds_and_open_ends(board) -> None:
    first = trial_life(0, {1: 0.5, 2: 0.6})
    seed = trial_life(1, {1: 0.7}, configuration="c0", seed=0, role="confirm", search_number=None)
    apply_events(board, [sweep_started(), *first, *seed, *trial_life(2, {1: 0.8}, state=None)])
    a, b, c = Leaderboard(board).search("first").trials
    assert (a.role, a.seed, a.best_value, a.best_step, a.configuration) == (
        "search",
        42,
        0.6,
        2,
        "c0",
    )
    assert (b.role, b.seed, b.best_value, b.configuration) == ("confirm", 0, 0.7, "c0")
    assert (c.state, c.best_value, c.finished) == ("RUNNING", None, None)
    assert a.finished is not None and a.finished >= a.started


def test_dev_curves_by_seed(reader) -> None:
    [row] = reader.rows(Filters(method="hicl"), ranked=False)
    curves = reader.dev_curves(row)
    assert list(curves) == [0, 1, 2]
    for seed, curve in curves.items():
        assert [(point.step, point.value) for point in curve] == [(0, 0.5), (9, 0.7 + 0.01 * seed)]
        assert curve == list(reader.trial(row.keys[seed]).curve)


def test_a_board_without_ranks_is_the_same_and_can_be_cut(reader) -> None:
    whole, quick = reader.rows(), reader.rows(ranked=False)
    assert [row.method for row in quick] == [row.method for row in whole]
    for told, row in zip(whole, quick, strict=True):
        assert (row.headline, row.rank, row.gap) == (told.headline, None, told.gap)
        assert row.scores["avg_sts"].mean == told.scores["avg_sts"].mean
        assert (row.scores["avg_sts"].interval is None) == (row.n == 1)
    for filters in (Filters(), Filters(identity="dev"), Filters(identity="cls-real-mean")):
        whole = reader.rows(filters, per_configuration=True, ranked=False, sort="dev")
        assert len(whole) == 3
        for limit in (1, 2, 9):
            cut = reader.rows(
                filters, per_configuration=True, ranked=False, sort="dev", limit=limit
            )
            assert cut == whole[:limit]


def test_the_kept_checkpoint_is_marked_on_its_curve(board) -> None:
    """It is not the highest of what the search climbs: another dev set may choose it."""
    key = "a" * 64
    *life, end = trial_life(0, {0: 0.9, 5: 0.5, 9: 0.6}, trial=key)
    apply_events(board, [sweep_started(), *life, end.model_copy(update={"best_step": 5})])
    curve = list(Leaderboard(board).trial(key).curve)
    assert [point.step for point in curve if point.kept] == [5]
