"""An archived sweep says what it said, and is put back from its journal as it was."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stored_trials import apply_events, url_of

from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.errors import JournalError, SweepRefusedError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.ingest import thinning
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.ingest.thinning import choose_evenly
from cse_platform.leaderboard.store import Store
from cse_platform.tracking import journal as journal_module
from cse_platform.tracking.events import DriverMessage, Event, SweepFinished
from cse_platform.tracking.journal import Journal, read_journal
from cse_platform.upkeep import archive, held_sweep
from cse_platform.upkeep.archive import Archiving, plan_archiving, plan_restoring

LONG = {step: 0.5 - abs(step - 610) / 10_000 for step in range(0, 1000, 10)}
"""A hundred dev points, the best at 610."""


def told(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cse_sweep, list(map(str, words)))
    return result.exit_code, result.output


def test_steps_are_chosen_at_equal_distances() -> None:
    assert choose_evenly([5, 3, 1], 3) == {1, 3, 5}
    assert choose_evenly(range(0, 101, 10), 3) == {0, 50, 100}
    assert sorted(choose_evenly(range(100), 4)) == [0, 33, 66, 99]


@pytest.fixture
def with_journal(board, tmp_path) -> Callable[[list[Event]], Path]:
    """Gives a board the events of a sweep whose journal lies in the runs folder."""

    def bring(events: list[Event]) -> Path:
        path = tmp_path / "sweeps" / events[0].sweep / "journal.jsonl"
        with Journal(path) as journal, Lease(board, events[0].sweep, journal):
            for event in events:
                journal.append(event)
            LeaderboardSink(board).apply(journal.id, list(journal.read()))
        return path

    return bring


@pytest.mark.slow
def test_curves_keep_what_is_read_of_them_and_come_back(
    board, with_journal, tmp_path, trial_life, sweep_started, contents
) -> None:
    other = {step: 0.4 + abs(step - 230) / 10_000 for step in LONG}
    cut = trial_life(3, dict(list(LONG.items())[:50]), state=None, configuration="c3")
    again = trial_life(3, LONG, state="PRUNED", configuration="c3")  # from its beginning
    first = trial_life(0, LONG, configuration="c", seed=1)
    chosen = {"best_step": 450, "best_value": LONG[450]}  # by another dev set than the search's
    path = with_journal(
        [
            sweep_started(),
            DriverMessage(sweep="first", level="note", text="it begins"),
            *first[:-1],
            first[-1].model_copy(update=chosen),
            *trial_life(1, other, configuration="c", seed=2),
            *trial_life(2, {0: 0.1, 5: 0.2}, configuration="short"),
            *cut,
            *again,
            SweepFinished(sweep="first", state="COMPLETE"),
        ]
    )
    third = trial_life(0, LONG, configuration="c", seed=3, sweep="second")
    elsewhere = [sweep_started("second"), *third]
    apply_events(board, elsewhere, journal="j2")
    reader, text = Leaderboard(board), path.read_bytes()
    before, [row, *_] = contents(board), reader.rows(Filters(sweep="first"))
    whole = reader.dev_curves(row)
    plan = plan_archiving(board, url_of(board), "first", runs=tmp_path)
    plan.archive(board)
    thin = reader.dev_curves(row)
    after = contents(board)
    assert {name for name in before if before[name] != after[name]} == {"points", "messages"}
    assert len(before["points"]) - len(after["points"]) == plan.surplus > 200
    for seed, points in thin.items():
        if seed != 3:  # that of the other sweep
            assert 24 <= len(points) <= 28
            assert set(map(repr, points)) < set(map(repr, whole[seed]))
            assert (points[0].step, points[-1].step) == (0, 990)
            assert [p for p in points if p.kept] == [p for p in whole[seed] if p.kept] != []
    from cse_dashboards.figures.training.seeds import over_seeds

    name = "dev/stsb_spearman"
    drawn, full = over_seeds(thin, name), over_seeds(whole, name)
    assert len(drawn) >= 24
    assert all(full[step] == values for step, values in drawn.items())
    assert plan_archiving(board, url_of(board), "first", runs=tmp_path).surplus == 0
    plan_restoring(board, url_of(board), "first", runs=tmp_path).restore(board)
    assert contents(board) == before
    assert path.read_bytes() == text
    assert not list(path.parent.glob("*.gz"))


@pytest.fixture
def _three_points_are_many(monkeypatch) -> None:
    monkeypatch.setattr(thinning, "EVEN_POINTS", 2)
    monkeypatch.setattr(thinning, "MOST_POINTS", 2)
    monkeypatch.setattr(Store, "let_others_write", lambda board: None)


def plan(lab: Any, board: Store, *, restores: bool = False) -> Archiving:
    make = plan_restoring if restores else plan_archiving
    return make(board, lab.url, "small", runs=lab.runs)


@pytest.mark.slow
@pytest.mark.usefixtures("_three_points_are_many")
def test_a_kill_at_any_moment_of_archiving_is_made_good_by_the_same_command(
    lab, kill_everywhere, contents
) -> None:
    with lab.board() as board:
        before = contents(board)
        plan(lab, board).archive(board)
        archived = contents(board)
    assert len(archived["points"]) < len(before["points"])
    steps = [
        (archive, "remove_surplus"), (held_sweep, "remove_messages"), (archive, "delete_folder"),
        (archive, "restore_points"), (archive, "add_message"), (Path, "unlink"),
        (Path, "replace"), (journal_module, "_rename_synced"),
    ]  # fmt: skip

    def put_away() -> None:
        with lab.board() as board:
            plan(lab, board).archive(board)

    def put_away_again() -> None:
        put_away()
        with lab.board() as board:
            assert contents(board) == archived
        with pytest.raises(JournalError, match="first cse-sweep unarchive small"):
            lab.run()
        put_back()

    def put_back() -> None:
        with lab.board() as board:
            plan(lab, board, restores=True).restore(board)
            assert contents(board) == before
        assert not list(lab.folder("small").glob("*.gz"))

    def there_and_back() -> None:
        put_away()
        put_back()

    moments = kill_everywhere(there_and_back, put_away_again, steps, every=1)
    assert moments > 8


def answers(lab: Any) -> list[Any]:
    """What boards and findings are made of."""
    with lab.board() as board:
        reader = Leaderboard(board)
        return [
            reader.rows(Filters()),
            reader.search("small"),
            reader.choice("small"),
            reader.hyperparameters("small"),
            list(reader.trials("small")),
            reader.best_of_sweep("small"),
        ]


@pytest.mark.usefixtures("_three_points_are_many")
def test_an_archived_sweep_is_read_and_not_taken_up(lab, tmp_path) -> None:
    shown, answered = told("status", "--runs", lab.runs)[1], answers(lab)
    history = list(read_journal(lab.folder("small") / "journal.jsonl"))
    code, said = told("archive", "small", "--runs", lab.runs, "--dry-run")
    assert code == 0 and "dev points" in said and (lab.folder("small") / "journal.jsonl").exists()
    assert told("archive", "small", "--runs", lab.runs)[0] == 0
    assert told("status", "--runs", lab.runs)[1] == shown
    assert answers(lab) == answered
    assert "archived" in told("status", "small", "--runs", lab.runs)[1]
    assert list(read_journal(lab.folder("small") / "journal.jsonl")) == history
    for words in (("resume", "small", "--trials", 9), ("retry", "small")):
        code, said = told(*words, "--runs", lab.runs)
        assert code == 1 and "first cse-sweep unarchive small" in said
    assert told("archive", "small", "--runs", lab.runs)[0] == 0  # again
    assert told("unarchive", "small", "--runs", lab.runs)[0] == 0
    code, said = told("unarchive", "small", "--runs", lab.runs)
    assert code == 1 and "is not archived" in said
    lab.run(search={"trials": 7})
    assert told("archive", "small", "--runs", lab.runs)[0] == 0
    assert told("delete", "small", "--runs", lab.runs, "--yes")[0] == 0
    assert not lab.folder("small").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_three_points_are_many")
@pytest.mark.parametrize("harm", ["torn", "changed"])
def test_a_damaged_journal_of_an_archived_sweep_is_named(lab, harm) -> None:
    assert told("archive", "small", "--runs", lab.runs)[0] == 0
    packed = lab.folder("small") / "journal.jsonl.gz"
    whole = packed.read_bytes()
    damaged = whole[:-30] if harm == "torn" else whole[:-8] + bytes(8)  # another checksum
    packed.write_bytes(damaged)
    code, said = told("unarchive", "small", "--runs", lab.runs)
    assert code == 1 and f"{packed} is damaged" in said
    assert packed.read_bytes() == damaged
    packed.write_bytes(whole)
    assert told("unarchive", "small", "--runs", lab.runs)[0] == 0


@pytest.mark.slow
def test_what_has_no_journal_here_is_not_archived(
    board, tmp_path, trial_life, sweep_started
) -> None:
    apply_events(board, [sweep_started(), *trial_life(0, LONG)], journal="j1")
    imported = sweep_started("second", spec={"source": "imported"})
    apply_events(board, [imported, *trial_life(9, LONG, sweep="second")], journal="j2")
    for sweep, said in (("first", "is not in"), ("second", "was imported")):
        with pytest.raises(SweepRefusedError, match=said):
            plan_archiving(board, url_of(board), sweep, runs=tmp_path)


@pytest.mark.slow
def test_a_leaderboard_that_lies_elsewhere_is_named_beside_the_runs_folder(lab, tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    shutil.move(lab.runs / "leaderboard.db", elsewhere)
    asked = ["archive", "small", "--runs", lab.runs]
    assert told(*asked)[0] == 1
    code, output = told(*asked, "--store", f"sqlite:///{elsewhere}")
    assert code == 0, output
    assert not (lab.folder("small") / "journal.jsonl").exists()
