"""Merging: what wins, and what is counted."""

import sqlite3
from datetime import timedelta

import pytest
from sqlalchemy import text
from stored_trials import apply_events, trials_of, url_of

from cse_platform.leaderboard.ingest import merge as merging
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.merge import merge
from cse_platform.leaderboard.store import Store, open_other_store
from cse_platform.leaderboard.trials import dev_curve
from cse_platform.tracking.events import Event


def rows(board: Store, sweep: str = "first") -> list[tuple[int, str, str, float | None]]:
    with board.session() as session:
        return [(r.number, r.key, r.state, r.best_value) for r in trials_of(session, sweep)]


def curve(board: Store, key: str) -> dict[int, float | None]:
    with board.session() as session:
        return {point.step: point.value for point in dev_curve(session, key)}


def test_into_each_kind_of_store_and_back(
    board, filled, sweep_started, trial_life, trial_evaluated, contents, check_counters
) -> None:
    begin = sweep_started(spec={"tags": ["a"]})
    life = trial_life(0, {0: 0.1, 10: 0.5})
    evaluated = trial_evaluated("c0-42", {"test/stsb_spearman": 0.6})
    other = filled([begin, *life, evaluated, *trial_life(1, {0: 0.2}, state="FAIL")])
    with open_other_store(url_of(other)) as source:
        merged = merge(board, source)
    assert (merged.sweeps, merged.trials, merged.new, merged.already_here) == (1, 2, 2, 0)
    assert (merged.points, merged.scores) == (3, 2)
    assert rows(board) == [(0, "c0-42", "COMPLETE", 0.5), (1, "c1-42", "FAIL", 0.2)]
    check_counters(board)
    LeaderboardSink(board).apply("k", list(enumerate(trial_life(2, {0: 0.3}), 1)))
    with open_other_store(url_of(board)) as source:
        merged = merge(other, source)
        assert (merged.new, merged.already_here) == (1, 2)
        assert merge(other, source).new == 0
    assert [len(v) for v in contents(other).values()] == [len(v) for v in contents(board).values()]
    assert rows(other) == rows(board)
    check_counters(other)


@pytest.fixture
def there(filled, sweep_started, trial_life, trial_evaluated) -> Store:
    """A leaderboard with five trials of three dev points each, in two sweeps."""
    events = [sweep_started(), sweep_started("second")]
    for number in range(5):
        sweep = "second" if number == 2 else "first"
        events += trial_life(number, {0: 0.1, 5: 0.2, 10: 0.3 + number / 10}, sweep=sweep)
    return filled([*events, trial_evaluated("c3-42", {"test/stsb_spearman": 0.6})])


