from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from some_sentences import FOUR
from started_papers import configured, start_paper
from torch import Tensor
from torch.testing import assert_close

from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.whitening import whiten
from cse_methods.errors import TrainingError
from cse_methods.losses.multi_positive import multi_positive
from cse_methods.papers.whitenedcse import RIDGE
from cse_methods.training.student import Batch, Student

SENTENCES = [*FOUR, "She reads a long book about ships.", "Two men play chess in the old library."]
BATCH = Batch(SENTENCES, np.arange(6))


started = partial(start_paper, "whitenedcse", batch_size=6)


def step(student: Student, objective: Any, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return objective(student, BATCH)["contrastive"]


def encodings(student: Student, count: int, seed: int = 3) -> tuple[Tensor, ...]:
    torch.manual_seed(seed)
    plain = student.encoder.template
    return student.encode(student.pieces(SENTENCES, plain), *[plain] * count, head=False)


def test_each_view_is_whitened_by_itself(tiny_bert: Path) -> None:
    """The encodings draw their dropout first, then each view its permutation."""
    table: list[tuple[dict[str, Any], list[int]]] = [
        ({"positives": 3}, [0, 1, 2]),
        ({"positives": 3, "sgw_copies": 3}, [0, 0, 0]),
        ({"positives": 4, "sgw_copies": 2}, [0, 0, 1, 1]),
        ({"positives": 2, "whitening": "group", "groups": 8}, [0, 1]),
        ({"positives": 3, "multi_positive": "l2-hard-positive"}, [0, 1, 2]),
        ({"positives": 3, "positive_weight": 0.5}, [0, 1, 2]),
    ]
    for settings, views in table:
        student, objective = started(tiny_bert, **settings)
        encoded = encodings(student, max(views) + 1)
        groups, fixed = settings.get("groups", 16), "whitening" in settings  # 16 pairs of the 32
        orders = [None if fixed else torch.randperm(32) for _ in views]
        first, *others = (
            student.head(whiten(encoded[view], groups=groups, permutation=order))
            for view, order in zip(views, orders, strict=True)
        )
        how = settings.get("multi_positive", "l1"), settings.get("positive_weight", 1.0)
        expected = multi_positive(first, others, temperature=0.05, form=how[0], weight=how[1])
        assert_close(step(student, objective), expected, rtol=0, atol=0)
        # Nobody asked for running statistics.
        assert_close(objective.mean, torch.zeros(32).double())


def test_gradients_flow_through_the_statistics_only_without_detach(tiny_bert: Path) -> None:
    losses, gradients = [], []
    for detach in (True, False):
        student, objective = started(tiny_bert, detach_whitening=detach)
        loss = step(student, objective)
        loss.backward()
        losses.append(loss.item())
        gradients.append(next(student.encoder.parameters()).grad)
    assert losses[0] == losses[1]
    assert not torch.equal(gradients[0], gradients[1])


def test_singular_running_statistics_give_no_nan(tiny_bert: Path) -> None:
    """Without memory, 6 sentences under 2 masks span 11 of 32 axes at most."""
    settings = {"whitening": "zca", "statistics_momentum": 0, "positives": 2, "test_head": True}
    student, objective = started(tiny_bert, **settings)
    assert step(student, objective).isfinite()
    assert objective.evaluation_encoder(student).encode(SENTENCES).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "width"),
    [({}, 2), ({"whitening": "zca"}, 32), pytest.param({"groups": 4}, 8, marks=pytest.mark.slow)],
)
def test_with_test_head_the_embedding_is_the_head_s_output(
    settings, width, tiny_bert, tmp_path
) -> None:
    settings = {"batch_size": 16, "test_head": True} | settings
    student, objective = started(tiny_bert, **settings)
    objective(student, Batch(SENTENCES * 2, np.arange(12)))
    rows = load_encoder(str(tiny_bert), pooler="cls").encode(SENTENCES).double()
    white = rows - objective.mean
    for place in range(0, 32, width):
        own = slice(place, place + width)
        covariance = objective.covariance[own, own].numpy() + RIDGE * np.eye(width)
        values, axes = np.linalg.eigh(covariance)
        white[:, own] = white[:, own] @ torch.from_numpy(axes / np.sqrt(values) @ axes.T)
    with torch.no_grad():
        expected = student.head(white.float())
    objective.evaluation_encoder(student).save(tmp_path / "kept")
    loaded = load_encoder(str(tmp_path / "kept")).encode(SENTENCES)
    assert_close(loaded, expected, rtol=1e-3, atol=1e-4)


def test_unfit_groups_batches_and_copies_are_refused(tiny_bert: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"sgw_copies": 2}, "positives=3 views are not a multiple of sgw_copies=2"),
        ({"whitening": "group", "sgw_copies": 3}, "sgw_copies=3 has no effect"),
        ({"whitening": "zca", "groups": 4}, "groups=4 has no effect with whitening: zca"),
        ({"whitening": "pca", "detach_whitening": False}, "detach_whitening=False has no effect"),
        ({"multi_positive": "l2-soft", "positive_weight": 2}, "positive_weight=2.0 has no effect"),
    ]
    for settings, message in table:
        with pytest.raises(ValidationError, match=message):
            configured("whitenedcse", **settings)
    table = [
        ({"groups": 5}, "groups: 5 does not divide the 32 coordinates of .* a divisor of 32"),
        ({"groups": 4, "batch_size": 8}, "8 is too small .* of 8 coordinates; take 9 or more"),
        ({"whitening": "group", "groups": 1}, "too small .* take 33 or more, or more groups"),
    ]
    for settings, message in table:
        with pytest.raises(TrainingError, match=message):
            started(tiny_bert, **settings)
