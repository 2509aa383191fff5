"""Merging: what wins, what is counted, and what is refused."""

import pytest
from sqlalchemy import text
from stored_trials import apply_events, trials_of, url_of

from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.ingest import merge as merging
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.merge import merge
from cse_platform.leaderboard.store import Store, open_other_store
from cse_platform.leaderboard.trials import dev_curve
from cse_platform.runner.models import TRIAL_FILE, may_hold_model


def rows(board: Store, sweep: str = "first") -> list[tuple[int, str, str, float | None]]:
    with board.session() as session:
        return [(r.number, r.key, r.state, r.best_value) for r in trials_of(session, sweep)]


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


@pytest.mark.slow
def test_what_was_cut_off_goes_on(
    board, filled, sweep_started, trial_life, contents, check_counters, monkeypatch
) -> None:
    """A trial of ours has a number of theirs."""
    lives = [trial_life(number, {0: 0.1, 5: 0.2 + number / 10}) for number in range(5)]
    there = filled([sweep_started(), *(event for life in lives for event in life)])
    ours = [sweep_started(), *trial_life(0, {1: 0.5}, configuration="ours")]
    undisturbed = filled(ours)
    merge(undisturbed, there)
    apply_events(board, ours)
    monkeypatch.setattr(merging, "SLICE_ROWS", 1)

    def cut(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(board, there, progress=cut)
    check_counters(board)
    assert len(contents(board)["trials"]) == 1 + 3
    assert merge(board, there).new == 2
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
    with here.session() as session:
        points = dev_curve(session, "c0-42")
    assert {point.step: point.value for point in points} == {0: 0.1, 10: 0.5}
    check_counters(here)
    lost = filled([sweep_started(), *trial_life(0, {0: 0.1, 5: 0.2}, state="FAIL")])
    assert merge(here, lost).newer == 0
    assert rows(here) == [(0, "c0-42", "COMPLETE", 0.5)]


def test_sweeps_that_share_a_name_are_refused_all_at_once(
    filled, sweep_started, trial_life, contents
) -> None:
    spec = {"space": {"tau2": [0.1, 0.2]}, "search": {"sampler": "tpe", "seed": 42}}
    changed = {"space": {"tau2": [0.1]}, "search": {"sampler": "tpe", "seed": 7}, "sweep": "first"}
    here = filled([sweep_started(spec=spec), sweep_started("second", spec=spec)])
    there = filled(
        [
            sweep_started(spec=changed),
            *trial_life(0, {1: 0.5}),
            sweep_started("second", backbone="bert-base", spec=spec),
            sweep_started("third", spec=spec),
        ]
    )
    before = contents(here)
    with pytest.raises(ImportRefusedError, match="2 of the 3 sweeps there") as caught:
        merge(here, there)
    assert "--rename NAME=NEWNAME" in str(caught.value)
    assert (
        "first: space.tau2 = [0.1, 0.2] here, [0.1] there; search.seed = 42 here, 7 there\n"
    ) in str(caught.value)
    assert "second: backbone = 'mini' here, 'bert-base' there" in str(caught.value)
    assert contents(here) == before
    rename = {"first": "theirs", "second": "large"}
    assert merge(here, there, rename=rename).sweeps == 3
    assert merge(here, there, rename=rename).sweeps == 0
    with here.session() as session:
        assert [row.key for row in trials_of(session, "theirs")] == ["c0-42"]
    assert "'sweep': 'theirs'" in repr(contents(here)["sweeps"]).replace('"', "'")


@pytest.mark.slow
def test_rehearsals_and_names_and_keys_that_none_can_have_are_refused(
    filled, sweep_started, trial_life, contents
) -> None:
    rehearsed = filled(
        [sweep_started("r", spec={"smoke": True}), *trial_life(0, {1: 0.5}, sweep="r")]
    )
    odd = filled([sweep_started("o"), *trial_life(0, {1: 0.5}, sweep="o")])
    path = filled([sweep_started("p"), *trial_life(0, {1: 0.5}, sweep="p")])
    with odd.writing() as session:  # no journal brings such names
        session.execute(text("UPDATE sweeps SET name = '../../x'"))
    with path.writing() as session:
        session.execute(text("UPDATE trials SET key = '../../etc/x'"))
    here = filled([sweep_started()])
    before = contents(here)
    for there, rename, said in (
        (rehearsed, {}, "made by cse-sweep --smoke: their numbers"),
        (odd, {}, r"--rename NAME=NEWNAME(.|\n)*100 letters"),
        (odd, {"../../x": "a/b"}, "100 letters"),
        (odd, {"../../y": "a"}, "--rename ../../y: no sweep of that name is there; did you mean"),
        (path, {}, "key that none can have"),
    ):
        with pytest.raises(ImportRefusedError, match=said):
            merge(here, there, rename=rename)
    with pytest.raises(ImportRefusedError, match="this leaderboard holds rehearsals"):
        merge(rehearsed, here)
    assert contents(here) == before
    assert merge(here, odd, rename={"../../x": "theirs"}).sweeps == 1


def test_a_model_is_of_the_trial_that_its_folder_names(tmp_path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / TRIAL_FILE).write_text("c0-42\n")
    asked = [("kept", "c0-42"), ("kept", "c1-42"), ("elsewhere", "c1-42")]
    assert [may_hold_model(str(tmp_path / one), key) for one, key in asked] == [True, False, True]
