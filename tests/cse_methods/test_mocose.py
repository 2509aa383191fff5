from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import NUMBERED, start_paper

from cse_methods.training.student import Batch, Student

started = partial(start_paper, "mocose")


def contrastive(student: Student, objective: Any, *, step: int = 1) -> torch.Tensor:
    return objective(student, Batch(NUMBERED, np.arange(8), step=step))["contrastive"]


@pytest.mark.parametrize("detached", [True, False])
def test_keys_train_the_embeddings_unless_they_are_detached(tiny_bert, detached) -> None:
    student, objective = started(tiny_bert, detach_keys=detached, dropout=0.0)
    key_hook = []
    objective.target_projection.register_full_backward_hook(lambda *_: key_hook.append(True))
    contrastive(student, objective).backward()
    assert bool(key_hook) is not detached
    assert all(p.grad is None for p in objective.target_encoder.parameters())
    embeddings = student.encoder.model.embeddings.word_embeddings.weight
    assert embeddings.grad is not None and bool(embeddings.grad.any())


def test_the_target_follows_and_the_queue_fills(tiny_bert: Path) -> None:
    settings: dict[str, Any] = {"queue_size": 10, "queue_start": 2}
    settings |= {"ema_decay": 0.0, "ema_total_steps": 2}
    student, objective = started(tiny_bert, **settings)
    online = list(student.encoder.model.encoder.parameters())
    target = list(objective.target_encoder.model.encoder.parameters())
    with torch.no_grad():
        for parameter in online:
            parameter.add_(1.0)
    contrastive(student, objective, step=2)  # the momentum of the second step of two is 1
    assert all(
        torch.allclose(o - t, torch.tensor(1.0)) for o, t in zip(online, target, strict=True)
    )
    assert (len(objective.queue.rows), objective.queue.filled) == (18, 10)
    contrastive(student, objective)  # and of the first 1/2: the target goes half the way
    assert all(
        torch.allclose(o - t, torch.tensor(0.5)) for o, t in zip(online, target, strict=True)
    )
    assert (len(objective.queue.rows), objective.queue.filled) == (10, 18)
    other = started(tiny_bert, **settings)[1]
    other.load_state_dict(objective.state_dict())
    assert torch.equal(other.queue.rows, objective.queue.rows)
    assert other.queue.filled == 18
