"""Searches for the best retriever on a lab's own files."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_tasks import write_own_tasks
from processes import run_command
from sweeps import TINY, Sweep, write_sweep

from cse_methods.tasks import MAIN_SCORE
from cse_platform.tracking.events import TestAccessed, TrialEvaluated

NDCG, MAP = "dev/retrieval:faq_main_score", "dev/triplets:t_main_score"


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def measure_ndcg(folder: Path, encode: Callable[[list[str]], Any]) -> float:
    """The mean nDCG@10 of the folder `faq`, by scikit-learn."""
    from sklearn.metrics import ndcg_score

    corpus = read_lines(folder / "faq/corpus.jsonl")
    documents = encode([f"{row['title']} {row['text']}".strip() for row in corpus])
    lines = (folder / "faq/qrels/dev.tsv").read_text().splitlines()[1:]
    found = {(query, document): int(score) for query, document, score in map(str.split, lines)}
    judged = {query for query, _ in found}
    values = []
    for query in read_lines(folder / "faq/queries.jsonl"):
        if query["_id"] in judged:
            gains = [found.get((query["_id"], row["_id"]), 0) for row in corpus]
            cosines = documents @ encode([query["text"]])[0]
            values.append(ndcg_score([gains], [cosines], k=10))
    return float(np.mean(values))


def measure_map(folder: Path, encode: Callable[[list[str]], Any]) -> float:
    """The mean average precision of the triplets, each of which has an anchor of its own."""
    values = []
    for row in read_lines(folder / "t.jsonl"):
        anchor, positive, negative = encode([row["anchor"], row["positive"], row["negative"]])
        values.append(1.0 if anchor @ positive > anchor @ negative else 0.5)
    return float(np.mean(values))


def check_choice(sweep: Sweep, metric: str, measure: Callable[..., float]) -> None:
    """The trials' dev values are what a script measures of their models, and so is the best."""
    from sentence_transformers import SentenceTransformer

    assert all(metric in point for point in sweep.curves().values())
    trials = list(sweep.history().trials.values())
    measured = {}
    for trial in trials:
        model = SentenceTransformer(str(sweep.runs / "artifacts/models" / trial.key[:16]))
        encode = partial(model.encode, normalize_embeddings=True)
        measured[trial.key] = measure(sweep.file.parent, encode)
        assert trial.best_value == pytest.approx(measured[trial.key], abs=1e-4)
    assert len(set(measured.values())) == len(trials) == 2
    best = max(trials, key=lambda trial: trial.best_value or 0.0)
    assert measured[best.key] == max(measured.values())


@pytest.mark.slow
def test_a_search_finds_what_a_script_finds_and_refuses_other_judgements(tmp_path: Path) -> None:
    entries = write_own_tasks(tmp_path)
    faq = {"retrieval": "./faq"}
    brief = {
        "fixed": {"max_steps": 4, "eval_steps": 2, "batch_size": 16},
        "space": {"learning_rate": [1e-5, 3e-3]},
        "search": {"sampler": "grid"},
        "seeds": {"search": 42},
    }
    dev = {"checkpoint": faq, "search": faq, "also": [entries["classification"]]}
    tests = [faq, entries["pairs"]]
    sweep = write_sweep(tmp_path, TINY, dev=dev, **brief, evaluate={"top": 1, "tasks": tests})
    done = sweep.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dev set retrieval:faq: 30 corpus, 9 queries, 9 relevant_docs of " in done.stdout
    check_choice(sweep, NDCG, measure_ndcg)
    opened = sweep.events(TestAccessed)
    assert [(one.source, one.tasks) for one in opened] == [("file", ("retrieval:faq", "pairs:p"))]
    [scored] = sweep.events(TrialEvaluated)
    tested = {score.task: score.value for score in scored.scores if score.metric == MAIN_SCORE}
    assert tested.keys() == {"retrieval:faq", "pairs:p"}
    trial = next(one for one in sweep.history().trials.values() if one.key == scored.trial)
    words = ("--tasks", json.dumps(entries["retrieval"]), "--data", "builtin", "--json")
    shown = run_command(
        "cse-evaluate",
        str(sweep.runs / "artifacts/models" / trial.key[:16]),
        *words,
        f"--runs={sweep.runs}",
    )
    assert shown.returncode == 0, shown.stderr
    found = {
        one["task"]: one["value"]
        for one in json.loads(shown.stdout)["scores"]
        if one["metric"] == MAIN_SCORE
    }
    assert found == {"retrieval:faq": pytest.approx(tested["retrieval:faq"], abs=1e-5)}

    triplets = {"triplets": "./t.jsonl"}
    untrained = {
        "sweep": "poolers",
        "method": "untrained",
        "fixed": {},
        "space": {"pooler": ["cls", "avg"]},
        "dev": {"checkpoint": triplets, "search": triplets, "also": []},
    }
    write_own_tasks(tmp_path / "second")
    second = write_sweep(tmp_path / "second", TINY, **(brief | untrained))
    done = second.run()
    assert done.returncode == 0, done.stdout + done.stderr
    check_choice(second, MAP, measure_map)

    file = tmp_path / "faq/qrels/dev.tsv"
    file.write_text(file.read_text().replace("\t0\n", "\t1\n", 1))
    refused = sweep.run()
    assert refused.returncode == 1
    assert "was started with dev.files.retrieval:faq.sha256 = " in refused.stderr
