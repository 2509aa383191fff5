from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from started_papers import NUMBERED, configured

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.errors import TrainingError
from cse_methods.losses.augmented_negatives import augmented_contrast
from cse_methods.papers.pna import PNA
from cse_methods.training.student import Batch, Student

COLUMNS = (NUMBERED[:3], NUMBERED[3:6], NUMBERED[5:8])
SCORES = (1.0, 0.25, 0.0)
NLI: dict[str, Any] = {"name": "a.csv", "columns": ["x", "y", "z"]}
SCORED = NLI | {"label": "score"}


def triples(scores: Any = ()) -> Corpus:
    return Corpus("nli", COLUMNS[0], "", COLUMNS, scores)


def test_a_weight_that_is_not_finite_is_refused() -> None:
    first, other = torch.tensor([[1.0, 0]]), torch.tensor([[0, 1.0]])
    for weight in (inf, -inf, float("nan")):
        with pytest.raises(ValueError, match="augmented_weight must be a finite number"):
            augmented_contrast(first, first, other, temperature=1, augmented_weight=weight)


@pytest.mark.parametrize("smoothing", [None, "positive"])
def test_the_columns_are_anchors_positives_and_negatives(smoothing: Any, tiny_bert: Path) -> None:
    corpus = SCORED if smoothing else NLI
    settings = {"corpus": corpus, "smoothing": smoothing, "dropout": 0.0, "temperature": 0.5}
    config = configured("pna", tiny_bert, **settings, augmented_weight=0.3)
    student = Student.from_config(config).train()
    objective = PNA(config, triples(SCORES))
    rows = [2, 0]  # scores belong to rows, not to places in the batch
    template = student.encoder.template
    views = [
        student.encode(student.pieces([column[row] for row in rows], template), template)[0]
        for column in COLUMNS
    ]
    scores = torch.tensor([SCORES[row] for row in rows]) if smoothing else None
    how: Any = {"scores": scores, "smoothing": "positive"}
    expected = augmented_contrast(*views, temperature=0.5, augmented_weight=0.3, **how)
    found = objective(student, Batch(["", ""], np.array(rows)))["contrastive"]
    torch.testing.assert_close(found, expected)
    (kept,) = objective.evaluation_encoder(student).post_pooling
    assert isinstance(kept, TrainingHead)


def test_columns_and_scores_must_fit() -> None:
    for settings, message in [
        ({"corpus": "builtin"}, "builtin has single sentences, and 3 columns are needed"),
        ({"corpus": NLI | {"columns": ["x", "y"]}}, "a.csv has 2 columns, and 3 columns are"),
        ({"corpus": NLI, "smoothing": "all"}, "a.csv has no scores, and smoothing needs them"),
        ({"corpus": SCORED}, "a.csv has label: score, which this method does not read"),
    ]:
        with pytest.raises(ValidationError, match=message):
            configured("pna", **settings)
    config = configured("pna", corpus=SCORED, smoothing="all")
    for scores, message in [
        ((1, 0, 1.5), r"corpus nli, row 3: the score is 1\.5; expected a number from 0 to 1"),
        ((1, float("nan"), 0), "row 2: the score is nan"),
        (((1, 0), (0, 1), (1, 1)), r"row 1: the score is \(1, 0\)"),
        ((), "its files have scores of different columns"),
    ]:
        with pytest.raises(TrainingError, match=message):
            PNA(config, triples(scores))
