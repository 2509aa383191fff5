import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from sqlalchemy import text
from stored_trials import write_journal
from sweep_events import opening

from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.control.annotations import annotate
from cse_platform.errors import JournalError, NotFoundError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.board import read_annotations
from cse_platform.leaderboard.filters import Filters
from cse_platform.own_folders import OwnFolders
from cse_platform.stores.rebuild import rebuild
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.tables import AttemptRecord
from cse_platform.tracking.events import DriverMessage, SweepDeleted
from cse_platform.tracking.journal import Journal, share_journal
from cse_platform.upkeep import deletion
from cse_platform.upkeep.deletion import plan_deletion

delete = partial(invoke, cse_sweep, "delete")


def carry_out(lab: Any, sweep: str = "small") -> None:
    with lab.board() as board:
        plan_deletion(board, lab.url, sweep, runs=lab.runs).carry_out(board)


def rows(lab: Any, sweep: str) -> list[Any]:
    """What the leaderboard shows of a sweep."""
    with lab.board() as board:
        return Leaderboard(board).rows(Filters(sweep=sweep))


def assert_gone(lab: Any, others: dict[str, Any]) -> None:
    """Nothing is left of `small`, and nothing of the others has changed."""
    assert lab.ask("SELECT name FROM sweeps ORDER BY name") == ["heir", "third"]
    assert lab.ask("SELECT sweep FROM sweep_leases ORDER BY sweep") == ["heir", "third"]
    assert lab.ask("SELECT count(*) FROM journal_cursors") == [2]
    assert {name: rows(lab, name) for name in others} == others
    kept = lab.ask("SELECT model FROM attempts")
    assert len(kept) == 5
    assert lab.models() == {Path(model).name for model in kept}
    assert not lab.folder("small").exists()
    import optuna

    studies = optuna.get_all_study_names(f"sqlite:///{lab.runs / 'search.db'}")
    assert sorted(studies) == ["heir", "third"]


class Killed(BaseException):
    """The process ends here."""


class Steps:
    """Counts calls, and ends the process in place of one of them."""

    def __init__(self, last: int) -> None:
        self.last, self.done = last, 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            if self.done == self.last:
                raise Killed
            self.done += 1
            return call(*given, **named)

        return step


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 9])
def test_a_kill_at_any_moment_is_made_good_by_the_same_command(lab, monkeypatch, every) -> None:
    from optuna.storages import RDBStorage

    others = {name: rows(lab, name) for name in ("heir", "third")}
    functions: list[tuple[Any, str]] = [
        *((deletion, name) for name in ("share_journal", "remove_cursors", "remove_sweep")),
        *((OwnFolders, name) for name in ("delete_model", "delete_checkpoints")),
        (RDBStorage, "delete_study"), (shutil, "rmtree"), (Path, "unlink"), (Path, "rmdir"),
    ]  # fmt: skip
    for moment in count(0, every):
        lab.restore()
        with monkeypatch.context() as patch:
            steps = Steps(moment)
            for owner, name in functions:
                patch.setattr(owner, name, steps.wrap(getattr(owner, name)))
            try:
                carry_out(lab)
            except Killed:
                pass
            else:
                break
        try:
            carry_out(lab)
        except NotFoundError:  # all of it was done
            if lab.folder("small").exists():
                lab.folder("small").rmdir()  # it is empty
        assert_gone(lab, others)
    assert moment > 10
    assert_gone(lab, others)


