import shutil
from typing import Any

import pytest
from sqlalchemy import select

from cse_platform.errors import SweepRefusedError
from cse_platform.stores.rebuild import rebuild
from cse_platform.stores.sql.tables import AttemptRecord
from cse_platform.sweep.stores import RUNS_PREFIX
from cse_platform.tracking.events import TrialFinished, TrialReused
from cse_platform.tracking.journal import read_journal
from cse_platform.upkeep.deletion import plan_deletion


def models(lab: Any) -> set[str]:
    return {str(folder) for folder in (lab.runs / "artifacts" / "models").iterdir()}


def named_in_journals(lab: Any) -> set[str | None]:
    return {
        event.model
        for journal in lab.runs.glob("sweeps/*/journal.jsonl")
        for _, event in read_journal(journal)
        if isinstance(event, TrialFinished | TrialReused)
    }


def named_on_leaderboard(lab: Any) -> set[str | None]:
    with lab.board() as board, board.session() as session:
        return {*session.scalars(select(AttemptRecord.model))}


@pytest.fixture
def copy(lab, new_lab, tmp_path) -> Any:
    """A copy of the runs folder with three sweeps."""
    shutil.copytree(lab.runs, tmp_path / "copy")
    return new_lab(tmp_path / "copy")


def test_copied_and_moved_runs_name_their_own_models_and_go_on_with_them(
    lab, copy, new_lab
) -> None:
    before = models(lab)
    assert named_in_journals(lab) == named_on_leaderboard(lab) == before
    assert named_in_journals(copy) == named_on_leaderboard(copy) == models(copy)
    copy.run(search={"trials": 6}, keep={"models": 1})
    assert len(models(copy)) < len(before) and models(lab) == before
    moved = new_lab(copy.runs.rename(copy.runs.with_name("moved")))
    assert named_on_leaderboard(moved) - {None} == models(moved)


def test_a_copy_with_the_paths_of_its_original_leaves_them_alone(lab, copy, caplog) -> None:
    """As journals of earlier versions have them."""
    before, journal = models(lab), copy.folder("small") / "journal.jsonl"
    journal.write_text(journal.read_text().replace(RUNS_PREFIX, f"{lab.runs}/"))
    (copy.runs / "leaderboard.db").unlink()  # it has events of the journal that end elsewhere now
    rebuild(copy.url, [copy.runs])
    copy.run(search={"trials": 6}, keep={"models": 1})
    assert models(lab) == before
    assert f"{lab.runs}/artifacts/models" in caplog.text


def test_a_copy_without_the_sweep_does_not_delete_that_of_its_original(lab, copy) -> None:
    """Its leaderboard remembers the folder of the last driver."""
    before = lab.files()
    shutil.rmtree(copy.folder("small"))
    with copy.board() as board, pytest.raises(SweepRefusedError, match="journal of sweep 'small'"):
        plan_deletion(board, copy.url, "small", runs=copy.runs)
    assert lab.files() == before
