"""MoCoSE's own: what the target branch shares, what follows, and what a checkpoint keeps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cse_methods.papers.mocose import MoCoSE, MoCoSEConfig
from cse_methods.training.student import Batch, Student

SENTENCES = [f"Number {n} thanks the pilot{' in the garden' * (n % 4)}." for n in range(8)]


def started(backbone: Path, **settings: Any) -> tuple[Student, MoCoSE]:
    origin = {"backbone": str(backbone), "corpus": "builtin", "data": "builtin"}
    config = MoCoSEConfig.model_validate(origin | settings)
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    return student, MoCoSE(config, student)


def contrastive(student: Student, objective: MoCoSE, *, step: int = 1) -> torch.Tensor:
    return objective(student, Batch(SENTENCES, np.arange(8), step=step))["contrastive"]


def test_the_momentum_follows_from_the_step_of_the_batch(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert, ema_decay=0.0, ema_total_steps=2)
    before = [p.clone() for p in objective.target_encoder.model.encoder.parameters()]
    with torch.no_grad():
        for parameter in student.encoder.model.encoder.parameters():
            parameter.add_(1.0)
    contrastive(student, objective, step=2)  # the momentum is 1: the target stays
    after = list(objective.target_encoder.model.encoder.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("detached", [True, False])
def test_keys_train_the_embeddings_unless_they_are_detached(
    tiny_bert: Path, detached: bool
) -> None:
    student, objective = started(tiny_bert, detach_keys=detached, dropout=0.0)
    key_hook = []
    objective.target_projection.register_full_backward_hook(lambda *_: key_hook.append(True))
    contrastive(student, objective).backward()
    assert bool(key_hook) is not detached
    assert all(p.grad is None for p in objective.target_encoder.parameters())
    embeddings = student.encoder.model.embeddings.word_embeddings.weight
    assert embeddings.grad is not None and bool(embeddings.grad.any())


def test_the_target_owns_no_embeddings(tiny_bert: Path) -> None:
    student, objective = started(tiny_bert)
    names = {name for name, _ in objective.target_encoder.named_parameters()}
    assert names and not any("embeddings" in name for name in names)
    mine = {id(p) for p in student.parameters()}
    assert mine.isdisjoint(id(p) for p in objective.parameters())


def test_the_target_follows_and_the_queue_fills(tiny_bert: Path) -> None:
    student, objective = started(
        tiny_bert, queue_size=10, queue_start=2, ema_decay=0.0, ema_total_steps=2
    )
    with torch.no_grad():
        for parameter in student.encoder.model.encoder.parameters():
            parameter.add_(1.0)
    contrastive(student, objective)
    pairs = zip(
        objective.target_encoder.model.encoder.parameters(),
        student.encoder.model.encoder.parameters(),
        strict=True,
    )
    # At the first of two steps the momentum is 1/2: the target went half the way.
    assert all(torch.allclose(online - target, torch.tensor(0.5)) for target, online in pairs)
    assert (len(objective.queue.rows), objective.queue.filled) == (18, 10)
    contrastive(student, objective, step=2)
    assert (len(objective.queue.rows), objective.queue.filled) == (10, 18)
    other = started(tiny_bert, queue_size=10, queue_start=2)[1]
    other.load_state_dict(objective.state_dict())
    assert torch.equal(other.queue.rows, objective.queue.rows)
    assert other.queue.filled == 18