def test_a_deletion_that_has_begun_is_finished_and_not_taken_up(lab, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(deletion, "remove_sweep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            carry_out(lab)
    with pytest.raises(JournalError, match="cse-sweep delete small"):
        lab.run()
    said = delete("small", "--store", "sqlite:///other.db", code=1).output
    assert "no leaderboard" in said
    monkeypatch.chdir(tmp_path)  # another runs folder than that of the sweep
    said = delete("small", "--store", lab.url, "--yes", code=1).output
    assert f"it was in {lab.folder('small')}" in said and "name its runs folder" in said
    delete("small", "--store", lab.url, "--runs", lab.runs, "--yes")
    assert not lab.folder("small").exists()
    lab.run()  # as a new sweep, which takes over what `heir` kept
    assert len(rows(lab, "small")) == 1


def begin_deletion(lab) -> None:
    with share_journal(lab.folder("small") / "journal.jsonl") as append:
        append(SweepDeleted(sweep="small", who="ada"))


def test_another_sweep_of_the_name_stays_when_a_deletion_is_finished(lab) -> None:
    """A rebuild with another runs folder came between the two commands."""
    begin_deletion(lab)
    with lab.board() as board, board.writing() as session:
        session.execute(text("UPDATE sweeps SET journal = 'theirs' WHERE name = 'small'"))
    before, models = rows(lab, "small"), lab.models()
    delete("small", "--runs", lab.runs, "--yes")
    assert rows(lab, "small") == before and not lab.folder("small").exists()
    assert lab.models() == models


def test_a_deletion_that_a_rebuild_interrupts_leaves_no_model(lab) -> None:
    begin_deletion(lab)
    rebuild(lab.url, [lab.runs], without=["small"])
    models = {Path(model).name for model in lab.ask("SELECT model FROM attempts")}
    carry_out(lab)
    assert lab.models() == models
    assert not lab.folder("small").exists()


def test_a_sweep_whose_journal_is_not_here_stays(lab) -> None:
    lab.folder("small").rename(lab.folder("other"))
    said = delete("small", "--runs", lab.runs, "--yes", code=1).output
    assert "rebuild --without small" in said and str(lab.folder("small")) in said
    assert rows(lab, "small")
    shutil.rmtree(lab.folder("other"))


def test_a_sweep_with_a_damaged_journal_can_be_deleted(lab) -> None:
    with (lab.folder("small") / "journal.jsonl").open("a") as journal:
        journal.write("{}\n{")
    delete("small", "--runs", lab.runs, "--yes")
    assert not lab.folder("small").exists()


def test_notes_of_a_deleted_sweep_do_not_come_back(lab) -> None:
    annotate(lab.url, lab.runs, "small", note="odd", tags={"one": True})
    annotate(lab.url, lab.runs, "third", note="kept")
    carry_out(lab)
    rebuild(lab.url, [lab.runs])
    with lab.board() as board, board.session() as session:
        assert [*read_annotations(session, "sweep")] == ["third"]
    assert rows(lab, "third")
    with pytest.raises(NotFoundError, match="there is no sweep 'small'"):
        rows(lab, "small")


def test_a_model_that_another_sweep_trains_with_stays(lab) -> None:
    of_small = (
        "SELECT model FROM attempts JOIN sweep_trials USING (trial_id) JOIN sweeps ON "
        "sweeps.id = sweep_id GROUP BY model HAVING group_concat(name) = 'small' ORDER BY model"
    )
    of_third = (
        'UPDATE configurations SET "values" = :values WHERE id IN (SELECT configuration_id FROM '
        "trials JOIN sweep_trials ON trial_id = trials.id JOIN sweeps ON sweeps.id = sweep_id "
        "WHERE name = 'third')"
    )
    with lab.board() as board, board.writing() as session:
        teacher, other, *_ = session.scalars(text(of_small).columns(AttemptRecord.model))
        session.execute(text(of_third), {"values": json.dumps({"teachers": [teacher]})})
    carry_out(lab)
    assert [Path(model).exists() for model in (teacher, other)] == [True, False]


def test_the_journal_of_evaluations_goes_with_its_trial(lab) -> None:
    """That of a trial that another sweep holds too stays."""
    names = ("small", "heir", "third")  # `heir` took over its trials from `small`
    query = (
        "SELECT name, key FROM trials JOIN sweep_trials ON trial_id = trials.id JOIN "
        "sweeps ON sweeps.id = sweep_id ORDER BY name, number"
    )
    keys = dict(lab.ask(query))  # the last of each
    files = [lab.runs / "evaluations" / f"{keys[name][:16]}.jsonl" for name in names]
    with lab.board() as board:
        for file, name in zip(files, names, strict=True):
            with Journal(file) as journal:
                journal.append(DriverMessage(sweep=name, level="note", text="scored"))
                LeaderboardSink(board).apply(journal.id, list(journal.read()))
    carry_out(lab)
    assert [file.exists() for file in files] == [False, True, True]
    # Of both sweeps and of the evaluations of their trials.
    assert lab.ask("SELECT count(*) FROM journal_cursors") == [4]


def test_the_opening_of_test_sets_for_a_shared_trial_outlives_the_sweep(lab) -> None:
    """A rebuild finds it in a journal of the trial's own."""
    shared = (
        "SELECT key FROM trials JOIN sweep_trials ON trial_id = trials.id JOIN sweeps ON "
        "sweeps.id = sweep_id WHERE name = 'heir' AND reused IS NOT NULL LIMIT 1"
    )
    [key] = lab.ask(shared)
    with lab.board() as board, Journal(lab.folder("small") / "journal.jsonl") as journal:
        journal.append(opening(key, sweep="small", who="ada@lab"))
        entries = list(journal.read())
        LeaderboardSink(board).apply(journal.id, entries[-1:])
    carry_out(lab)
    rebuild(lab.url, [lab.runs])
    assert lab.ask("SELECT who FROM test_accesses") == ["ada@lab"]


def test_only_openings_of_the_package_s_test_sets_that_were_the_first_gave_a_mark(lab) -> None:
    own_trial = (
        "SELECT key FROM trials JOIN sweep_trials ON trial_id = trials.id JOIN sweeps ON "
        "sweeps.id = sweep_id WHERE key NOT IN (SELECT key FROM trials JOIN sweep_trials ON "
        "trial_id = trials.id GROUP BY key HAVING count(*) > 1) AND name = '{}' LIMIT 1"
    )
    until = " from before 2030-01-01 13:00:00 UTC"
    for sweep, source, hours, when in (
        ("small", "file", 0, None),
        ("small", "hub", 0, ""),
        ("third", "builtin", -1, ""),  # of another kind of data
        ("third", "senteval", 1, until),
        ("third", "hub", -1, None),
    ):
        [key] = lab.ask(own_trial.format(sweep))
        with lab.board() as board, Journal(lab.folder(sweep) / "journal.jsonl") as journal:
            journal.append(opening(key, sweep=sweep, source=source, hours=hours))
            LeaderboardSink(board).apply(journal.id, list(journal.read())[-1:])
        told = " ".join(delete("small", "--runs", lab.runs, "--dry-run").output.split())
        lost = f"for 1 trial of it; later rows of its method and backbone{when} lose their mark *"
        assert (lost in told) == (when is not None) == ("test sets were opened" in told), told


def test_a_sweep_that_a_driver_holds_is_not_deleted(lab) -> None:
    files = lab.files()
    with lab.board() as board, Lease(board, "small", None):
        for option in ("--yes", "--dry-run"):
            refused = delete("small", "--runs", lab.runs, option, code=1)
            assert "cse-sweep stop small" in refused.stderr and refused.stdout == "", option
    assert lab.files() == files
    with lab.board() as board:
        Lease(board, "imported", None).close()
    leases = lab.ask("SELECT sweep FROM sweep_leases ORDER BY sweep")
    assert leases == ["heir", "small", "third"]


def test_delete_asks_and_lists_what_it_removes(lab, tmp_path, empty_leaderboard) -> None:
    files = lab.files()
    said = delete("small", "--runs", lab.runs, "--dry-run").output
    counted = {line.split("  ")[0]: line.split("  ") for line in said.splitlines()}
    assert {"trials", "dev points", "scores", "search study", "models"} <= counted.keys()
    assert "CSE_MLFLOW_URI" in said  # it has no runs where they were looked for
    said = delete("small", "--runs", lab.runs, code=2).output
    assert "--yes" in said
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    shutil.copy(lab.runs / "leaderboard.db", tmp_path / "elsewhere.db")
    said = delete("smal", "--store", elsewhere, code=1).output
    assert "did you mean 'small'" in said
    said = delete("small#0", "--runs", lab.runs, "--yes", code=1).output
    assert "'small#0' is a trial" in said and "annotate small#0 --tag" in said
    empty_leaderboard(tmp_path / "other.db")  # the folder of a sweep on another leaderboard stays
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(lab.runs.parent)
        said = delete("small", "--store", f"sqlite:///{tmp_path}/other.db", "--yes", code=1).output
    assert "name its leaderboard with --store" in said
    assert lab.files() == files


def test_mlflow_keeps_nothing_of_it_but_what_is_registered(new_lab, tmp_path, empty_mlflow) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    lab = new_lab(tmp_path / "runs")
    lab.runs.mkdir()
    client = MlflowClient(empty_mlflow(lab.runs / "mlflow.db"))
    client.delete_experiment(client.create_experiment("in the trash"))
    lab.run()
    lab.run(sweep="third", search={"seed": 7, "trials": 1})
    experiment = client.get_experiment_by_name("cse")
    runs = client.search_runs([experiment.experiment_id], "tags.sweep = 'small'")
    of_trials = [run for run in runs if "trial" in run.data.tags]
    for run in runs:
        client.log_text(run.info.run_id, "drawn", "figure.txt")
    kept, gone = of_trials[0].info, of_trials[1].info
    client.delete_run(gone.run_id)  # by a person: it lies in the trash
    client.create_registered_model("lab-best")
    client.create_model_version("lab-best", f"{kept.artifact_uri}/model", kept.run_id)
    said = delete("small", "--runs", lab.runs, "--yes").output
    assert "registered model lab-best version 1" in said
    left = client.search_runs([experiment.experiment_id], run_view_type=ViewType.ALL)
    assert {run.data.tags["sweep"] for run in left} == {"small", "third"}
    assert [run.info.run_id for run in left if run.data.tags["sweep"] == "small"] == [kept.run_id]
    assert f"{lab.runs / 'artifacts'} for artifacts of 5 runs; they stay" in said
    assert len(list(lab.runs.rglob("figure.txt"))) == len(runs)
    positions = client.get_experiment_by_name("cse").tags
    assert len([tag for tag in positions if tag.startswith("cse.position")]) == 1
    assert client.get_experiment_by_name("in the trash").lifecycle_stage == "deleted"
    lab.run()  # as a new one
    runs = client.search_runs([experiment.experiment_id], "tags.sweep = 'small'")
    assert len(runs) == 6


def test_a_copy_of_the_runs_folder_is_deleted_from_and_not_the_folder_it_was_made_of(
    lab, new_lab, tmp_path
) -> None:
    shutil.copytree(lab.runs, tmp_path / "copy")
    copy, before = new_lab(tmp_path / "copy"), lab.files()
    carry_out(copy)
    assert lab.files() == before
    assert not copy.folder("small").exists()
    import optuna

    assert "small" in optuna.get_all_study_names(f"sqlite:///{lab.runs / 'search.db'}")


def test_a_key_that_is_no_name_of_a_folder_deletes_no_models_of_others(lab) -> None:
    """As a journal from elsewhere, or a merged leaderboard, may have brought it."""
    with lab.board() as board, board.writing() as session:
        session.execute(
            text(
                "UPDATE trials SET key = '..' WHERE id = (SELECT min(trial_id) FROM sweep_trials "
                "JOIN sweeps ON sweeps.id = sweep_id WHERE name = 'third')"
            )
        )
    before = lab.files()
    carry_out(lab, "third")
    left = {name for name in before if not name.startswith("sweeps/third")}
    models = {name for name in left - lab.files() if name.count("/") == 2}
    assert len(models) == 2 and left - lab.files() == {
        name for name in left if any(f"{name}/".startswith(f"{model}/") for model in models)
    }


def test_a_storage_that_only_a_journal_names_keeps_what_it_has(lab, tmp_path) -> None:
    """A journal from elsewhere can name another's storage, where a sweep of its name may be."""
    journal, storage = lab.folder("third") / "journal.jsonl", tmp_path / "theirs"
    (theirs := storage / "sweeps" / "third" / "ray" / "checkpoint").mkdir(parents=True)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in lines:
        if event.get("kind") == "sweep_started":
            event["spec"]["storage"] = str(storage)
    journal.write_text("".join(f"{json.dumps(event)}\n" for event in lines))
    said = delete("third", "--runs", lab.runs, "--yes").output
    assert f"models in {storage} stay" in said and theirs.exists()
    assert not lab.folder("third").exists()


def test_a_storage_that_a_journal_names_badly_is_no_traceback_and_no_wait(lab, tmp_path) -> None:
    journal, owner = lab.folder("third") / "journal.jsonl", "sweeps/third/owner.json"
    told = journal.read_text()
    contents: dict[str, Any] = {
        "list": "[" * 100_000, "number": '{"runs": 7, "host": "a", "journal": "b"}',
        "long": json.dumps({"runs": "x" * 5000, "host": "a", "journal": "b"}),
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name / owner).parent.mkdir(parents=True)
        (tmp_path / name / owner).write_text(content)
    for name in ("pipe", "device"):
        (tmp_path / name / owner).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe" / owner)
    (tmp_path / "device" / owner).symlink_to("/dev/zero")
    refused = (*map(str, map(tmp_path.__truediv__, (*contents, "pipe", "device"))), "x" * 5000)
    for storage in (*refused, 7, {"a": 1}, True):
        started, *rest = (json.loads(line) for line in told.splitlines()[1:])
        started["spec"]["storage"] = storage
        lines = [json.loads(told.splitlines()[0]), started, *rest]
        journal.write_text("".join(f"{json.dumps(event)}\n" for event in lines))
        code = int(storage in refused)
        said = delete("third", "--runs", lab.runs, "--dry-run", code=code).output
        assert ("owner.json" in said) == bool(code), storage


def test_evaluations_that_a_link_leads_to_are_not_deleted(lab, tmp_path) -> None:
    """As in a runs folder from elsewhere, whose link names a folder of ours."""
    keys = lab.ask("SELECT key FROM trials")
    for key in keys:
        scored = DriverMessage(sweep="small", level="note", text="scored")
        write_journal(tmp_path / f"{key[:16]}.jsonl", [scored])
    link, before = lab.runs / "evaluations", lab.files()
    link.symlink_to(tmp_path)
    said = delete("third", "--runs", lab.runs, "--yes", code=1).output
    assert "evaluations is a link" in said and lab.files() == before
    link.unlink()
    with lab.board() as board:
        planned = plan_deletion(board, lab.url, "third", runs=lab.runs)
        link.symlink_to(tmp_path)
        with pytest.raises(JournalError, match="behind a link"):
            planned.carry_out(board)
    assert len(list(tmp_path.glob("*.jsonl"))) == len(keys)
    link.unlink()


def test_a_folder_that_a_link_leads_to_is_not_deleted(lab, tmp_path) -> None:
    elsewhere = tmp_path / "elsewhere"
    lab.folder("third").rename(elsewhere)
    lab.folder("third").symlink_to(elsewhere)
    said = delete("third", "--runs", lab.runs, "--yes", code=1).output
    assert "is behind a link" in said
    assert (elsewhere / "journal.jsonl").exists() and rows(lab, "third")
    lab.folder("third").unlink()
