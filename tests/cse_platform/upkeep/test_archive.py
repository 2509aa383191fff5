"""An archived sweep says what it said, and is put back from its journal as it was."""

from typing import Any

from click.testing import CliRunner

from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.ingest import thinning
from cse_platform.leaderboard.ingest.thinning import choose_evenly
from cse_platform.leaderboard.store import Store
from cse_platform.tracking.journal import read_journal


def told(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(cse_sweep, list(map(str, words)))
    return result.exit_code, result.output


def test_steps_are_chosen_at_equal_distances() -> None:
    assert choose_evenly([5, 3, 1], 3) == {1, 3, 5}
    assert choose_evenly(range(0, 101, 10), 3) == {0, 50, 100}
    assert sorted(choose_evenly(range(100), 4)) == [0, 33, 66, 99]


def test_an_archived_sweep_is_read_not_taken_up_and_comes_back(lab, contents, monkeypatch) -> None:
    monkeypatch.setattr(thinning, "EVEN_POINTS", 2)
    monkeypatch.setattr(thinning, "MOST_POINTS", 2)
    monkeypatch.setattr(Store, "let_others_write", lambda board: None)

    def answers() -> list[Any]:
        with lab.board() as board:
            reader = Leaderboard(board)
            asked = (reader.search, reader.choice, reader.hyperparameters, reader.best_of_sweep)
            found = [question("small") for question in asked]
            return [*found, reader.rows(Filters()), list(reader.trials("small"))]

    def held() -> dict[str, Any]:
        with lab.board() as board:
            return contents(board)

    journal = lab.folder("small") / "journal.jsonl"
    shown, answered, before = told("status", "--runs", lab.runs)[1], answers(), held()
    history = list(read_journal(journal))
    code, said = told("archive", "small", "--runs", lab.runs, "--dry-run")
    assert code == 0 and "dev points" in said and journal.exists()
    for _ in range(2):
        assert told("archive", "small", "--runs", lab.runs)[0] == 0
    assert told("status", "--runs", lab.runs)[1] == shown
    assert (answers(), list(read_journal(journal))) == (answered, history)
    changed = {name for name, rows in held().items() if rows != before[name]}
    assert changed == {"points"} and not journal.exists()
    assert len(held()["points"]) < len(before["points"])
    assert "archived" in told("status", "small", "--runs", lab.runs)[1]
    for words in (("resume", "small", "--trials", 9), ("retry", "small")):
        code, said = told(*words, "--runs", lab.runs)
        assert code == 1 and "first cse-sweep unarchive small" in said
    assert told("unarchive", "small", "--runs", lab.runs)[0] == 0
    assert held() == before
    code, said = told("unarchive", "small", "--runs", lab.runs)
    assert code == 1 and "is not archived" in said
    lab.run(search={"trials": 7})
    assert told("archive", "small", "--runs", lab.runs)[0] == 0
    assert told("delete", "small", "--runs", lab.runs, "--yes")[0] == 0
    assert not lab.folder("small").exists()
