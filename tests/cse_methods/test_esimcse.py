from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import start_paper
from torch.testing import assert_close

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.papers.esimcse import ESimCSE, draw_repetition
from cse_methods.training.student import Batch, Student

SENTENCES = list(builtin_corpus()[:8])
started = partial(start_paper, "esimcse")


def step(student: Student, objective: ESimCSE, first: int, count: int = 4) -> dict[str, Any]:
    rows = np.arange(first, first + count)
    return objective(student, Batch([SENTENCES[row] for row in rows], rows))


@pytest.mark.parametrize(
    ("rate", "bounds", "added"),
    [(0.32, "released", {0, 1}), (0.32, "paper", {0, 1, 2}), (0.0, "released", {0})],
)
def test_repetitions_stay_within_the_bounds(rate: float, bounds: Any, added: set[int]) -> None:
    """Six pieces and the two special ones: 0.32 of 8 is 2, of which the code draws one less."""
    torch.manual_seed(0)
    content = [11, 12, 13, 14, 15, 16]
    drawn = [draw_repetition(content, rate=rate, bounds=bounds) for _ in range(60)]
    assert {len(row) - len(content) for row in drawn} == added
    for row in drawn:
        assert list(dict.fromkeys(row)) == content  # doubled in place, nothing else


def test_the_queue_holds_the_momentum_encoder_s_vectors(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, queue_size=6, dropout=0.0)
    step(student, objective, 0)
    with torch.no_grad():  # no optimiser step was made, so the two encoders are still equal
        contents = student.pieces(SENTENCES, student.encoder.template)
        (vectors,) = student.encode(contents, student.encoder.template)
    assert_close(objective.queue, vectors[:4])
    step(student, objective, 4)
    assert_close(objective.queue, vectors[2:])  # the newest six
    assert not objective.queue.requires_grad


def test_the_queue_is_encoded_without_dropout(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, queue_size=4, dropout=0.5)
    queues = []
    for _ in range(2):
        step(student, objective, 0)
        queues.append(objective.queue)
    assert_close(queues[0], queues[1])


@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
def test_the_momentum_encoder_follows_the_student(momentum: float, tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, momentum=momentum)
    before = next(student.encoder.parameters()).detach().clone()
    with torch.no_grad():
        for parameter in student.encoder.parameters():
            parameter.add_(1.0)
    step(student, objective, 0)
    assert_close(next(objective.parameters()), before + (1 - momentum))


def test_momentum_start_selects_the_first_weights(tiny_bert: Path) -> None:
    for start, same in [("pretrained", True), ("random", False)]:
        student, objective = started(tiny_bert, momentum_start=start)
        own = list(objective.parameters())
        pairs = zip(own, student.encoder.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs) == same
        assert not any(parameter.requires_grad for parameter in own)
    _, without = started(tiny_bert, queue_size=0)
    assert without.slow is None
    assert not list(without.parameters())