@pytest.mark.slow
@pytest.mark.parametrize(("most", "slices"), [(6, [2, 4, 5]), (8, [2, 4, 5]), (1, [1, 2, 3, 4, 5])])
def test_others_can_write_between_slices(
    most, slices, filled, there, contents, monkeypatch
) -> None:
    """Each has as many trials as have so many points together, and at least one."""
    monkeypatch.setattr(merging, "SLICE_ROWS", most)
    undisturbed, here, told = filled([]), filled([]), list[int]()

    def write(done: int, total: int) -> None:
        told.append(done)
        assert total == 5
        other = sqlite3.connect(url_of(here).removeprefix("sqlite:///"), timeout=0)
        other.execute("BEGIN IMMEDIATE")
        other.rollback()
        other.close()

    merge(here, there, progress=write)
    assert told == slices
    monkeypatch.undo()
    merge(undisturbed, there)
    assert contents(here) == contents(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("cut_after", [1, 3, 5])
def test_what_was_cut_off_goes_on(
    cut_after,
    board,
    filled,
    there,
    sweep_started,
    trial_life,
    contents,
    check_counters,
    monkeypatch,
) -> None:
    """A trial of ours has a number of theirs."""
    ours = [sweep_started(), *trial_life(0, {1: 0.5}, configuration="ours")]
    undisturbed = filled(ours)
    merge(undisturbed, there)
    apply_events(board, ours)
    monkeypatch.setattr(merging, "SLICE_ROWS", 1)

    def cut(done: int, _total: int) -> None:
        if done == cut_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(board, there, progress=cut)
    check_counters(board)
    assert len(contents(board)["trials"]) == 1 + cut_after
    assert merge(board, there).new == 5 - cut_after
    check_counters(board)
    assert rows(board) == rows(undisturbed)
    copies = [filled([]), filled([])]  # both on SQLite
    for copy, source in zip(copies, (board, undisturbed), strict=True):
        merge(copy, source)
    assert contents(copies[0]) == contents(copies[1])


def test_complete_wins_with_its_curve(filled, sweep_started, trial_life, check_counters) -> None:
    here = filled([sweep_started(), *trial_life(0, {0: 0.1, 5: 0.2}, state="FAIL")])
    there = filled([sweep_started(), *trial_life(0, {0: 0.1, 10: 0.5})])
    merged = merge(here, there)
    assert (merged.completed, merged.new, merged.points) == (1, 0, 2)
    assert rows(here) == [(0, "c0-42", "COMPLETE", 0.5)]
    assert curve(here, "c0-42") == {0: 0.1, 10: 0.5}
    check_counters(here)
    lost = filled([sweep_started(), *trial_life(0, {0: 0.1, 5: 0.2}, state="FAIL")])
    assert merge(here, lost).newer == 0
    assert rows(here) == [(0, "c0-42", "COMPLETE", 0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
def test_of_two_models_the_first_stands_with_its_scores(
    ours_first, filled, sweep_started, trial_life, trial_evaluated
) -> None:
    def complete(sweep: str, value: float, score: float) -> list[Event]:
        life = trial_life(0, {1: value}, sweep=sweep)
        scored = trial_evaluated("c0-42", {"test/mr_accuracy": score}, sweep=sweep)
        return [sweep_started(sweep), *life, scored]

    first, second = complete("a", 0.5, 0.7), complete("b", 0.4, 0.9)
    here, there = (first, second) if ours_first else (second, first)
    names = ("a", "b") if ours_first else ("b", "a")
    board = filled(here, journal=names[0])
    assert merge(board, filled(there, journal=names[1])).differing == 1
    assert curve(board, "c0-42") == {1: 0.5}
    with board.session() as session:
        told = session.execute(text("SELECT split, value FROM scores ORDER BY split"))
        assert list(told) == [("dev", 0.5), ("test", 0.7)]


@pytest.mark.slow
def test_the_later_start_of_a_sweep_decides(filled, sweep_started, contents) -> None:
    first = sweep_started(spec={"trials": 4, "tags": ["a"]})
    again = first.model_copy(
        update={"time": first.time + timedelta(hours=1), "spec": {"trials": 8, "tags": ["b"]}}
    )
    old, new = filled([first]), filled([again])
    merge(old, new)
    merge(new, filled([first]))
    assert contents(old) == contents(new)
    assert contents(old)["tags"] == ["('first', 'b')"]
    assert len(contents(old)["starts"]) == 2


@pytest.mark.slow
def test_a_journal_goes_on_after_a_merge(board, filled, sweep_started, trial_life) -> None:
    """The numbers that it gives its own next trials have been given to theirs."""
    journal = [sweep_started(), *trial_life(0, {1: 0.1})]
    apply_events(board, journal)
    there = [trial_life(number, {1: 0.5}, configuration=f"d{number}") for number in (0, 1)]
    merge(board, filled([sweep_started(), *(event for life in there for event in life)]))
    places = {"c0-42": 0, "d1-42": 1, "d0-42": 2}
    assert {key: number for number, key, *_ in rows(board)} == places
    journal += [*trial_life(1, {1: 0.2}), *trial_life(2, {1: 0.3}), *trial_life(5, {1: 0.4})]
    for name in ("j", "the same, with its cursor lost"):
        apply_events(board, journal, journal=name)
        places |= {"c1-42": 3, "c2-42": 4, "c5-42": 5}
        assert {key: number for number, key, *_ in rows(board)} == places


@pytest.mark.slow
def test_a_source_that_we_lack_is_filled_in(
    filled, sweep_started, trial_life, trial_evaluated
) -> None:
    def scored(**sources: str | None) -> Store:
        scores = [
            trial_evaluated("c0-42", {"test/mr_accuracy": 0.5}, identity=name, source=source)
            for name, source in sources.items()
        ]
        return filled([sweep_started(), *trial_life(0, {1: 0.5}), *scores])

    here, there = scored(e1="hub", e2=None), scored(e1="senteval", e2="builtin", e3=None, e4="hub")
    merge(here, there)
    with here.session() as session:
        told = session.execute(text("SELECT identity, source FROM evaluations ORDER BY identity"))
        assert list(told) == [("e1", "hub"), ("e2", "builtin"), ("e3", None), ("e4", "hub")]
