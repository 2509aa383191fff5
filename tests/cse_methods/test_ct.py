import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import started_papers
import torch
from pydantic import ValidationError

from cse_methods.papers.ct import CT
from cse_methods.training.student import Batch, Student

settings = partial(started_papers.configured, "ct", batch_size=8)


def objective(backbone: Path, **given: Any) -> tuple[CT, Student]:
    config = settings(backbone, **given)
    student = Student.from_config(config)
    return CT(config, student, sentences=50), student


def test_a_batch_consists_of_pairs(tiny_bert: Path) -> None:
    drawn = np.arange(10, 18)
    free, _ = objective(tiny_bert, negatives=3)
    first, second = np.split(free.batch_rows(drawn), 2)
    assert (first[[0, 4]] == [10, 11]).all() and (second[[0, 4]] == [10, 11]).all()
    assert (first[1:4] != second[1:4]).any()
    assert (free.batch_rows(drawn) == free.batch_rows(drawn)).all()
    own, _ = objective(tiny_bert, negatives=3, anchored=True)
    first, second = np.split(own.batch_rows(drawn), 2)
    assert first.tolist() == [10, 10, 10, 10, 11, 11, 11, 11]
    assert second.tolist() == [10, 12, 13, 14, 11, 15, 16, 17]
    whole, _ = objective(tiny_bert, form="in_batch")
    assert (whole.batch_rows(drawn) == [*drawn, *drawn]).all()


def test_each_encoder_reads_one_sentence_of_a_pair(tiny_bert: Path) -> None:
    """With a second encoder whose vectors are zero, every pair costs log 2."""
    trained, student = objective(tiny_bert, negatives=1)
    with torch.no_grad():
        for parameter in trained.second.parameters():
            parameter.zero_()
    sentences = ["Rain!", "A dog runs.", "Rain!", "Two men play chess."]
    batch = Batch(sentences, np.array([0, 1, 0, 2]))
    parts = trained(student, batch)
    half = math.log(2) / 2
    assert [part.item() for part in parts.values()] == pytest.approx([half, half])
    torch.autograd.backward(list(parts.values()))
    assert all(p.grad is None or not p.grad.any() for p in student.encoder.parameters())
    assert any(p.grad is not None and p.grad.any() for p in trained.second.parameters())


@pytest.mark.parametrize(("keep", "kept"), [("better", 2), ("first", 1), ("second", 1)])
def test_keep_selects_the_encoder_that_is_saved(keep: str, kept: int, tiny_bert: Path) -> None:
    trained, student = objective(tiny_bert, keep=keep)
    encoders = list(trained.evaluation_encoders(student))
    assert len(encoders) == kept
    assert (encoders[-1] is student.encoder) == (keep == "first")


def test_a_batch_size_that_splits_a_set_of_pairs_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(ValidationError, match=r"batch_size=8 pairs are no multiple .* take 7 or a"):
        settings(tiny_bert, negatives=6)
    with pytest.raises(ValidationError, match="negatives=3 has no effect with form: in_batch"):
        settings(tiny_bert, negatives=3, form="in_batch")
