import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import new_spec
from sqlalchemy import update

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData
from cse_methods.tasks import Tasks
from cse_platform.errors import NotFoundError, SweepRefusedError
from cse_platform.kept_models import TRIAL_FILE
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.presentation.trial import explain_missing_model
from cse_platform.runner.model_retention import delete_surplus_models
from cse_platform.runner.model_tasks import score_kept_model
from cse_platform.search.prior_results import best_folders, refuse_lost_models
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import ConfigurationRecord
from cse_platform.sweep.identity import DevData
from cse_platform.sweep.references import BestReference
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal


def hot(values: Mapping[str, Any], seed: int, step: int) -> float:
    return float(values["temperature"]) + step / 1000 - seed / 1e6


FOUR: dict[str, Any] = {
    "space": {"temperature": [0.1, 0.2, 0.3, 0.4]},
    "search": {"sampler": {"kind": "grid"}, "trials": None},
}
ONE = FOUR | {"keep": {"models": 1}}


def kept(drive: Any) -> list[tuple[float, int]]:
    """Temperature and seed of the trials whose model is where the history says."""
    trials = drive.trials
    assert all(trial.model is None or Path(trial.model).is_dir() for trial in trials)
    found = [(t.values["temperature"], t.seed) for t in trials if t.model is not None]
    assert len(list(Path(drive.state.folders.models).iterdir())) == len(found)
    return sorted(found)


def value(trial: Any) -> float:
    return float(trial.best_value)


def test_the_best_configurations_keep_the_models_of_all_their_seeds(start) -> None:
    seeds = {"confirm": {"top": 1, "seeds": [0]}}
    drive = start(**FOUR, keep={"models": 2}, seeds=seeds, score=hot).run()
    delete_surplus_models(drive.state)
    assert kept(drive) == [(0.3, 42), (0.4, 0), (0.4, 42)]
    delete_surplus_models(drive.state)  # nothing more
    drive.close()
    events = drive.events()
    assert sum(event.kind == "model_deleted" for event in events) == 2
    assert sum(trial.model_deleted for trial in History(events).trials.values()) == 2
    gone = next(one for one in drive.trials if one.model_deleted)
    reader = Leaderboard(drive.state.leaderboard)
    told, there = (reader.trial(each.key) for each in (gone, max(drive.trials, key=value)))
    assert told.model is None and "was deleted on 20" in explain_missing_model(told)
    assert there.model is not None and there.model_deleted is None


def test_how_many_are_kept(start, monkeypatch) -> None:
    drive = start(**FOUR, score=hot).run()
    evaluate = {"top": 3, "tasks": ["stsb"]}
    for changes, left in (
        ({}, 4),  # ten by default
        ({"keep": {"models": "all"}}, 4),
        ({"keep": {"models": 1}, "evaluate": evaluate}, 3),
        ({"keep": {"models": 1}}, 1),
    ):
        monkeypatch.setattr(drive.state, "spec", new_spec(**FOUR, **changes))
        delete_surplus_models(drive.state)
        assert len(kept(drive)) == left, changes


def test_what_other_sweeps_need_stays(start) -> None:
    first = start(**ONE, folder="a", score=hot).run()
    first.recorder.flush(10)
    both = {"sweep": "both", "space": {"temperature": [0.2]}, "search": {"trials": 1}}
    start(**both, folder="b", score=hot, leaderboard="a").run().close()
    by_temperature, board = (
        {t.values["temperature"]: t for t in first.trials},
        first.state.leaderboard,
    )
    with board.writing() as session:
        teacher = {"teachers": [by_temperature[0.1].model]}
        other = ConfigurationRecord.hash != by_temperature[0.1].configuration
        session.execute(update(ConfigurationRecord).where(other).values(values=teacher))
    with board.session() as session:
        keys = {temperature: trial.key for temperature, trial in by_temperature.items()}
        used = used_elsewhere(session, list(keys.values()), sweep="small")
    assert used == {keys[0.1], keys[0.2]}
    delete_surplus_models(first.state)
    assert [temperature for temperature, _ in kept(first)] == [0.1, 0.2, 0.4]


