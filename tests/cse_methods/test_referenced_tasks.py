"""Tasks of mteb: named by references, scored from snapshots."""

import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from letter_models import Letters
from loopback_hub import LoopbackHub
from processes import environment, python
from task_hub import *  # noqa: F403
from task_hub import KINDS, dataset_card

from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.sentence_transformers_format import write_option
from cse_methods.errors import DataError, EvaluationError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.models import open_model
from cse_methods.referenced_tasks.snapshots import missing_references, with_snapshots
from cse_methods.task_reference import Reference, parse_reference
from cse_methods.tasks import parse_tasks, split_tasks

REFERENCES = [f"mteb:{name}" for name in KINDS]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cse"))
    return tmp_path / "cse"


class Broken(Letters):
    """Gives a NaN in the vector of every call's first text."""

    def batches(self, sentences: Any) -> Any:
        for indices, vectors in super().batches(sentences):
            vectors[0, 0] = float("nan")
            yield indices, vectors


def encode(texts: list[str]) -> torch.Tensor:
    [(_, vectors)] = Letters().batches(texts)
    return vectors


def test_references_are_parsed_and_named() -> None:
    words = split_tasks("sts12, mteb:STS17/es-es/en-en,benchmark:MTEB(eng, v2),./a.tsv")
    assert words == ["sts12", "mteb:STS17/es-es/en-en", "benchmark:MTEB(eng, v2)", "./a.tsv"]
    tasks = parse_tasks(words)
    assert [one.task for one in tasks.referenced] == [
        "mteb:STS17/en-en/es-es",
        "benchmark:MTEB(eng, v2)",
    ]
    assert parse_tasks(tasks.names) == tasks and tasks.opens_tests
    own = parse_reference({"classification": {"train": "a/train.tsv", "test": "a/test.tsv"}})
    assert (own.kind, own.task, own.files) == (
        "classification",
        "classification:test",
        {"train": "a/train.tsv", "test": "a/test.tsv"},
    )
    assert parse_reference({"retrieval": "./beir", "name": "faq"}).task == "retrieval:faq"
    for wrong in ("mteb:", "mteb:A//b", {"retrieval": 3}, {"pairs": "a", "triplets": "b"}):
        with pytest.raises(EvaluationError, match=r"names no task; expected mteb:NAME, "):
            parse_reference(wrong)


def test_a_task_of_each_kind_scores_as_in_mteb_with_the_hub_and_without_it(
    task_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mteb

    from cse_methods.referenced_tasks.adapter import TaskEncoder
    from cse_methods.referenced_tasks.library import fetch_references

    tasks = parse_tasks(REFERENCES)
    with pytest.raises(DataError, match=r"mteb:STS12: its data is not in the cache"):
        evaluate(Letters(), tasks)
    assert len(missing_references(tasks.referenced)) == 7
    fetch_references(tasks.referenced)
    assert missing_references(tasks.referenced) == []
    expected = {}
    for reference in tasks.referenced:
        task = mteb.get_task(reference.name)
        task.hf_subsets = list(reference.subsets) or task.hf_subsets
        found = mteb.evaluate(TaskEncoder(encode), task, cache=None, show_progress_bar=False)
        expected[reference.task] = found.task_results[0].get_score()

    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)  # mteb's own is another
    streams = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    first = evaluate(Letters(), tasks)
    assert random.getstate() == streams[0] and (np.random.get_state()[1] == streams[1]).all()
    assert torch.equal(torch.get_rng_state(), streams[2])
    scores = {score.task: score.value for score in first.scores}
    assert scores == pytest.approx(expected, abs=1e-5)
    assert {score.metric for score in first.scores} == {"main_score"}
    statistics = {one.task: (one.statistic, len(one.values)) for one in first.examples}
    assert statistics == {
        "mteb:STS12": ("spearman", 40),
        "mteb:Banking77Classification": ("mean", 21),
        "mteb:NanoNFCorpusRetrieval": ("mean", 9),
        "mteb:AskUbuntuDupQuestions": ("mean", 9),
        "mteb:SprintDuplicateQuestions": ("average_precision", 30),
    }  # a mean of two subsets' correlations is no correlation, and clustering has seeds alone

    asked = len(task_hub.asked)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    again = evaluate(Letters(), with_snapshots(tasks))
    assert [(one.task, one.value, one.identity) for one in again.scores] == [
        (one.task, one.value, one.identity) for one in first.scores
    ]
    assert len(task_hub.asked) == asked
    for name in REFERENCES:
        with pytest.raises(EvaluationError, match="holds NaN or infinity; it cannot be scored"):
            evaluate(Broken(), parse_tasks([name]))

    by_task = {score.task: first.identities[score.identity] for score in first.scores}
    assert by_task["mteb:NanoNFCorpusRetrieval"]["protocol"]["splits"] == ["train"]
    assert by_task["mteb:AskUbuntuDupQuestions"]["protocol"]["metric"] == "map_at_1000"
    versions = {task for task, one in by_task.items() if "versions" in one["protocol"]}
    assert versions == {"mteb:Banking77Classification", "mteb:TwentyNewsgroupsClustering"}


