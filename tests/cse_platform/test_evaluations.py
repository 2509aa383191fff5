from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from board_contents import contents
from sqlalchemy import select, text
from stored_trials import apply_events, stored_scores, stored_test_accesses
from sweep_events import NOON, opening, sweep_started, trial_evaluated, trial_life

from cse_methods.evaluation.results import Evaluation, Examples, Score
from cse_methods.tasks import parse_tasks
from cse_platform.errors import QueryError, StoreDownError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.trials import trial_of_key
from cse_platform.scoring import record_test_access
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import EvaluationRecord, ExampleSetRecord
from cse_platform.tracking.events import Event, TestAccessed, TrialEvaluated
from cse_platform.tracking.packing import evaluation_event


@pytest.fixture
def with_trials(board) -> Store:
    tell(board, sweep_started(), *trial_life(0, {10: 0.75}), *trial_life(1, {10: 0.5}))
    return board


def tell(board: Store, *told: Event, journal: str = "j") -> None:
    apply_events(board, told, journal=journal)


def opened(hours: float = 0, trial: str = "c0-42", **changes: Any) -> TestAccessed:
    fields = {"command": "cse-sweep", "tasks": ("sts12", "stsb"), "source": "senteval"}
    return opening(trial, hours=hours, **fields | changes)


def pairs(**changes: Any) -> TrialEvaluated:
    given = {
        "task": "sts12", "split": "test", "identity": "e1", "subsets": {"b": 1, "a": 2},
        "statistic": "spearman", "values": np.array([0.1, -0.5, 1.0], np.float32),
        "gold": np.array([0.2, 3.6, 5.0]), "data_sha256": "d1",
    }  # fmt: skip
    evaluation = Evaluation(tasks=frozenset(), scores=(), examples=(Examples(**(given | changes)),))
    return evaluation_event(sweep="first", trial="c0-42", evaluation=evaluation, source="hub")


def test_scores_are_kept_as_they_are(with_trials) -> None:
    scores = {"test/sts12_spearman": 0.1 + 0.2, "test/sts12_kcc": -0.25, "dev/stsb_uniformity": -3}
    tell(with_trials, trial_evaluated("c0-42", scores))
    with with_trials.session() as session:
        found = stored_scores(session, "c0-42")
        expected = [("sts12", "kcc", -0.25, "e1"), ("sts12", "spearman", 0.30000000000000004, "e1")]
        assert [(one.task, one.metric, one.value, one.identity) for one in found] == expected
        assert stored_scores(session, "c1-42") == []
        told = session.get_one(EvaluationRecord, "e1")
        assert told.settings == {"pooler": "cls"}
    kept = contents(with_trials)["scores"]
    assert any("'stsb', 'dev', 'uniformity', 'e1', -3.0, " in score for score in kept)


def test_a_replay_adds_nothing(with_trials) -> None:
    scored = trial_evaluated("c0-42", {"test/sts12_spearman": 0.5})
    told = [opened(), opened(1), scored, opened(2, who="bob"), pairs()]
    tell(with_trials, *told)
    once = contents(with_trials)
    assert (len(once["accesses"]), len(once["example_sets"])) == (3, 1)
    with with_trials.writing() as session:
        session.execute(text("DELETE FROM journal_cursors"))
    tell(with_trials, *told)
    assert contents(with_trials) == once


def test_the_first_source_that_is_told_stands(with_trials) -> None:
    def told(source: str | None) -> str | None:
        scores = {"test/mr_accuracy": 0.5, "test/avg_transfer_accuracy": 0.5}
        tell(with_trials, trial_evaluated("c0-42", scores, source=source))
        with with_trials.session() as session:
            return session.get_one(EvaluationRecord, "e1").source

    sources = (None, "builtin", None, "hub")  # the first as journals of before have it
    assert list(map(told, sources)) == [None, "builtin", "builtin", "builtin"]
    tell(with_trials, pairs().model_copy(update={"identities": {"e9": {}}}))
    with with_trials.session() as session:
        assert session.get_one(EvaluationRecord, "e9").source == "hub"


@pytest.fixture
def by_hand(with_trials, tmp_path) -> Callable[..., AbstractContextManager[Any]]:
    """Opens built-in test sets, by default one of them, and own files for a trial."""
    stores = {"leaderboard": with_trials, "mlflow": None, "journal": tmp_path / "journal"}
    with with_trials.session() as session:
        trial = trial_of_key(session, "c0-42")
    return lambda *words: record_test_access(
        trial, parse_tasks(words or ["mr"]), data="builtin", **stores
    )


def test_what_is_scored_by_hand_tells_its_source(with_trials, by_hand) -> None:
    """Built-in sets tell nothing of real ones, whatever data the trial itself had."""
    score = Score(task="mr", split="test", metric="accuracy", value=0.5, identity="e1")
    evaluation = Evaluation(
        tasks=frozenset({"mr"}), scores=(score,), examples=(), identities={"e1": {}}
    )
    with by_hand() as record:
        assert record(evaluation) == []
    with with_trials.session() as session:
        assert session.get_one(EvaluationRecord, "e1").source == "builtin"
        assert [one.source for one in stored_test_accesses(session)] == ["builtin"]


