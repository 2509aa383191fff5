import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.data.dev_sets import identify_dev_set, missing_dev_data
from cse_methods.data.transfer_sets import load_transfer_set
from cse_methods.encoders.loading import load_encoder
from cse_methods.evaluation.test_sets.transfer import load_test_part, load_transfer_test
from cse_methods.tasks import TRANSFER_TASKS
from cse_methods.training.checkpoint import Best
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.transfer.folds import samples_of, task_accuracies
from cse_methods.transfer.protocol import DEV_PROTOCOL, TransferProtocol

SLOW = pytest.mark.slow
QUICK = TransferProtocol(kfold=3, optimizer="rmsprop", tenacity=0, epoch_size=1)
CLIMBS = DevSelection(checkpoint="transfer_dev", search="transfer_dev", also=())
NAMES = [*(f"dev/{task}_accuracy" for task in TRANSFER_TASKS), "dev/avg_transfer_accuracy"]


def bag_of_words(sentences: Sequence[str]) -> torch.Tensor:
    """Counts of words and of neighbours, hashed: enough to tell the built-in classes."""
    counts = torch.zeros(len(sentences), 128)
    for row, sentence in enumerate(sentences):
        words = ["^", *sentence.lower().rstrip(".").split()]
        for word in [*words, *map("".join, pairwise(words))]:
            counts[row, sum(ord(c) * (place + 7) for place, c in enumerate(word)) % 128] += 1
    return counts


@pytest.mark.parametrize("task", ["sst2", pytest.param("trec", marks=SLOW)])
def test_the_test_accuracy_is_measured_on_the_test_set(task: str) -> None:
    known, test = load_transfer_set(task, "builtin"), load_test_part(task, "builtin")
    train, tested = samples_of(known.train, bag_of_words), samples_of(test, bag_of_words)
    scores, protocol = set(), TransferProtocol(classifier="scikit-learn", kfold=3)
    for power in range(-2, 6):
        model = LogisticRegression(C=2.0**power, max_iter=10_000)
        model.fit(train.features.double().numpy(), train.labels)
        scores.add(round(model.score(tested.features.numpy(), tested.labels), 6))
    found = load_transfer_test(task, "builtin").score(bag_of_words, protocol)
    assert round(found.test, 6) in scores


def test_features_of_a_pair_are_difference_and_product() -> None:
    part = load_transfer_set("mrpc", "builtin").train
    vectors = {part.first: [1.0, -2.0], part.second: [3.0, 0.5]}
    features, labels = samples_of(part, lambda s: torch.tensor([vectors[tuple(s)]] * len(s)))
    assert features[7].tolist() == [2.0, 2.5, 3.0, -1.0]
    assert labels is part.labels


def test_each_task_has_its_scores() -> None:
    """Scoring asks for the known sentences, and agrees with the dev accuracy of training."""
    for task in TRANSFER_TASKS:
        asked: set[str] = set()

        def remember(sentences: Sequence[str], asked: set[str] = asked) -> torch.Tensor:
            asked.update(sentences)
            return bag_of_words(sentences)

        known = load_transfer_test(task, "builtin")
        found = known.score(remember, QUICK)
        assert asked == set(known.sentences), task
        assert 0 <= found.test <= 1
        assert found.dev == task_accuracies(known.known, bag_of_words, QUICK).dev, task
        assert known.sha256 != known.known.sha256  # the test set counts


def test_a_dev_suite_reports_each_task_and_their_mean(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert))
    suite = DevSuite(DevSelection(search="transfer_dev", also=()), data="builtin")
    metrics = suite.evaluate(encoder)
    assert [name for name in metrics if name in NAMES] == NAMES
    average = mean(metrics[name] for name in NAMES[:-1])
    assert metrics["dev/avg_transfer_accuracy"] == pytest.approx(average)
    sst2 = load_transfer_set("sst2", "builtin")
    assert metrics["dev/sst2_accuracy"] == task_accuracies(sst2, encoder.encode, DEV_PROTOCOL).dev
    assert {"dev/stsb_spearman", "dev/alignment"} <= metrics.keys()
    # A broken encoder has no accuracy, and is not the best.
    next(encoder.parameters()).data.fill_(math.nan)
    metrics = DevSuite(CLIMBS, data="builtin").evaluate(encoder)
    assert all(math.isnan(metrics[name]) for name in NAMES)
    best = Best(dev_metric("transfer_dev"))
    best.consider(1, metrics, encoder)
    assert best.metrics == {}


def test_transfer_dev_has_an_identity_and_missing_data(tmp_path, monkeypatch, shared) -> None:
    dev = DevSelection(search="transfer_dev")
    assert dev.tasks == ("stsb", "transfer_dev", "sickr")
    asked = ("stsb", "transfer_dev", "transfer_dev")
    one, other, again = (identify_dev_set(dev, name, "builtin") for name in asked)
    assert other[0] == "builtin"
    assert other == again
    assert other[1] != one[1]
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for data in ("builtin", str(shared / "data")):
        assert missing_dev_data(CLIMBS, data) == []
    absent = ["dev set transfer_dev (princeton-nlp/datasets-for-simcse)"]
    assert missing_dev_data(CLIMBS, "hub") == absent
