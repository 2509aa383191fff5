from collections.abc import Iterator, Sequence
from dataclasses import replace

import letter_models
import numpy as np
import pytest
import torch
from torch import Tensor

from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.identity import score_identity
from cse_methods.evaluation.measures.sts import correlations
from cse_methods.evaluation.results import Evaluation
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.tasks import STS_TASKS, TRANSFER_TASKS, parse_tasks
from cse_methods.transfer.protocol import DEV_PROTOCOL

EVERYTHING = ["sts", "transfer", "ranking", "geometry"]


class Letters(letter_models.Letters):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        self.seen += sentences
        yield from super().batches(sentences)


@pytest.fixture(scope="module")
def letters() -> tuple[Letters, Evaluation]:
    model = Letters()
    return model, evaluate(model, parse_tasks(EVERYTHING), data="builtin", protocol=DEV_PROTOCOL)


def values(evaluation: Evaluation) -> dict[tuple[str, str, str], float]:
    return {(one.task, one.split, one.metric): one.value for one in evaluation.scores}


def test_each_sentence_is_encoded_once_and_scores_follow_from_stored_cosines(
    letters: tuple[Letters, Evaluation],
) -> None:
    found = values(letters[1])
    for stored in letters[1].examples:
        if stored.split == "test":
            pairs = load_pair_set(stored.task, "builtin")
            assert stored.data_sha256 == pairs.sha256
            assert stored.values.dtype == np.float32
            again = correlations(stored.values, stored.gold, stored.subsets)
            assert all(found[stored.task, "test", m] == value for m, value in again.items())
    for metric in ("spearman", "pearson_wmean"):
        mean = np.mean([found[task, "test", metric] for task in STS_TASKS])
        assert found["avg_sts", "test", metric] == pytest.approx(mean)
    for split in ("dev", "test"):
        mean = np.mean([found[task, split, "accuracy"] for task in TRANSFER_TASKS])
        assert found["avg_transfer", split, "accuracy"] == pytest.approx(mean)
    six = evaluate(Letters(), parse_tasks(["sts12", "stsb"]), data="builtin")
    assert {task for task, *_ in values(six)} == {"sts12", "stsb"}
    seen = letters[0].seen
    assert len(seen) == len(set(seen)) > 1000
    assert set(letters[1].seconds) == {"encoding", "geometry", *STS_TASKS, *TRANSFER_TASKS}


def test_an_identity_is_the_hash_of_its_settings(letters: tuple[Letters, Evaluation]) -> None:
    evaluation = letters[1]
    for name, settings in evaluation.identities.items():
        assert score_identity(settings) == name
    of = {(one.task, one.split, one.metric): one.identity for one in evaluation.scores}
    assert of["sts12", "test", "spearman"] == of["sts12", "test", "pearson_mean"]
    assert len({of[task, "test", "spearman"] for task in (*STS_TASKS, "avg_sts")}) == 8
    other = replace(DEV_PROTOCOL, kfold=4)
    again = evaluate(Letters(), parse_tasks(["mr", "sts12"]), data="builtin", protocol=other)
    changed = {(one.task, one.metric): one.identity for one in again.scores}
    assert changed["sts12", "spearman"] == of["sts12", "test", "spearman"]
    assert changed["mr", "accuracy"] != of["mr", "test", "accuracy"]


def test_a_collapsed_encoder_has_no_correlations(letters: tuple[Letters, Evaluation]) -> None:
    class Collapsed(Letters):
        def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
            yield list(range(len(sentences))), torch.ones(len(sentences), 26)

    found = evaluate(Collapsed(), parse_tasks(["sts12", "geometry"]), data="builtin")
    assert ("sts12", "test", "spearman") in found.without_value
    assert ("stsb", "dev", "effective_rank") in found.without_value
    assert values(found)["stsb", "dev", "mean_cosine"] == pytest.approx(1)
