"""Rows are estimated by seeds that did not choose them; every number is worked out by hand."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from board_contents import contents
from scored_boards import scored
from stored_trials import apply_events
from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_platform.counting_seeds import find_choosing_trials
from cse_platform.errors import NotFoundError
from cse_platform.export.model_card import model_card
from cse_platform.launch.outcome import add_folder, outcome_lines
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.comparisons import DevPairs
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.ranking import common_seeds
from cse_platform.leaderboard.records import (
    LeaderboardRow,
    estimate,
    mean_change,
    select_counting_trials,
)
from cse_platform.presentation.board import board_document, board_tables
from cse_platform.presentation.board_entries import CHOSEN, Board, Group
from cse_platform.presentation.comparison import comparison_table
from cse_platform.presentation.tables import to_json
from cse_platform.stores.sql.removal import remove_sweep
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import Event, SweepFinished, TrialFinished, TrialState
from cse_platform.tracking.history import History

Seeds = dict[int, float]


def sweep(
    configurations: dict[str, tuple[Seeds, Seeds]],
    name: str = "first",
    number: int = 0,
    **fields: Any,
) -> list[Event]:
    """A sweep; each configuration has the seeds of the search (all after the first are repeats),
    then further ones.
    """
    events: list[Event] = [sweep_started(name, **fields)]
    for configuration, by_role in configurations.items():
        for role, seeds in zip(("search", "confirm"), by_role, strict=True):
            for place, (seed, value) in enumerate(seeds.items()):
                events += trial_life(
                    number, {9: value}, sweep=name, configuration=configuration, seed=seed,
                    role="repeat" if place and role == "search" else role,
                )  # fmt: skip
                number += 1
    return events


TWO = {"a": ({42: 0.80}, {0: 0.76, 1: 0.74}), "b": ({42: 0.70}, {})}


def best(filled, events: Iterable[Event], filters: Filters = EVERY_ROW) -> LeaderboardRow:
    with Leaderboard(filled([*events])) as board:
        [row] = board.rows(filters, ranked=False)
    return row


def test_the_value_that_chose_a_row_is_beside_its_mean_and_not_in_it(filled) -> None:
    for filters in (Filters(), Filters(sweep="first")):
        row = best(filled, sweep(TWO), filters)
        assert (row.seeds, row.n, row.dev_score.mean) == ([0, 1], 2, pytest.approx(0.75))
        assert row.chosen_by == row.dev_score.left_out == {42: 0.80}
        assert not row.counts_choice
        assert (row.best_of, row.trials) == (1, 4)
        assert row.best_trial == "a-42"  # the model with the highest score is still the best one


def test_a_search_s_history_tells_which_trials_chose(filled) -> None:
    with Leaderboard(filled(sweep(TWO))) as board:
        tried = board.search("first").trials
    assert {trial.key: trial.chose for trial in tried} == {
        "a-42": True, "a-0": False, "a-1": False, "b-42": True
    }  # fmt: skip
    of_a = [trial for trial in tried if trial.configuration == "a"]
    assert [trial.seed for trial in select_counting_trials(of_a)] == [0, 1]
    assert select_counting_trials(of_a[:2]) == of_a[:2]  # one further seed is too few


def test_only_what_a_search_chose_is_too_high_and_not_each_trial_that_is_named(filled) -> None:
    def gone(key: str) -> DevPairs:
        raise NotFoundError(key)

    store = filled(sweep({"a": ({42: 0.80}, {0: 0.76}), "b": ({42: 0.70}, {0: 0.72})}))
    with Leaderboard(store) as board:
        rows = board.rows(per_configuration=True, ranked=False)
        chosen = {row.configuration.hash: (row.counts_choice, row.chosen_by) for row in rows}
        named = board.compare_on_dev("first#2", "first#0", gone)
    assert chosen == {"a": (True, {42: 0.80}), "b": (False, {})}
    assert [line[0].mark for line in board_tables(Board(rows))[0].rows] == [CHOSEN, ""]
    assert named.limits.chosen == ("first#0",)
    assert [row.chosen_by for row in named.rows] == [{}, {42: 0.80}]


def test_with_one_further_seed_the_row_says_that_its_value_chose_it(filled) -> None:
    confirming = GRID | {"seeds": {"confirm": {"top": 1, "seeds": [0, 1]}}}
    events = sweep({"a": ({42: 0.80}, {0: 0.76}), "b": ({42: 0.70}, {})}, spec=confirming)
    events += trial_life(7, {0: 0.5}, configuration="a", seed=1, role="confirm", state=None)
    for filters in (Filters(), Filters(sweep="first")):
        row = best(filled, events, filters)
        assert (row.seeds, row.dev_score.mean) == ([0, 42], pytest.approx(0.78))
        assert (row.counts_choice, row.chosen_by) == (True, {42: 0.80})
        assert (row.best_of, row.trials) == (2, 4)  # further seeds, open or not, are no rivals
    [table] = [t for t in board_tables(Board([row])) if "dev" in t.title]
    [line] = table.rows
    cells = {head.name: cell for head, cell in zip(table.heads, line, strict=True)}
    assert cells["method"].mark == CHOSEN == cells["95 % interval"].mark
    assert cells["chosen by"].text == "80.00"
    many = replace(row, chosen_by={seed: 0.8 + seed / 1000 for seed in range(9)})
    [table] = [t for t in board_tables(Board([many])) if "dev" in t.title]
    assert "80.00, 80.10, 7 more" in [cell.text for cell in table.rows[0]]
    assert "Chosen by values that count here: rankcse (best of 2)." in table.notes


@pytest.mark.parametrize(
    ("seeds", "shown"),
    [
        (({42: 0.75, 43: 0.77}, {}), "b"),
        (({42: 0.81, 43: 0.79}, {}), "b"),  # its mean is as high: then names decide
        (({42: 0.81}, {0: 0.75}), "a"),  # a further seed tells more than a single choosing one
    ],
)
def test_a_repeat_of_the_search_does_not_outrank_a_better_single_seed(filled, seeds, shown) -> None:
    events = sweep({"a": seeds, "b": ({42: 0.80}, {})})
    for filters in (Filters(), Filters(sweep="first")):
        assert best(filled, events, filters).configuration.hash == shown


def test_a_single_configuration_was_chosen_by_nothing(filled) -> None:
    row = best(filled, sweep({"a": ({42: 0.80}, {0: 0.76, 1: 0.72})}))
    assert (row.seeds, row.dev_score.mean) == ([0, 1, 42], pytest.approx(0.76))
    assert (row.chosen_by, row.counts_choice, row.best_of) == ({}, False, 1)


GRID = {
    "sweep": "first", "method": "rankcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin", "space": {"tau2": [0.05, 0.1]}, "search": {"sampler": "grid"},
}  # fmt: skip


def test_where_all_configurations_get_the_same_seeds_all_count_and_the_note_says_best_of_n(
    filled,
) -> None:
    """A file that is edited later changes which seeds count."""
    found = {"a": ({42: 0.80}, {0: 0.76}), "b": ({42: 0.70}, {0: 0.69})}
    confirmed = GRID | {"seeds": {"confirm": {"top": 2, "seeds": [0]}}}
    store = filled(sweep(found, spec=confirmed))
    with Leaderboard(store) as board:
        [row] = board.rows(ranked=False)
        assert (row.seeds, row.dev_score.mean) == ([0, 42], pytest.approx(0.78))
        assert (row.chosen_by, row.counts_choice, row.best_of) == ({}, False, 2)
        [table] = [t for t in board_tables(Board([row])) if "dev" in t.title]
        # The expected maximum of two standard normal values is 1 / sqrt(pi).
        assert any(
            "rankcse (best of 2)" in note and "0.6 standard errors" in note for note in table.notes
        )
        pruned = GRID | {"seeds": confirmed["seeds"], "pruner": {"kind": "median"}}
        assert SweepSpec.model_validate(pruned).confirmed == 0
        [one, other] = board.rows(ranked=False, per_configuration=True)
        assert (one.best_of, other.best_of) == (1, 1)
        narrower = GRID | {"seeds": {"confirm": {"top": 1, "seeds": [0]}}}
        apply_events(store, [sweep_started("first", spec=narrower)])
        [row] = board.rows(ranked=False)
        assert (row.counts_choice, row.chosen_by) == (True, {42: 0.80})


def test_a_lowered_budget_does_not_make_the_value_that_chose_count(filled) -> None:
    """Nor does a configuration that a person adds; the driver decides as the leaderboard does."""
    found = {"a": ({42: 0.80}, {0: 0.76, 1: 0.75}), "b": ({42: 0.70}, {})}
    confirm = {"seeds": {"confirm": {"top": 1, "seeds": [0, 1]}}}
    tpe = GRID | {"search": {"sampler": "tpe", "trials": 2, "seed": 0}} | confirm
    events = sweep(found, spec=tpe)
    lowered = tpe | {"search": tpe["search"] | {"trials": 1}}
    again = sweep_started("first", spec=lowered)
    before, after = (best(filled, past) for past in (events, [*events, again]))
    assert (before.chosen_by, before.dev_score.mean) == ({42: 0.80}, pytest.approx(0.755))
    assert (after.chosen_by, after.dev_score) == (before.chosen_by, before.dev_score)
    assert not History([*events, again]).confirms_all
    both = tpe | {"seeds": {"confirm": {"top": 2, "seeds": [0, 1]}}}
    whole = {"a": found["a"], "b": ({42: 0.70}, {0: 0.69, 1: 0.68})}
    assert best(filled, sweep(whole, spec=both)).chosen_by == {}
    added = [*sweep(whole, spec=both), *trial_life(9, {9: 0.6}, configuration="c", seed=42)]
    assert best(filled, added).chosen_by == {42: 0.80}
    assert not History(added).confirms_all


def test_a_confirmed_configuration_that_is_overtaken_still_names_its_left_out_value(filled) -> None:
    """The values of the two change places at 0.80: one was confirmed, the other one is higher."""
    found = {"a": ({42: 0.80}, {0: 0.70, 1: 0.72}), "b": ({42: 0.85}, {0: 0.84, 1: 0.83})}
    with Leaderboard(filled(sweep(found))) as board:
        rows = board.rows(per_configuration=True, ranked=False)
    assert {row.configuration.hash: (row.n, row.chosen_by) for row in rows} == {
        "b": (2, {42: 0.85}), "a": (2, {42: 0.80})
    }  # fmt: skip


def test_code_that_is_unknown_or_has_failed_is_no_other_code(filled) -> None:
    """Neither a trial without a hash nor the trials before it count as of another code."""

    def of(
        code: str | None, configuration: str, number: int, state: TrialState = "COMPLETE"
    ) -> list[Event]:
        life = trial_life(number, {9: 0.5}, configuration=configuration, seed=1, state=state)
        started, *rest = life
        return [started.model_copy(update={"code": code}), *rest]

    def told(*trials: list[Event]) -> dict[str, bool]:
        events = [sweep_started("first"), *(event for life in trials for event in life)]
        with Leaderboard(filled(events)) as board:
            rows = board.rows(per_configuration=True, ranked=False)
        return {row.configuration.hash: row.other_code for row in rows}

    assert told(of("x", "a", 0), of(None, "b", 1)) == {"a": False, "b": False}
    assert told(of("x", "a", 0), of("y", "b", 1)) == {"a": True, "b": False}
    assert told(of("x", "a", 0), of("y", "b", 1, "FAIL")) == {"a": False}
    assert told(of("x", "a", 0), of("y", "b", 1), of(None, "c", 2)) == {
        "a": True, "b": False, "c": False
    }  # fmt: skip


def test_what_to_type_next_works_without_a_path(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for program, typed in {
        ".venv/bin/cse-sweep": ".venv/bin/mlflow ui",
        "/lab/script.py": "mlflow ui",  # which has no programs of ours beside it
    }.items():
        monkeypatch.setattr("sys.argv", [program])
        assert add_folder("mlflow ui") == typed


def test_what_to_export_is_a_model_of_the_row_whose_scores_stand_above(filled) -> None:
    """The configuration with the highest value is not the best one over further seeds."""
    found = {"a": ({42: 0.80}, {0: 0.70, 1: 0.70}), "b": ({42: 0.75}, {0: 0.72, 1: 0.72})}
    for highest, named in ((0.80, "rankcse@b"), (0.60, "first")):
        found["a"][0][42] = highest
        ended = [
            event.model_copy(update={"model": f"/models/{event.trial}"})
            if isinstance(event, TrialFinished)
            else event
            for event in [*sweep(found), SweepFinished(sweep="first", state="COMPLETE")]
        ]
        with Leaderboard(filled(ended)) as board:
            lines = outcome_lines(board, "first")
        assert any(f"cse-leaderboard export {named} DIR" in line for line in lines)


def test_several_values_that_chose_do_not_count(filled) -> None:
    """Configurations of one method that further seeds estimate have names of their own."""
    found = {"a": ({42: 0.80, 43: 0.79}, {0: 0.76, 1: 0.74}), "b": ({42: 0.70}, {0: 0.6, 1: 0.6})}
    with Leaderboard(filled(sweep(found))) as board:
        lines = outcome_lines(board, "first")
        rows = board.rows(ranked=False, per_configuration=True)
        card = model_card(board.trial("first#0"), pooler="cls")
    assert any("by seed 42 80.00, seed 43 79.00, which do not count" in line for line in lines)
    assert "chosen by 80.00, 79.00, which do not count here" in card
    shown = [replace(row, best_of=2) for row in rows]
    [table] = [t for t in board_tables(Board(shown)) if "dev" in t.title]
    named = "rankcse@a (best of 2), rankcse@b (best of 2). If 2"
    assert any(f"seeds that count: {named}" in note for note in table.notes)
    [table] = [t for t in board_tables(Board([shown[0]] * 2)) if "dev" in t.title]
    assert any("seeds that count: rankcse@a (best of 2). If 2" in note for note in table.notes)


def test_further_seeds_take_precedence_over_values_that_chose(filled) -> None:
    found = {
        "lucky": ({42: 0.99}, {0: 0.80}),
        "known": ({42: 0.79}, {0: 0.78, 1: 0.78}),
        "other": ({42: 0.78}, {0: 0.77, 1: 0.77}),
    }
    for filters in (Filters(), Filters(sweep="first")):
        row = best(filled, sweep(found), filters)
        assert (row.configuration.hash, row.best_of) == ("known", 2)


def test_a_seed_that_confirms_in_one_sweep_can_choose_in_another(filled) -> None:
    again = sweep({"a": ({0: 0.76}, {}), "c": ({0: 0.1}, {})}, "second")
    row = best(filled, [*sweep(TWO), *again])
    assert row.chosen_by == {0: 0.76, 42: 0.80}
    assert row.seeds == [0, 1, 42]  # one seed alone did not choose it


def test_a_test_score_counts_the_same_seeds_as_dev(filled) -> None:
    scores = {"a-42": 0.9, "a-0": 0.7, "a-1": 0.6}
    tested = [
        trial_evaluated(trial, {"test/stsb_spearman": value}) for trial, value in scores.items()
    ]
    score = best(filled, [*sweep(TWO), *tested]).scores["stsb"]
    assert (score.mean, score.left_out, score.counts_choice) == (
        pytest.approx(0.65), {42: 0.9}, False,
    )  # fmt: skip
    only = best(filled, [*sweep(TWO), tested[0]])
    assert (only.scores["stsb"].values, only.scores["stsb"].counts_choice) == ({42: 0.9}, True)
    assert only.counts_choice and not only.dev_score.counts_choice
    [table] = [t for t in board_tables(Board([only])) if "Ranking" in t.title]
    assert any("further seeds of rankcse lack test scores" in note for note in table.notes)
    assert any("two further seeds in the row give an honest" in note for note in table.notes)


def test_a_sweep_says_as_its_row_which_seeds_a_test_score_is_over(filled) -> None:
    """A row has the seeds 0 and 1; with seed 42, which chose it, there are three."""
    of_choice = {"test/stsb_spearman": 0.9, "test/sts12_spearman": 0.8}
    chosen = trial_evaluated("a-42", of_choice)
    further = [
        trial_evaluated(f"a-{seed}", {"test/stsb_spearman": value})
        for seed, value in enumerate((0.7, 0.5))
    ]
    note = "built-in data, △ the seed that chose it counts: cse-evaluate scores the others"
    expected = {
        "none of them": (
            [chosen],
            [f"sts12 80.00, stsb 90.00 (1 of 3 seeds, {note})"],
            {"sts12": "1 of 3", "stsb": "1 of 3"},
        ),
        "one task of two": (
            [chosen, *further],
            [f"sts12 80.00 (1 of 3 seeds, {note})", f"stsb 70.00 ±20.00 ({note} on sts12)"],
            {"sts12": "1 of 3", "stsb": "3"},
        ),
        "one seed of two": (
            further[:1], ["stsb 70.00 (1 of 2 seeds, built-in data)"], {"stsb": "1 of 2"},
        ),
        "both": (further, ["stsb 60.00 ±14.14 (built-in data)"], {"stsb": "2"}),
    }  # fmt: skip
    for scored_are, (tested, lines, counts) in expected.items():
        with Leaderboard(filled([*sweep(TWO), *tested])) as board:
            shown = [line for line in outcome_lines(board, "first") if line.startswith("test ")]
            [entry] = Group(Board(board.rows(ranked=False)).entries).ours
        assert shown == [f"test {line}" for line in lines], scored_are
        assert {name: entry.count_seeds(name) for name in entry.row.scores} == counts, scored_are


def test_the_mark_of_a_search_without_further_seeds_stands_beside_its_test_scores(filled) -> None:
    tested = trial_evaluated("a-42", {"test/stsb_spearman": 0.9})
    events = sweep({"a": ({42: 0.8}, {}), "b": ({42: 0.7}, {})})
    with Leaderboard(filled([*events, tested])) as board:
        lines = outcome_lines(board, "first")
    assert "test stsb 90.00 (built-in data, △ the seed that chose it counts)" in lines


def test_tasks_of_a_family_count_the_same_seeds(filled) -> None:
    """The further seeds lack sts12, so all seeds count; a change is that of seeds with both."""
    scores = {
        "a-42": {"test/stsb_spearman": 0.9, "test/sts12_spearman": 0.8},
        "a-0": {"test/stsb_spearman": 0.7},
        "a-1": {"test/stsb_spearman": 0.5},
    }
    tested = [trial_evaluated(trial, values) for trial, values in scores.items()]
    row = best(filled, [*sweep(TWO), *tested])
    assert row.scores["stsb"].values == {0: 0.7, 1: 0.5, 42: 0.9}
    assert row.scores["sts12"].values == {42: 0.8}
    assert common_seeds(row, ["stsb", "sts12"]) == [42]
    [table] = [t for t in board_tables(Board([row])) if "Ranking" in t.title]
    assert any("seeds of rankcse lack scores on sts12, so" in note for note in table.notes)
    clean = estimate({42: 0.85, 1: 0.4}, "", "", [1], [42])
    assert mean_change(clean, row.scores["stsb"]) == pytest.approx(0.4 - 0.5)
    assert mean_change(clean, row.scores["sts12"]) == pytest.approx(0.85 - 0.8)


@pytest.mark.parametrize(("others", "said"), [({"b": ({42: 0.7}, {})}, 1), ({}, 0)])
def test_a_search_chooses_among_configurations_that_have_a_value(filled, others, said) -> None:
    events = sweep({"a": ({42: 0.8}, {}), **others})
    events += trial_life(7, {0: 0.5}, configuration="c", seed=42, state="FAIL")
    events.append(SweepFinished(sweep="first", state="COMPLETE"))
    with Leaderboard(filled(events)) as board:
        lines = outcome_lines(board, "first")
    assert sum("chose it among 2 configurations" in line for line in lines) == said
    assert sum("chose it" in line for line in lines) == said


def explain_choice(filled, *events: Event, name: str = "first") -> str:
    """What a complete sweep says of the value that chose its best."""
    with Leaderboard(filled([*events, SweepFinished(sweep=name, state="COMPLETE")])) as board:
        [line] = [line for line in outcome_lines(board, name) if "counts here" in line]
    return line.partition("too high; two further seeds ")[2]


def test_seeds_are_advised_that_the_best_has_not_run_in_any_sweep(filled) -> None:
    """Otherwise they give it no further seed, and a worse configuration gets some."""
    advice = "give an honest estimate: seeds: "
    alone = {"a": ({0: 0.80}, {}), "b": ({0: 0.70}, {})}
    searched = GRID | {"seeds": {"search": 0, "repeats": False, "confirm": None}}
    said = explain_choice(filled, *sweep(alone, spec=searched))
    assert said == advice + "{search: 0, confirm: {top: 1, seeds: [1, 2]}}"

    confirm = {"top": 1, "seeds": [0, 1, 2], "race": True}
    confirming = GRID | {"seeds": {"search": 42, "repeats": False, "confirm": confirm}}
    found = {"a": ({42: 0.80}, {0: 0.76, 1: 0.74, 2: 0.75}), "b": ({42: 0.70}, {})}
    others = [
        event
        for seed in (0, 1, 2)
        for event in sweep({"a": ({seed: 0.75}, {}), "b": ({seed: 0.6}, {})}, f"other-{seed}")
    ]
    said = explain_choice(filled, *others, *sweep(found, spec=confirming))
    all_seeds = "{search: 42, confirm: {top: 1, seeds: [0, 1, 2, 3, 4], race: true}}"
    assert said == advice + all_seeds

    one = sweep({"a": ({42: 0.80}, {0: 0.76}), "b": ({42: 0.70}, {})}, spec=confirming)
    for seed in (1, 2, 4):  # failed; the last one is not of this file
        of = {"configuration": "a", "seed": seed, "role": "confirm", "state": "FAIL"}
        one += trial_life(seed + 7, {0: 0.5}, **of)
    assert "seeds: [0, 1, 2, 3, 5], race" in explain_choice(filled, *one)


@pytest.mark.parametrize("source", ["recorded", "imported"])
def test_a_recorded_sweep_says_too_that_the_value_that_chose_counts(filled, source) -> None:
    """It has no file; a sweep of one configuration chooses nothing, so its seeds are honest."""
    found: dict[str, tuple[Seeds, Seeds]] = {
        "a": ({0: 0.5, 1: 0.51, 2: 0.53}, {}), "b": ({0: 0.3, 1: 0.4, 2: 0.5}, {})
    }  # fmt: skip
    said = explain_choice(filled, *sweep(found, spec={"source": source}))
    assert said == "of it in a sweep of their own give an honest estimate"
    again = sweep({"c": ({3: 0.5, 4: 0.51}, {})}, spec={"source": source})
    assert not best(filled, again).counts_choice


def test_a_limit_keeps_what_further_seeds_estimate(filled) -> None:
    """A lucky value of the search is higher than the mean over seeds that did not choose."""
    lucky: dict[str, tuple[Seeds, Seeds]] = {
        "a": ({42: 0.80}, {0: 0.70, 1: 0.70}), "b": ({42: 0.78}, {}), "c": ({42: 0.79}, {})
    }  # fmt: skip
    with Leaderboard(filled(sweep(lucky))) as board:
        for filters in (EVERY_ROW, Filters(sweep="first")):
            for limit, expected in {1: ["a"], 2: ["c", "a"], 3: ["c", "b", "a"]}.items():
                rows = board.rows(filters, per_configuration=True, limit=limit, ranked=False)
                assert [row.configuration.hash for row in rows] == expected


def test_what_nothing_chose_is_the_best_of_nothing(filled) -> None:
    """A fixed configuration of which further seeds still run, or have failed."""
    events = sweep({"a": ({42: 0.80}, {})})
    events += trial_life(1, {0: 0.5}, configuration="a", seed=0, role="confirm", state=None)
    events += trial_life(2, {0: 0.5}, configuration="a", seed=1, role="confirm", state="FAIL")
    row = best(filled, events)
    assert (row.n, row.trials, row.best_of, row.chosen_by) == (1, 3, 1, {})


def test_comparisons_cards_and_files_say_it_too(filled) -> None:
    tested = [scored(key, noise=1.0, seed=n) for n, key in enumerate(("a-42", "a-0", "a-1"))]
    other = [*trial_life(9, {9: 0.5}, sweep="other", method="simcse", configuration="s", seed=1)]
    other.insert(0, sweep_started("other", method="simcse"))
    store = filled([*sweep(TWO), *tested, *other, scored("s-1", noise=2.0)])
    with Leaderboard(store) as board:
        comparison = board.compare("rankcse", "simcse")
        average = comparison.average
        assert average is not None and (average.n_a, average.n_b) == (2, 1)
        assert any(
            "seeds 0 1; chosen by 80.00" in note for note in comparison_table(comparison).notes
        )
        card = model_card(board.trial("first#0"), pooler="cls")
        by_value = board.compare("first#0", "simcse")
        rows = board.rows(Filters(method="rankcse"))
    assert "\n\n## Provenance\n" in card
    assert "over the seeds 0, 1 of these settings: 75.00 ± 1.41." in card
    assert "chosen by 80.00, which does not count" in card
    assert by_value.limits.chosen == ("first#0",)
    [record] = json.loads(to_json(board_document(Board(rows)).record()))
    assert (record["seeds"], record["chosen_by"]) == ([0, 1], {"42": 0.8})
    assert (record["counts_choice"], record["best_of"]) == (False, 1)


def test_the_order_in_which_trials_arrive_does_not_matter(filled) -> None:
    """Trials that choose may be stored before those that make it a choice, or after them."""
    whole = sweep({"a": ({42: 0.8}, {0: 0.7, 1: 0.6}), "b": ({42: 0.5}, {})})
    second = sweep({"a": ({0: 0.7}, {}), "b": ({0: 0.4}, {})}, "second")
    alone = contents(filled(whole))["configurations"]
    expected = contents(filled([*whole, *second]))["configurations"]
    for size in (1, 5):  # events a transaction
        store = filled([])
        for start in range(0, len(whole), size):
            apply_events(store, whole[start : start + size], journal="j")
        assert contents(store)["configurations"] == alone
        apply_events(store, second, journal="k")
        assert contents(store)["configurations"] == expected


@pytest.mark.parametrize("state", ["COMPLETE", "PRUNED"])
def test_a_trial_chooses_nothing_until_it_has_a_value(filled, state) -> None:
    events = sweep({"a": ({42: 0.8, 0: 0.7, 1: 0.6}, {})})
    events += trial_life(7, {}, configuration="b", state="FAIL")
    events += trial_life(8, {9: 0.5}, configuration="c", state=None)
    row = best(filled, events)
    assert (row.counts_choice, row.chosen_by, row.best_of) == (False, {}, 1)
    [end] = trial_life(8, {9: 0.5}, configuration="c", state=state)[-1:]
    row = best(filled, [*events, end])
    assert (row.counts_choice, max(row.chosen_by.values())) == (True, 0.8)
    store = filled([])
    for one in (events, [end]):
        apply_events(store, one)
    assert contents(store)["configurations"] == contents(filled([*events, end]))["configurations"]


def test_without_the_sweep_that_chose_the_value_counts_again(filled) -> None:
    store = filled(sweep({"a": ({42: 0.8}, {0: 0.7, 1: 0.6})}))
    before = contents(store)["configurations"]
    apply_events(store, sweep({"a": ({42: 0.8}, {}), "b": ({42: 0.5}, {})}, "second"), journal="k")
    assert contents(store)["configurations"] != before
    with store.writing() as session:
        remove_sweep(session, "second", "k")
    assert contents(store)["configurations"] == before


def test_repeats_of_a_search_choose_as_its_trials_do(filled) -> None:
    events = sweep({"a": ({42: 0.8}, {}), "b": ({42: 0.5}, {})})
    events += trial_life(7, {9: 0.7}, configuration="a", seed=0, role="repeat")
    row = best(filled, events)
    assert (row.chosen_by, row.counts_choice, row.best_of) == ({0: 0.7, 42: 0.8}, True, 3)


def test_the_driver_decides_as_the_leaderboard_does() -> None:
    class Trial:
        def __init__(
            self, key: str, role: str, configuration: str, state: str = "COMPLETE"
        ) -> None:
            self.key, self.role, self.configuration = key, role, configuration
            self.state = state

    searched = [Trial("1", "search", "a"), Trial("2", "confirm", "a"), Trial("3", "repeat", "a")]
    several = [*searched, Trial("4", "search", "b")]
    assert find_choosing_trials(searched, confirms_all=False) == set()
    failed = Trial("5", "search", "c", "FAIL")
    assert find_choosing_trials([*searched, failed], confirms_all=False) == set()
    assert find_choosing_trials(several, confirms_all=False) == {"1", "3", "4"}
    assert find_choosing_trials(several, confirms_all=True) == set()


def test_the_row_that_a_board_shows_says_among_all_rows_too_what_chose_it(filled) -> None:
    """Its further seeds chose it, although another configuration has the highest value."""
    events = sweep({"a": ({42: 0.80}, {0: 0.76, 1: 0.74}), "b": ({42: 0.81}, {0: 0.70, 1: 0.71})})
    with Leaderboard(filled([*events, *sweep({"c": ({42: 0.60}, {})}, number=9)[1:]])) as board:
        by_name = {row.configuration.hash: row for row in board.rows(per_configuration=True)}
        [shown] = board.rows()
    assert shown.chosen_by == by_name["a"].chosen_by == {42: 0.80}
    assert (by_name["b"].chosen_by, by_name["c"].chosen_by) == ({42: 0.81}, {})