def test_a_changed_row_is_another_task_and_a_changed_snapshot_is_refused(
    task_hub: LoopbackHub, own_cache: Path
) -> None:
    from cse_methods.referenced_tasks.library import fetch_snapshot, load_task

    reference = parse_reference("mteb:STS12")
    before = fetch_snapshot(reference)
    file = task_hub.folder / "datasets/mteb/sts12-sts/default/test.jsonl"
    file.write_text(file.read_text().replace("bread", "loaf", 1))
    revision = next(iter(task_hub.revisions["mteb/sts12-sts"]))
    for cached in (own_cache.parent / "cache").rglob(f"snapshots/{revision}/default/test.jsonl"):
        cached.unlink()
    after = fetch_snapshot(reference)
    assert after.sha256 != before.sha256
    [rows] = own_cache.glob(f"test-tasks/{before.sha256}/default/test/rows.jsonl")
    rows.write_text(rows.read_text() + '{"sentence1":"a","sentence2":"b","score":1}\n')
    with pytest.raises(DataError, match=r"its rows were changed; delete it"):
        load_task(before)


def test_what_the_hub_and_the_library_refuse_is_one_sentence(
    task_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cse_methods.referenced_tasks.library import fetch_references

    def refusal(word: str) -> str:
        with pytest.raises((DataError, EvaluationError)) as caught:
            fetch_references(parse_tasks([word]).referenced)
        return str(caught.value)

    assert "no such task in mteb" in refusal("mteb:NFCorpuss")
    assert "Did you mean: 'NFCorpus'" in refusal("mteb:NFCorpuss")
    assert "no subset 'xx'; the task has " in refusal("mteb:STS17/xx")
    assert "it has no repository mteb/sts13-sts" in refusal("mteb:STS13")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert "it cannot be reached (" in refusal("mteb:STS12")
    monkeypatch.setitem(sys.modules, "mteb", None)
    assert refusal("mteb:STS12").endswith("run pip install 'cse-platform[mteb]'")


def test_a_benchmark_has_the_mean_of_its_tasks(
    task_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mteb

    from cse_methods.referenced_tasks.library import fetch_references

    english = mteb.get_task("STS17", hf_subsets=["en-en"])
    own = SimpleNamespace(tasks=[mteb.get_task("STS12"), english])
    known = {"two (STS, v1)": own}  # to build all of mteb's takes seconds
    monkeypatch.setattr("mteb.get_benchmark", known.__getitem__)
    tasks = parse_tasks(["benchmark:two (STS, v1)"])
    fetch_references(tasks.referenced)
    with pytest.raises(EvaluationError, match=r"^no such benchmark in mteb 2\.[0-9.]+: other$"):
        fetch_references(parse_tasks(["benchmark:other"]).referenced)
    pinned = with_snapshots(tasks)
    assert pinned.names == ("benchmark:two (STS, v1)", "mteb:STS12", "mteb:STS17/en-en")
    found = {score.task: score.value for score in evaluate(Letters(), tasks).scores}
    members = [found["mteb:STS12"], found["mteb:STS17/en-en"]]
    assert found["benchmark:two (STS, v1)"] == pytest.approx(sum(members) / 2)


def test_queries_and_documents_are_read_with_the_prompts_of_the_folder(
    task_hub: LoopbackHub, tiny_bert: Path, tmp_path: Path
) -> None:
    from cse_methods.referenced_tasks.adapter import TaskEncoder
    from cse_methods.referenced_tasks.library import fetch_references, load_task
    from cse_methods.referenced_tasks.scoring import score_task

    encoder = load_encoder(str(tiny_bert), pooler="avg")
    encoder.save(tmp_path / "prompted")
    prompts = {"query": "a ship: ", "passage": "the song, "}
    write_option(tmp_path / "prompted", "prompts", prompts)
    model = open_model(str(tmp_path / "prompted"))
    tasks = parse_tasks(["mteb:NanoNFCorpusRetrieval", "mteb:STS12"])
    fetch_references(tasks.referenced)
    scores = evaluate(model, tasks).scores
    assert open_model(str(tmp_path / "prompted"), prompt="").prompted == {}

    def value_of(reference: Reference, reader: TaskEncoder) -> float:
        task, splits = load_task(reference)
        return score_task(task, reader, splits)[0]

    before: dict[Any, Any] = {
        "query": lambda texts: encoder.encode([f"a ship: {text}" for text in texts]),
        "document": lambda texts: encoder.encode([f"the song, {text}" for text in texts]),
    }
    for reference, score in zip(with_snapshots(tasks).referenced, scores, strict=True):
        expected = value_of(reference, TaskEncoder(encoder.encode, before))
        assert score.value == pytest.approx(expected, abs=1e-5)
    plain = value_of(reference, TaskEncoder(encoder.encode))
    assert scores[1].value == pytest.approx(plain, abs=1e-5)  # similarity has no two sides
    readings = [evaluate(model, tasks).identities[score.identity]["reading"] for score in scores]
    assert readings[0]["query prompt"] == "a ship: " and "query prompt" not in readings[1]


WAYS = {
    "datasets, from its cache": "datasets.load_dataset('mteb/banking77', split='test')",
    "datasets, from the hub": "datasets.load_dataset('mteb/sts12-sts', split='test')",
    "datasets, streaming": "list(datasets.load_dataset(SPRINT, split='test', streaming=True))",
    "arrow": "datasets.Dataset.from_file(arrow)",
    "arrow in memory": "datasets.Dataset.from_file(arrow, in_memory=True)",
    "file of the hub": "open(hub)",
    "builder": "datasets.load_dataset('json', data_files=hub)",
    "link": "open('innocent.jsonl')",
    "another link": "open('dev.jsonl')",
    "snapshot": "read_rows(stored)",
    "file of a snapshot": "open(rows)",
    "parquet's reader": "pyarrow.parquet.read_table(rows)",
    "a set of others": "datasets.load_dataset('lab/set', split='test')",
}
PROGRAM = """
import datasets, glob, json, os, pyarrow.parquet, sys
from cse_methods.errors import GuardError
from cse_methods.guard import guard
from cse_methods.referenced_tasks.snapshots import find_snapshot, read_rows
from cse_methods.task_reference import parse_reference

SPRINT = "mteb/sprintduplicatequestions-pairclassification"
stored = find_snapshot(parse_reference("mteb:STS17/en-en"))
assert read_rows(stored)
for repository in ("mteb/banking77", "lab/set"):
    datasets.load_dataset(repository)
def find(pattern):
    return glob.glob(pattern, recursive=True)[0]
arrow = find("hf/datasets/mteb___banking77/**/*-test.arrow")
hub = find("hf/hub/datasets--mteb--banking77/snapshots/*/default/test.jsonl")
rows = find("cse/test-tasks/*/*/test/rows.jsonl")
os.symlink(hub, "innocent.jsonl")
os.symlink(find("hf/hub/datasets--lab--set/snapshots/*/default/test.jsonl"), "dev.jsonl")
guard()
with open(find("hf/hub/datasets--lab--set/snapshots/*/default/latest.jsonl")) as stream:
    assert stream.read()  # no test split
refused = {}
for name, way in json.loads(sys.argv[1]).items():
    try:
        exec(way)
        refused[name] = "nothing was refused"
    except GuardError as error:
        refused[name] = str(error)
print(json.dumps(refused))
"""


def test_a_guarded_process_opens_no_test_split_of_any_task(
    task_hub: LoopbackHub, tmp_path: Path
) -> None:
    from cse_methods.referenced_tasks.library import fetch_snapshot

    fetch_snapshot(parse_reference("mteb:STS17/en-en"))
    splits = {split: [{"text": split}] for split in ("test", "latest")}
    task_hub.put("datasets", "lab/set", "README.md", dataset_card({"default": splits}))
    for split, rows in splits.items():
        name = f"default/{split}.jsonl"
        task_hub.put("datasets", "lab/set", name, json.dumps(rows[0]).encode() + b"\n")
    own = {"HF_ENDPOINT": task_hub.url, "HF_HOME": "hf", "HF_HUB_DISABLE_XET": "1"}
    own |= environment() | {"CSE_CACHE": "cse"}
    told = python(PROGRAM, json.dumps(WAYS), cwd=tmp_path, env=own)
    refused = json.loads(told.stdout.splitlines()[-1])
    assert refused.keys() == WAYS.keys()
    assert {way: line for way, line in refused.items() if "a trial may not open" not in line} == {}