def test_nothing_is_deleted_while_the_leaderboard_lacks_a_sweep(start, caplog) -> None:
    drive = start(**ONE, folder="sweeps/small", score=hot).run()
    journal = drive.state.folders.runs / "sweeps" / "other" / "journal.jsonl"
    with Journal(journal) as other, Journal(journal.parents[1] / "begun" / "journal.jsonl"):
        other.append(SweepFinished(sweep="other", state="COMPLETE"))
        delete_surplus_models(drive.state)
        assert len(kept(drive)) == 4
        assert "has nothing of other in" in caplog.text
        apply_journal(LeaderboardSink(drive.state.leaderboard), journal)
        delete_surplus_models(drive.state)
    assert len(kept(drive)) == 1


def test_a_best_encoder_that_is_gone_is_refused_with_its_trial(start) -> None:
    drive = start(**ONE, score=hot).run().close()
    best = max(drive.trials, key=value)
    shutil.rmtree(best.model)
    reference = BestReference("cheap", "mini")
    gate = {"best": {"method": "cheap", "backbone": "mini"}}
    later = drive.spec.model_copy(update={"sweep": "later", "fixed": {"gate": gate}})
    board, named = drive.state.leaderboard, f"{drive.spec.sweep}#{best.number}, in {best.model}, "
    said = f"{re.escape(named)}which is not there.*cse-leaderboard reproduce {best.key[:16]} "
    with pytest.raises(SweepRefusedError, match=said):  # at the first start
        best_folders(later, DevData(later), board, [reference])
    with pytest.raises(SweepRefusedError, match=said):  # and at those that follow
        refuse_lost_models(later, {reference.placeholder: best.model}, board)


def test_a_model_that_was_reused_is_not_ours_to_delete(start) -> None:
    first = start(**FOUR, folder="a", score=hot).run().close()
    second = start(sweep="again", **ONE, folder="b", score=hot, leaderboard="a").run()
    delete_surplus_models(second.state)
    assert len(kept(first)) == 4


def test_a_folder_that_names_another_trial_is_left_and_refused(start, caplog) -> None:
    drive = start(**ONE, score=hot).run()
    strange = min(drive.trials, key=value)
    (Path(strange.model) / TRIAL_FILE).write_text("f" * 64)
    delete_surplus_models(drive.state)
    assert [temperature for temperature, _ in kept(drive)] == [0.1, 0.4]
    assert not strange.model_deleted and str(strange.model) in caplog.text
    drive.close()
    best, reference = max(drive.trials, key=value), BestReference("cheap", "mini")
    asked = (drive.spec, DevData(drive.spec), drive.state.leaderboard, [reference])
    assert best_folders(*asked) == {reference.placeholder: best.model}
    (Path(best.model) / TRIAL_FILE).write_text("f" * 64)
    with pytest.raises(SweepRefusedError, match=f"{best.model} is not the model of trial"):
        best_folders(*asked)
    # Nor are test sets opened for it.
    training = TrainingData(dev=DevSelection(), chosen_on=("stsb",))
    with pytest.raises(NotFoundError, match=f"is not the model of trial {best.key[:4]}"):
        score_kept_model(best.model, best.key, Tasks(("sts12",)), training, "builtin", None, 1)


def test_a_trial_without_its_model_is_not_reused_where_test_sets_want_it(start) -> None:
    first = start(**ONE, folder="a", score=hot).run()
    delete_surplus_models(first.state)
    first.close()
    for name, changes, reused in (
        ("values", {}, 4),
        ("tests", {"evaluate": {"top": 1, "tasks": ["stsb"]}}, 1),
    ):
        other = start(sweep=name, **FOUR, **changes, folder=name, score=hot, leaderboard="a")
        trials = other.run().close().trials
        assert sum(trial.reused_from is not None for trial in trials) == reused


def test_a_leaderboard_that_is_behind_the_journal_ends_no_sweep(start, tmp_path) -> None:
    drive = start(**ONE, score=hot).run()
    drive.state.leaderboard = open_store(f"sqlite:///{tmp_path / 'empty.db'}")
    delete_surplus_models(drive.state)
    assert [temperature for temperature, _ in kept(drive)] == [0.4]
    drive.state.leaderboard.close()
    drive.close()
