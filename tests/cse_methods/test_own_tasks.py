"""A lab's own files as tasks, and tasks as dev sets."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from letter_models import Letters
from loopback_hub import LoopbackHub
from own_tasks import write_own_tasks
from task_hub import *  # noqa: F403
from task_hub import put_task

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.data.dev_sets import identify_dev_set, missing_dev_data
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import DataError, EvaluationError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.referenced_tasks.dev_set import ReferencedSet
from cse_methods.referenced_tasks.ranking import RankedDocuments, find_measure
from cse_methods.referenced_tasks.snapshots import with_snapshot
from cse_methods.registry import get_method
from cse_methods.task_reference import parse_reference
from cse_methods.tasks import Tasks, split_tasks
from cse_methods.training.checkpoint import STATE_FILE
from cse_methods.training.dev_evaluation import DevSuite


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cse"))
    return tmp_path / "cse"


def encode(texts: Sequence[str]) -> torch.Tensor:
    [(_, vectors)] = Letters().batches(list(texts))
    return vectors


def test_own_files_are_tested_and_developed_on_as_mteb_scores_them(tmp_path: Path) -> None:
    pytest.importorskip("mteb")
    entries = write_own_tasks(tmp_path)
    tests = [parse_reference(entry) for entry in entries.values()]
    assert [one.task for one in tests] == [
        *("retrieval:faq", "triplets:t", "classification:intent", "pairs:p", "clusters:c")
    ]
    found = evaluate(Letters(), Tasks(referenced=tuple(tests)))
    scores = {score.task: score.value for score in found.scores}
    assert len(scores) == 5 and all(0 < value < 1 for value in scores.values())
    statistics = {one.task: (one.statistic, len(one.values)) for one in found.examples}
    assert statistics == {
        "retrieval:faq": ("mean", 9),
        "triplets:t": ("mean", 20),
        "classification:intent": ("mean", 30),
        "pairs:p": ("average_precision", 40),
    }
    for one in tests:  # the same rows, as a dev set
        on_dev = ReferencedSet(one)
        assert on_dev.score(encode) == pytest.approx(scores[one.task], abs=1e-5), one.task
    dev = parse_reference(entries["retrieval"], dev=True)
    assert dev.paths[-1].endswith("faq/qrels/dev.tsv")
    assert ReferencedSet(dev).score(encode) != pytest.approx(scores["retrieval:faq"], abs=1e-3)


def test_ranked_documents_by_hand() -> None:
    # One query; the documents' cosines are 1, 0.8, 0.8 and 0. Of equal ones the id "c" is before
    # "b": the ranking is a, c, b, d.
    vectors = {"q": [1.0, 0], "A": [1, 0], "B": [4, 3], "C": [4, 3], "D": [0, 1]}
    corpus = [{"id": name.lower(), "text": name} for name in "ABCD"]

    def embed(texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([vectors[text] for text in texts])

    def score(metric: str, relevant: dict[str, int], candidates: Any = None) -> float:
        lists = [{"query": "1", "documents": relevant}, {"query": "2", "documents": {}}]
        queries = [{"id": number, "text": "q"} for number in "12"]
        measure = find_measure(metric)
        assert measure is not None
        ranked = RankedDocuments(corpus, queries, lists, candidates, measure)
        return ranked.score(embed)

    best = 2 + 1 / math.log2(3)
    assert score("ndcg_at_10", {"c": 1, "b": 2}) == pytest.approx(
        (1 / math.log2(3) + 2 / math.log2(4)) / best
    )
    assert score("ndcg_at_2", {"c": 1, "b": 2}) == pytest.approx(1 / math.log2(3) / best)
    assert score("map_at_1000", {"c": 1, "d": 1}) == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert score("map_at_3", {"c": 1, "d": 1}) == pytest.approx(1 / 2 / 2)
    listed = [{"query": "1", "documents": ["b", "d"]}]
    assert score("map_at_1000", {"d": 1, "c": 1}, candidates=listed) == pytest.approx(1 / 2 / 2)
    same = {"queries": [{"id": "a", "text": "q"}], "lists": [{"query": "a", "documents": {"c": 1}}]}
    measure = find_measure("map_at_1000")
    assert measure is not None
    ranked = RankedDocuments(corpus, *same.values(), None, measure, ignore_identical=True)
    assert ranked.score(embed) == 1  # the query is no document of its own
    vectors["A"] = [math.nan, 0]
    assert math.isnan(score("map_at_1000", {"c": 1}))


QRELS = "query-id\tcorpus-id\tscore\n"
REFUSED = (
    (
        "retrieval",
        "faq/qrels/dev.tsv",
        None,
        r"dev\.tsv: no such file; there are test\.tsv; .*split",
    ),
    ("retrieval", "faq/qrels/dev.tsv", f"{QRELS}q0\td99\t1", r"dev\.tsv, line 2: .* no _id 'd99'"),
    (
        "retrieval",
        "faq/qrels/dev.tsv",
        f"{QRELS}q0\td1\tyes",
        r"dev\.tsv, line 2: .* 'yes'; expected",
    ),
    ("retrieval", "faq/qrels/dev.tsv", f"{QRELS}q0\td1\t0", r"no document is relevant; expected"),
    (  # no settings say how these tables are read
        "retrieval",
        "faq/qrels/dev.tsv",
        f'{QRELS}q0\t"d1" x\t1',
        r'line 2: a quote inside a cell; .* twice: ""$',
    ),
    (
        "retrieval",
        "faq/qrels/dev.tsv",
        QRELS.replace("\t", ";"),
        r"separated by semicolons; save it with tabs$",
    ),
    ("retrieval", "faq/corpus.jsonl", {"_id": "d", "text": ""}, r"line 1: the text is empty"),
    (
        "triplets",
        "t.jsonl",
        {"a": "x y"},
        r"the columns are a; expected anchor, positive, negative",
    ),
    (
        "pairs",
        "p.jsonl",
        {"s1": "x y", "s2": "z", "label": 2},
        r"line 1: the label is 2; expected 0 or 1",
    ),
    ("clusters", "c.jsonl", {"text": "x y", "label": "a"}, r"label is 'a' as in every other row"),
    (
        "classification",
        "intent-test.jsonl",
        {"text": "x y", "label": "new"},
        r"line 1: .* label 'new'",
    ),
)


def test_wrong_files_are_refused_with_file_line_value_and_way_out(tmp_path: Path) -> None:
    entries = write_own_tasks(tmp_path)
    for kind, file, content, expected in REFUSED:
        path = tmp_path / file
        before = path.read_text()
        if content is None:
            path.unlink()
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        with pytest.raises(DataError, match=expected):
            ReferencedSet(parse_reference(entries[kind], dev=True))
        path.write_text(before)


def test_a_changed_byte_is_another_set(tmp_path: Path) -> None:
    entries = write_own_tasks(tmp_path)
    dev = DevSelection(search=entries["retrieval"], also=(entries["pairs"],))
    assert (dev.search, dev.also) == ("retrieval:faq", ("pairs:p",))
    assert dev_metric(dev.search_name) == "dev/retrieval:faq_main_score"
    source, sha256 = identify_dev_set(dev, dev.search, None)
    assert source == "file" and identify_dev_set(dev, dev.search, None)[1] == sha256
    pinned = dev.references[dev.search].model_copy(update={"sha256": sha256})
    assert ReferencedSet(pinned).texts
    file = tmp_path / "faq/qrels/dev.tsv"
    file.write_text(file.read_text().replace("\t0\n", "\t1\n", 1))
    assert identify_dev_set(dev, dev.search, None)[1] != sha256
    with pytest.raises(DataError, match=r"the content has changed: sha256 .* or start another"):
        ReferencedSet(pinned)


def test_dev_sets_are_named_by_references(tmp_path: Path) -> None:
    dev = DevSelection(
        checkpoint="stsb",
        search=["stsb", "mteb:Banking77Classification"],
        also=({"mteb": "STSBenchmark", "split": "validation"},),
    )
    assert dev.search_name == "stsb+mteb:Banking77Classification"
    assert dev_metric(dev.search_name) == "dev/stsb_mteb:Banking77Classification_mean"
    assert {name: own.split for name, own in dev.references.items()} == {
        "mteb:Banking77Classification": "train",
        "mteb:STSBenchmark": "validation",
    }
    assert DevSelection.model_validate(dev.model_dump(mode="json")) == dev
    assert dev.geometry == "stsb"
    assert missing_dev_data(dev, "builtin") == [
        *("task mteb:Banking77Classification (mteb)", "task mteb:STSBenchmark (mteb)")
    ]
    for wrong, expected in (
        ("benchmark:MTEB(eng, v2)", "is no dev set; name tasks of its one by one"),
        ({"mteb": "X", "splits": "dev"}, "names no task; expected mteb:NAME"),
        ({"retrieval": "./a", "name": "a b"}, "at most 100 ASCII letters"),
        ({"classification": {"train": "./a.tsv"}}, "names no task; expected"),
    ):
        with pytest.raises(ValueError, match=expected):
            DevSelection(search=wrong)
    twice = ({"retrieval": "./a/x"}, {"retrieval": "./b/x"})
    with pytest.raises(ValueError, match="retrieval:x is named twice, for other data; add another"):
        DevSelection(also=twice)
    with pytest.raises(EvaluationError, match="a split is of dev sets; write 'mteb:STS12'"):
        parse_reference({"mteb": "STS12", "split": "train"})
    words = split_tasks("sts12,{name: x, classification: {train: a.tsv, test: b.tsv}},mr")
    assert words == ["sts12", "{name: x, classification: {train: a.tsv, test: b.tsv}}", "mr"]


def test_dev_sets_of_mteb_are_of_splits_without_tests(task_hub: LoopbackHub) -> None:
    from cse_methods.referenced_tasks.library import check_references, fetch_references, load_task

    def references(*entries: Any) -> list[Any]:
        return list(DevSelection(also=entries).references.values())

    tested = r"'train' is a split on which the task is evaluated \(train\); a dev set needs another"
    with pytest.raises(EvaluationError, match=tested):
        check_references(references("mteb:NanoNFCorpusRetrieval"))
    with pytest.raises(EvaluationError, match=r"'test' is a split on which .*split: …"):
        check_references(references({"mteb": "STS12", "split": "test"}))
    found = references("mteb:Banking77Classification", {"mteb": "NFCorpus", "split": "dev"})
    rows = {
        "corpus": [{"_id": f"d{n}", "title": "", "text": "abcde"[n] * 3} for n in range(5)],
        "queries": [{"_id": "q", "text": "d d"}],
        "default": [{"query-id": "q", "corpus-id": "d3", "score": 2}],
    }
    put_task(task_hub, "NFCorpus", {name: {"dev": of_part} for name, of_part in rows.items()})
    fetch_references(found)
    classes, ranked = map(ReferencedSet, found)
    # Each fifth of the 30 texts to train on tests the classifiers that the others train.
    assert len(classes.texts) == 30 and 0.3 < classes.score(encode) <= 1
    task, splits = load_task(with_snapshot(found[0]))
    assert splits == ["dev"]
    parts = {name: list(rows["text"]) for name, rows in task.dataset["default"].items()}
    assert (len(parts["train"]), len(parts["dev"])) == (24, 6)
    assert {*parts["train"], *parts["dev"]} == set(classes.texts)
    assert ranked.score(encode) == 1.0
    dev = DevSelection(search="mteb:Banking77Classification", also=())
    assert identify_dev_set(dev, dev.search, None)[0] == "hub"
    suite = DevSuite(dev, data="builtin")
    assert suite.evaluate(load_encoder("mini")).keys() == {
        dev_metric(dev.search),
        "dev/alignment",
        "dev/uniformity",
        "dev/stsb_spearman",
    }


def test_training_is_the_same_with_a_dev_set_of_mteb_and_without(
    task_hub: LoopbackHub, tiny_bert: Path, new_run: Callable[..., Any]
) -> None:
    from cse_methods.referenced_tasks.library import fetch_references

    seen = DevSelection(also=("mteb:Banking77Classification",))
    fetch_references(list(seen.references.values()))

    def train(dev: DevSelection, seed: int = 0) -> tuple[Any, Any]:
        # Each batch is the whole corpus, so that only dropout differs between seeds.
        brief = {"batch_size": 8, "max_steps": 3, "eval_steps": 1, "learning_rate": 1e-2}
        corpus = {"name": "builtin", "first": 8}
        given = {"backbone": str(tiny_bert), "corpus": corpus, "data": "builtin", **brief}
        config = get_method("simcse").config.model_validate(given | {"dev": dev.model_dump()})
        run = new_run(seed=seed)
        get_method("simcse").train(config, run)
        return run.curve, torch.load(run.folder / "3" / STATE_FILE)["student"]

    alone, before = train(DevSelection(also=()))
    curve, after = train(seen)
    name = dev_metric("mteb:Banking77Classification")
    assert all(0 <= point[name] <= 1 for point in curve.values())
    losses = [[of[step]["train/loss"] for step in (1, 2, 3)] for of in (alone, curve)]
    assert losses[0] == losses[1]
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    other, _ = train(seen, seed=1)
    assert abs(other[1]["train/loss"] - curve[1]["train/loss"]) > 1e-3
