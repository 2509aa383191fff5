"""Which models stay at the end of a sweep, and that a folder is read as its own trial's alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import NewDrive, NewSpec
from sqlalchemy import update

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData
from cse_methods.tasks import Tasks
from cse_platform.errors import NotFoundError, SweepRefusedError
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.tables import ConfigurationRecord
from cse_platform.leaderboard.trial_details import trial_details
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.runner.model_retention import best_folders, delete_surplus_models
from cse_platform.runner.models import TRIAL_FILE
from cse_platform.runner.scorer import score_kept_model
from cse_platform.sweep.identity import DevData
from cse_platform.sweep.references import BestReference
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

SPACE = {"temperature": [0.1, 0.2, 0.3, 0.4]}


def hot(values: Mapping[str, Any], seed: int, step: int) -> float:
    return float(values["temperature"]) + step / 1000 - seed / 1e6


def four(new_spec: NewSpec, **changes: Any) -> SweepSpec:
    search = {"sampler": {"kind": "grid"}, "trials": None}
    return new_spec(space=SPACE, search=search, **changes)


def kept(drive: Any) -> list[tuple[float, int]]:
    """Temperature and seed of the trials whose model is where the history says."""
    trials = drive.history.trials.values()
    assert all(trial.model is None or Path(trial.model).is_dir() for trial in trials)
    found = [(t.values["temperature"], t.seed) for t in trials if t.model is not None]
    assert len(list((drive.folder / "models").iterdir())) == len(found)
    return sorted(found)


def test_the_best_configurations_keep_the_models_of_all_their_seeds(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    seeds = {"confirm": {"top": 1, "seeds": [0]}}
    drive = new_drive(tmp_path, four(new_spec, keep={"models": 2}, seeds=seeds), score=hot)
    drive.run()
    delete_surplus_models(drive.state)
    assert kept(drive) == [(0.3, 42), (0.4, 0), (0.4, 42)]
    delete_surplus_models(drive.state)  # nothing more
    drive.close()
    events = [event for _, event in read_journal(tmp_path / "journal.jsonl")]
    assert sum(event.kind == "model_deleted" for event in events) == 2
    assert sum(trial.model_deleted for trial in History(events).trials.values()) == 2
    gone = next(one for one in drive.history.trials.values() if one.model_deleted)
    with (
        open_store(f"sqlite:///{tmp_path / 'leaderboard.db'}") as board,
        board.session() as session,
    ):
        told = trial_details(session, gone.key)
        there = trial_details(session, max(drive.history.trials.values(), key=_value).key)
    assert told.model is None and "was deleted on 20" in told.why_no_model
    assert there.model is not None and there.model_deleted is None


def _value(trial: Any) -> float:
    return float(trial.best_value)


def test_how_many_are_kept(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = new_drive(tmp_path, four(new_spec), score=hot)
    drive.run()
    evaluate = {"top": 3, "tasks": ["stsb"]}
    for changes, left in (
        ({}, 4),  # ten by default
        ({"keep": {"models": "all"}}, 4),
        ({"keep": {"models": 1}, "evaluate": evaluate}, 3),
        ({"keep": {"models": 1}}, 1),
    ):
        monkeypatch.setattr(drive.state, "spec", four(new_spec, **changes))
        delete_surplus_models(drive.state)
        assert len(kept(drive)) == left, changes


def test_what_other_sweeps_need_stays(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """One trial is in another sweep too, and one model is a teacher somewhere."""
    first = new_drive(tmp_path / "a", four(new_spec, keep={"models": 1}), score=hot)
    first.run()
    first.close()
    both = new_spec(sweep="both", space={"temperature": [0.2]}, search={"trials": 1})
    second = new_drive(tmp_path / "b", both, score=hot, leaderboard=tmp_path / "a")
    second.run()
    second.close()
    by_temperature = {t.values["temperature"]: t for t in first.history.trials.values()}
    url = f"sqlite:///{tmp_path / 'a' / 'leaderboard.db'}"
    with open_store(url) as board:
        with board.writing() as session:
            teacher = {"teachers": [by_temperature[0.1].model]}
            other = ConfigurationRecord.hash != by_temperature[0.1].configuration
            session.execute(update(ConfigurationRecord).where(other).values(values=teacher))
        with board.session() as session:
            keys = {temperature: trial.key for temperature, trial in by_temperature.items()}
            used = used_elsewhere(session, list(keys.values()), sweep="small")
    assert used == {keys[0.1], keys[0.2]}


def test_a_model_that_was_reused_is_not_ours_to_delete(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path / "a", four(new_spec), score=hot)
    first.run()
    first.close()
    spec = four(new_spec, sweep="again", keep={"models": 1})
    second = new_drive(tmp_path / "b", spec, score=hot, leaderboard=tmp_path / "a")
    second.run()
    delete_surplus_models(second.state)
    assert len(kept(first)) == 4


def test_a_folder_that_names_another_trial_is_left_alone_and_refused_as_the_best(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec, caplog: pytest.LogCaptureFixture
) -> None:
    drive = new_drive(tmp_path, four(new_spec, keep={"models": 1}), score=hot)
    drive.run()
    strange = min(drive.history.trials.values(), key=_value)
    (Path(strange.model) / TRIAL_FILE).write_text("f" * 64)
    delete_surplus_models(drive.state)
    assert [temperature for temperature, _ in kept(drive)] == [0.1, 0.4]
    assert not strange.model_deleted and str(strange.model) in caplog.text
    drive.close()
    best, reference = max(drive.history.trials.values(), key=_value), BestReference("cheap", "mini")
    with open_store(f"sqlite:///{tmp_path / 'leaderboard.db'}") as board:
        asked = (drive.spec, DevData(drive.spec), board, [reference])
        assert best_folders(*asked) == {reference.placeholder: best.model}
        (Path(best.model) / TRIAL_FILE).write_text("f" * 64)
        with pytest.raises(SweepRefusedError, match=f"{best.model} is not the model of trial"):
            best_folders(*asked)


def test_test_sets_are_not_opened_for_a_folder_that_names_another_trial(tmp_path: Path) -> None:
    (tmp_path / TRIAL_FILE).write_text("f" * 64)
    training = TrainingData(dev=DevSelection(), chosen_on=("stsb",))
    with pytest.raises(NotFoundError, match="is not the model of trial aaaa"):
        score_kept_model(str(tmp_path), "a" * 64, Tasks(("sts12",)), training, "builtin", None, 1)


def test_a_trial_without_its_model_is_not_reused_where_test_sets_want_it(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path / "a", four(new_spec, keep={"models": 1}), score=hot)
    first.run()
    delete_surplus_models(first.state)
    first.close()
    for name, changes, reused in (
        ("values", {}, 4),
        ("tests", {"evaluate": {"top": 1, "tasks": ["stsb"]}}, 1),
    ):
        spec = four(new_spec, sweep=name, **changes)
        other = new_drive(tmp_path / name, spec, score=hot, leaderboard=tmp_path / "a")
        other.run()
        other.close()
        trials = other.history.trials.values()
        assert sum(trial.reused_from is not None for trial in trials) == reused


def test_a_leaderboard_that_is_behind_the_journal_ends_no_sweep(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, four(new_spec, keep={"models": 1}), score=hot)
    drive.run()
    drive.state.leaderboard = open_store(f"sqlite:///{tmp_path / 'empty.db'}")
    delete_surplus_models(drive.state)
    assert [temperature for temperature, _ in kept(drive)] == [0.4]
    drive.state.leaderboard.close()
    drive.close()
