import copy
from typing import Any

import pytest
from in_process import new_spec

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.evaluation.test_sets.pairs import hand_out_texts
from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.comparisons import summarize_row
from cse_platform.leaderboard.row_names import named_rows
from cse_platform.presentation.comparison import describe_row
from cse_platform.sweep.identity import DevData, Identity, dev_identity
from cse_platform.tracking.events import TestAccessed, TrialPoint, TrialStarted
from cse_platform.tracking.journal import read_journal


def changed(identity: Identity, **changes: Any) -> Identity:
    other = copy.copy(identity)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


@pytest.fixture
def other_code(identity: Identity) -> Identity:
    return changed(identity, code={**identity.code, "cheap": "0" * 64})


def finish(drive: Any) -> dict[str, str | None]:
    """Run a sweep to its end; the sweep that each trial was reused from, by key."""
    drive.run().assert_sound().close()
    return {key: trial.reused_from for key, trial in drive.history.trials.items()}


def test_trials_of_the_same_code_are_reused_and_of_other_code_are_others(start, other_code) -> None:
    two = {"trials": 2}
    first = finish(start(search=two, folder="a"))
    again = finish(start(sweep="again", search=two, folder="b", leaderboard="a"))
    assert again == dict.fromkeys(first, "small")
    fresh = start(sweep="fresh", search=two, folder="c", leaderboard="a", reuse=False)
    assert finish(fresh) == dict.fromkeys(first)
    drive = start(sweep="d", search=two, folder="d", leaderboard="a", identity=other_code)
    other = finish(drive)
    assert set(other.values()) == {None}
    assert not first.keys() & other.keys()
    with open_leaderboard(drive.folder.parent / "a") as board:
        codes = {board.trial(key).configuration.code for key in (*first, *other)}
        [row] = board.rows()
    assert len(codes) == 2 and None not in codes
    newest = drive.state.identity.of_config(drive.spec.config_of(row.configuration.values)).code
    assert row.other_code == (row.configuration.code != newest)


def test_trials_of_unknown_code_are_never_reused(start, identity) -> None:
    two, unknown = {"trials": 2}, changed(identity, code={})
    first = finish(start(search=two, folder="a", identity=unknown))
    fresh = finish(start(sweep="b", search=two, folder="b", leaderboard="a"))
    assert not first.keys() & fresh.keys()
    again = start(sweep="other", search=two, folder="c", leaderboard="a", identity=unknown)
    assert set(finish(again).values()) == {None}


def test_a_sweep_of_other_content_is_refused_and_the_change_is_named(start, identity) -> None:
    one, changes = (
        {"trials": 1},
        {
            "cheap": {"code": {"cheap": "0" * 64}},
            "corpus": {"corpus_sha256": "0"},
            "dev data": {"dev_sha256": {"stsb": "0", "sickr": "0"}},
        },
    )
    for complete in (False, True):
        drive = start(search=one)
        if complete:
            drive.run()
        else:
            drive.start()
        drive.close()
        for named, change in changes.items():
            with pytest.raises(SweepRefusedError, match=f"{named}.*--set sweep=NEWNAME"):
                start(search=one, identity=changed(identity, **change))


def test_a_file_that_a_setting_names_is_content_too(start, tmp_path, monkeypatch) -> None:
    from cheap import CheapConfig

    words = tmp_path / "words.txt"
    words.write_text("one")
    monkeypatch.setattr(CheapConfig, "files", lambda self: (self.gate,))
    spec = new_spec(fixed={"gate": str(words)}, search={"trials": 1})
    start(spec).run().close()
    words.write_text("another")
    with pytest.raises(SweepRefusedError, match=r"words\.txt changed"):
        start(spec)


def failing(drive: Any, error: str = "TypeError: a typo") -> None:
    """Every trial of a sweep fails, each in its own way; then the sweep is at its end."""
    while drive.start():
        for key in list(drive.running):
            drive.fail(key, f"{error} in {key}", crashed=False)
    assert drive.state.finished
    drive.close()


def test_mended_code_tries_failed_trials_again(start, tmp_path, identity, other_code) -> None:
    failing(start(identity=other_code))
    same = start(identity=other_code)
    assert same.start() == [] and same.state.finished
    same.close()
    mended = start()
    finish(mended)
    assert [(t.number, t.state) for t in mended.trials] == [(n, "COMPLETE") for n in range(3)]
    assert mended.outcome() == start(folder="other").run().outcome()
    with open_leaderboard(tmp_path) as board:
        counts = board.sweep("small").counts
        assert counts["COMPLETE"] == sum(counts.values()) == 3
        assert [trial.number for trial in board.search("small").trials] == [0, 1, 2]


def test_failed_trials_are_tried_again_in_another_environment(start) -> None:
    packages = {"sacremoses": "0.1"}
    drive = start()
    (first,) = drive.start()
    drive.fail(first.key, "ImportError: no sacremoses", crashed=False)
    finish(drive)
    assert drive.history.trials[first.key].state == "FAIL"
    again = start(packages=packages)
    finish(again)
    assert {t.number: t.state for t in again.trials} == dict.fromkeys(range(3), "COMPLETE")
    assert again.history.trials[first.key].search_number == 3
    third = start(packages=packages)
    assert third.start() == [] and third.state.finished


def test_a_limit_of_trials_at_once_does_not_try_failed_ones_again(start) -> None:
    drive = start()
    (first,) = drive.start()
    drive.fail(first.key, "ImportError: no sacremoses", crashed=False)
    finish(drive)
    limited = start(resources={"at_most": 1})
    assert limited.start() == [] and limited.state.finished
    limited.close()
    roomier = start(resources={"cpu": 2})
    assert [trial.number for trial in roomier.start()] == [first.number]


CORPUS = {"name": "sts12", "transductive": True}


def test_trials_are_marked_and_stand_apart(start, tmp_path, cheap, monkeypatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    hand_out_texts([CorpusSpec.model_validate(CORPUS)], "builtin")
    clean = start(folder="clean").run()
    spec = new_spec(sweep="texts", corpus=CORPUS)
    identity = Identity(spec, cheap, DevData(spec))
    texts = start(spec, folder="texts", identity=identity, leaderboard="clean").run()
    for drive in (clean, texts):
        drive.close()

    events = [event for _, event in read_journal(tmp_path / "texts" / "journal.jsonl")]
    for trial in texts.history.trials:
        of_trial = [event for event in events if getattr(event, "trial", None) == trial]
        kinds = [type(event) for event in of_trial[:3]]
        assert kinds == [TrialStarted, TestAccessed, TrialPoint]
        assert of_trial[1].tasks == ("sts12",)
    before = [event for _, event in read_journal(tmp_path / "clean" / "journal.jsonl")]
    assert not any(isinstance(event, TestAccessed) for event in before)

    with texts.state.leaderboard.session() as session:
        rows = board_rows(session)
    names = {row.shown_method: row for row in rows}
    assert names.keys() == {"cheap", "cheap (transductive)"}
    marked = names["cheap (transductive)"]
    assert marked.corpus == "sts12 (transductive)"
    assert set(named_rows([marked])) == {"cheap (transductive)"}
    assert "(transductive) on mini" in describe_row(summarize_row(marked))
    assert marked.dev.identity == dev_identity(spec.dev, "builtin", corpora=spec.corpus)
    assert names["cheap"].dev.identity == dev_identity(spec.dev, "builtin")
    assert marked.dev.identity != names["cheap"].dev.identity