def test_each_source_of_opened_test_sets_is_recorded(with_trials, by_hand, tmp_path) -> None:
    own = tmp_path / "own.tsv"
    for words in (["geometry", str(own)], ["mr", "geometry", str(own)], ["geometry"]):
        with by_hand(*words):
            pass
    with with_trials.session() as session:
        accesses = [(one.source, one.tasks) for one in stored_test_accesses(session)]
    assert accesses == [("file", [str(own)]), ("builtin", ["mr", "geometry"]), ("file", [str(own)])]


def test_test_sets_stay_shut_while_the_leaderboard_cannot_record_it(
    with_trials, by_hand, monkeypatch
) -> None:
    with with_trials.writing() as session:
        session.execute(text("ALTER TABLE trials RENAME TO lost"))
    monkeypatch.setattr("cse_platform.scoring.FLUSH_SECONDS", 0.1)
    monkeypatch.setattr("cse_platform.tracking.recorder.LONGEST_DELAY", 0.1)
    with pytest.raises(StoreDownError, match="stay closed"), by_hand():
        pytest.fail("a test set could be opened")


def test_the_last_evaluation_of_one_identity_stands(with_trials) -> None:
    again = trial_evaluated("c0-42", {"test/mr_accuracy": 0.7}, time=NOON + timedelta(hours=1))
    tell(with_trials, again)
    tell(with_trials, trial_evaluated("c0-42", {"test/mr_accuracy": 0.5, "test/cr_accuracy": 0.6}))
    tell(with_trials, trial_evaluated("c0-42", {"test/mr_accuracy": 0.8}, identity="e2"))
    with with_trials.session() as session:
        found = stored_scores(session, "c0-42")
    expected = [("cr", 0.6, "e1"), ("mr", 0.7, "e1"), ("mr", 0.8, "e2")]
    assert [(one.task, one.value, one.identity) for one in found] == expected


def test_nonsense_is_told_and_left_out(with_trials, caplog) -> None:
    nan, inf = float("nan"), float("inf")
    scores = {"test/sts12_spearman": nan, "test/sts13_spearman": 72.4, "dev/stsb_uniformity": inf}
    tell(with_trials, trial_evaluated("c0-42", scores | {"test/sts14_spearman": 1.0}))
    with with_trials.session() as session:
        assert [one.task for one in stored_scores(session, "c0-42")] == ["sts14"]
    for told in ("test/sts12_spearman=nan", "test/sts13_spearman=72.4", "dev/stsb_uniformity=inf"):
        assert f"trial c0-42: {told} is not a fraction and was not stored" in caplog.text


def test_what_is_told_of_a_trial_waits_for_it(with_trials, caplog) -> None:
    """A sweep can take trials over, and evaluate them, that a new store has never seen."""
    before = contents(with_trials)
    tell(with_trials, opened(trial="c7-42"), trial_evaluated("c7-42", {"test/mr_accuracy": 0.5}))
    assert {**contents(with_trials), "early": []} == before
    assert caplog.text.count("sweep first: trial c7-42 ") == 1  # once for both
    tell(with_trials, *trial_life(7, {0: 0.5}))
    with with_trials.session() as session:
        assert [one.value for one in stored_scores(session, "c7-42")] == [0.5]


def test_values_by_example_are_found_again(with_trials) -> None:
    tell(with_trials, pairs())
    found = Leaderboard(with_trials).examples("first#0", "sts12")
    assert (found.task, found.split, found.identity) == ("sts12", "test", "e1")
    assert found.values.dtype == np.float32 and found.gold.dtype == np.float64
    assert found.values.tolist() == np.array([0.1, -0.5, 1.0], np.float32).tolist()
    assert found.gold.tolist() == [0.2, 3.6, 5.0]
    assert list(found.subsets.items()) == [("b", 1), ("a", 2)]  # the order is that of the data
    assert found.data_sha256 == "d1"
    other = np.array([0.0, 0.5, 0.5], np.float32)
    dev = np.array([0.0, 0.25, 0.5], np.float32)
    tell(with_trials, pairs(), pairs(split="dev", identity="d", values=dev, data_sha256="d2"))
    reader = Leaderboard(with_trials)
    assert reader.examples("first#0", "sts12").split == "test"
    found = reader.examples("first#0", "sts12", "d")
    assert (found.split, found.values.tolist()) == ("dev", [0.0, 0.25, 0.5])
    tell(with_trials, pairs(identity="e2"), pairs(identity="e2", values=other))
    with with_trials.session() as session:
        [stored, _] = session.scalars(
            select(ExampleSetRecord).order_by(ExampleSetRecord.split.desc())
        )
        assert (stored.task, stored.split, stored.examples) == ("sts12", "test", 3)
    assert reader.examples("first#0", "sts12", "e1").values[2] == 1
    assert reader.examples("first#0", "sts12", "e2").values[2] == 0.5
    assert reader.examples("first#0", "sts12", "e2").gold[2] == 5


def test_values_by_example_that_are_not_there(with_trials) -> None:
    kept = trial_life(2, {10: 0.5}, model="models/two")
    tell(with_trials, pairs(), pairs(identity="e2"), *kept)
    for asked, message in {
        ("first#2", "sts12"): "trial 'c2-42' has no values by example of 'sts12'; cse-evaluate on",
        ("first#1", "sts12"): "trial 'c1-42' has no values .* of 'sts12', nor a kept model for",
        ("first#0", "sts12", "e9"): "of 'sts12' under identity 'e9', nor a kept model for",
        ("first#0", "sts12"): "of 'sts12' under several identities; name one of e1, e2",
    }.items():
        with pytest.raises(QueryError, match=message):
            Leaderboard(with_trials).examples(*asked)
