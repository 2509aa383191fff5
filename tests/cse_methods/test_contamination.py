import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from letter_models import Letters

from cse_methods.data.corpora import KNOWN
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData, sentence_key
from cse_methods.data.transfer_sets import load_transfer_set
from cse_methods.encoders.short_names import HUB
from cse_methods.evaluation.contamination import CountedSet, count_contamination
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.published.released import declared_training
from cse_methods.task_reference import parse_reference
from cse_methods.tasks import CONTAMINATION_METRICS, Tasks, parse_tasks

TESTS = {"sts12": ["a dog runs", "A dog runs!", "a cat sleeps !", "it was", "..."]}
"""Three different sentences; the last has neither letter nor digit."""


@pytest.fixture
def training(tmp_path: Path) -> TrainingData:
    """Trained on a file with two of the sentences, chosen by one with another, by hand."""
    corpus, dev = tmp_path / "corpus.txt", tmp_path / "lab.tsv"
    corpus.write_text("A dog runs.\nnothing\nA CAT sleeps\na dog runs and runs and runs\n")
    lines = [f"only here {n}\tit is so {n}\t{n % 5}" for n in range(10)]
    dev.write_text("\n".join(["sentence1\tsentence2\tscore", "a dog runs\tIt  was\t2", *lines]))
    return TrainingData(
        dev=DevSelection.model_validate({"checkpoint": str(dev), "search": str(dev), "also": []}),
        chosen_on=("lab",),
        corpora=(CorpusSpec(name=str(corpus), split_at=4),),
        data="builtin",
        backbone="mini",
    )


def of_data(tests: Mapping[str, list[str]]) -> dict[str, CountedSet]:
    return {task: CountedSet(texts, f"sha256 of {task}") for task, texts in tests.items()}


def counts(
    training: TrainingData, tests: Mapping[str, list[str]] = TESTS
) -> dict[tuple[str, str, str], tuple[int, int]]:
    return {
        (one.split, one.task, one.metric): (one.found, one.settings["sentences"])
        for one in count_contamination(of_data(tests), training)
    }


def test_distinct_sentences_are_counted_in_corpus_teachers_and_dev_files(
    training: TrainingData, caplog
) -> None:
    assert counts(training) == {
        ("test", "sts12", "in_corpus"): (2, 3),
        ("dev", "lab", "in_corpus"): (1, 22),
        ("test", "sts12", "in_dev"): (2, 3),
    }
    [first, *_] = count_contamination(of_data(TESTS), training)
    assert (first.share, first.settings["in"]) == (2 / 3, ["corpus.txt"])
    assert first.settings["data_sha256"] == "sha256 of sts12"
    away = training.model_copy(update={"corpora": (CorpusSpec(name="wiki1m"),)})
    assert counts(away).keys() == {("test", "sts12", "in_dev")}
    assert "cse-data fetch" in caplog.text
    Path(training.corpora[0].name).unlink()
    Path(training.dev.files["lab"].file).unlink()
    assert counts(training) == {}
    assert "corpus.txt" in caplog.text and "lab.tsv" in caplog.text


def test_the_corpora_that_teachers_declare_are_searched(
    training: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = tmp_path / "corpus" / "wiki1m.txt"
    wiki.parent.mkdir()
    wiki.write_text("it was\n")
    (wiki.parent / "nli.csv").write_text("sent0,sent1,hard_neg\nnothing,A dog runs,no\n")
    for name in ("wiki1m", "nli"):
        monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], lines=1))

    def taught(*teachers: str) -> TrainingData:
        return training.model_copy(update={"teachers": teachers, "data": str(tmp_path)})

    found = counts(taught("simcse-bert-base", "some/model"))
    assert found["test", "sts12", "in_teachers"] == (1, 3)
    both = counts(taught("simcse-bert-base", "princeton-nlp/sup-simcse-bert-base-uncased"))
    assert both["test", "sts12", "in_teachers"] == (2, 3)
    assert found["test", "sts12", "in_corpus"] == (2, 3)


def test_an_evaluation_counts_the_seen_sentences_of_its_tasks(training: TrainingData) -> None:
    pairs = load_pair_set("sts13", "builtin")
    Path(training.corpora[0].name).write_text("\n".join([*pairs.first[:30], "nothing"]))
    found = evaluate(Letters(), parse_tasks(["sts13", "mr"]), data="builtin", training=training)
    shares = {
        (one.split, one.task, one.metric): one.value
        for one in found.scores
        if one.metric in CONTAMINATION_METRICS
    }
    different = {sentence_key(text) for text in (*pairs.first, *pairs.second)}
    seen = {sentence_key(text) for text in pairs.first[:30]}
    assert shares["test", "sts13", "in_corpus"] == len(seen) / len(different)
    assert shares.keys() >= {("test", "mr", "in_corpus"), ("dev", "lab", "in_corpus")}
    [mr] = [one for one in found.scores if (one.task, one.metric) == ("mr", "in_corpus")]
    reviews = load_transfer_set("mr", "builtin").train.first  # folded: all are tested
    assert found.identities[mr.identity]["sentences"] == len(set(map(sentence_key, reviews)))
    alone = evaluate(Letters(), parse_tasks(["sts13"]), data="builtin")
    assert {one.metric for one in alone.scores}.isdisjoint(CONTAMINATION_METRICS)


def test_every_declared_training_names_its_page_and_a_known_corpus() -> None:
    simcse = declared_training("simcse-bert-base")
    assert simcse is not None and simcse.corpus == "wiki1m" and not simcse.pairs
    assert declared_training("princeton-nlp/unsup-simcse-bert-base-uncased@main") == simcse
    minilm = declared_training("minilm")
    assert minilm is not None and minilm.pairs
    assert declared_training("some/model") is None
    ids = {row["model"] for row in HUB.values()}
    known = [one for name in ids if (one := declared_training(name)) is not None]
    assert len(known) >= len(ids) - 1  # GloVe's is not checked
    for one in known:
        assert one.source.startswith("https://")
        assert one.corpus is None or one.corpus in KNOWN


def test_sentences_of_own_tasks_are_counted_too(
    training: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mteb")
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cse"))
    rows = [("A dog runs.", "nothing", f"other {n}") for n in range(2)]
    parts = ("anchor", "positive", "negative")
    lines = [json.dumps(dict(zip(parts, row, strict=True))) for row in rows]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    tasks = Tasks(referenced=(parse_reference({"triplets": str(tmp_path / "t.jsonl")}),))
    found = evaluate(Letters(), tasks, data="builtin", training=training)
    [seen] = [one for one in found.scores if one.metric == "in_corpus" and one.split == "test"]
    [score] = [one for one in found.scores if one.metric == "main_score"]
    assert (seen.task, seen.value) == ("triplets:t", 2 / 4)
    known, of_score = (found.identities[one.identity] for one in (seen, score))
    assert known["data_sha256"] == of_score["data_sha256"] and known["source"] == "file"
