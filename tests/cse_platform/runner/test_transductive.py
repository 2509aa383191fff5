"""Trials on the texts of test sets: on record as an opening, marked, and apart from clean ones."""

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.evaluation.test_sets.pairs import hand_out_texts
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.comparisons import describe_row, named_rows
from cse_platform.sweep.identity import DevData, Identity, dev_identity
from cse_platform.tracking.events import TestAccessed, TrialPoint, TrialStarted
from cse_platform.tracking.journal import read_journal

CORPUS = {"name": "sts12", "transductive": True}


def test_trials_are_marked_and_stand_apart(start, tmp_path, new_spec, cheap, monkeypatch) -> None:
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
    assert "(transductive) on mini" in describe_row(marked)
    assert marked.dev.identity == dev_identity(spec.dev, "builtin", corpora=spec.corpus)
    assert names["cheap"].dev.identity == dev_identity(spec.dev, "builtin")
    assert marked.dev.identity != names["cheap"].dev.identity
