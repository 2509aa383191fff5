from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tiny_families
import torch
from some_sentences import THREE as SENTENCES
from torch import Tensor
from torch.testing import assert_close

from cse_methods.config import TrainingConfig
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import FAMILIES
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.training.student import Student

POOLERS: tuple[Pooler, ...] = ("cls", "avg", "avg_first_last")


def encoder_of(folder: Path, pooler: Pooler = "cls", **options: Any) -> Encoder:
    return load_encoder(str(folder), pooler=pooler, **{"dropout": 0.0, **options}).train()


def student_of(folder: Path, **settings: Any) -> Student:
    given = {"backbone": str(folder), "corpus": "builtin", "data": "builtin"}
    torch.manual_seed(0)
    return Student.from_config(TrainingConfig.model_validate(given | settings)).train()


def cut_features(vectors: Tensor, mask: Tensor) -> Tensor:
    """Every other feature is cut, and the first piece of each row is twice as long."""
    assert vectors.shape[:2] == mask.shape
    kept = vectors * (torch.arange(vectors.shape[2]) % 2)
    return torch.cat([2 * kept[:, :1], kept[:, 1:]], dim=1)


def by_hand(encoder: Encoder, edit: Any) -> Tensor:
    """Sentences one by one through a model whose embedding layer is replaced."""
    plain, found = encoder.model.embeddings.forward, []
    for row in encoder.rows(SENTENCES):
        inputs = encoder.pad([row])
        mask = inputs["attention_mask"]
        encoder.model.embeddings.forward = lambda *a, m=mask, **k: edit(plain(*a, **k), m)
        found.append(encoder(inputs))
    encoder.model.embeddings.forward = plain
    return torch.cat(found)


QUICK = ("bert", "deberta-v2", "modernbert")
"""Families whose embedding layers differ most."""


@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=[] if f in QUICK else pytest.mark.slow) for f in FAMILIES]
)
def test_every_family_s_embeddings_can_be_edited(family: str, tmp_path: Path) -> None:
    """In packed and in padded rows."""
    tiny_families.save_tiny(family, tmp_path)
    kernels = ("sdpa", "eager") if family in ("bert", "roberta") else ("sdpa",)
    for pooler, kernel in product(POOLERS, kernels):
        encoder = encoder_of(tmp_path, pooler, attention=kernel)
        inputs = encoder.pad(encoder.rows(SENTENCES))
        expected = by_hand(encoder, cut_features)
        found = encoder(inputs, edits=Edits(embeddings=cut_features))
        assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(encoder(inputs), expected, atol=1e-3)


def test_gradients_reach_the_vectors_of_an_edit(tiny_bert: Path) -> None:
    """As where the first vector of each row is replaced by another network's."""
    encoder = encoder_of(tiny_bert)
    given = torch.randn(3, 32, requires_grad=True)
    edits = Edits(embeddings=lambda x, _: torch.cat([given.unsqueeze(1), x[:, 1:]], dim=1))
    inputs = encoder.pad(encoder.rows(SENTENCES))
    torch.autograd.backward(encoder(inputs, edits=edits)[1].square().sum())
    assert given.grad is not None
    assert given.grad.abs().sum(dim=1).gt(0).tolist() == [False, True, False]


@pytest.mark.parametrize("pooler", POOLERS)
@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_pass_takes_the_given_positions(pooler: Pooler, kernel: str, tiny_folder: Path) -> None:
    encoder = encoder_of(tiny_folder, pooler, attention=kernel)
    rows = encoder.rows(SENTENCES)
    inputs = encoder.pad(rows)
    counted = [list(range(len(row))) for row in rows]
    assert_close(encoder(inputs, edits=Edits(positions=counted)), encoder(inputs))
    turned = [places[::-1] for places in counted]
    found = encoder(inputs, edits=Edits(positions=turned))
    first = int(encoder.model.config.model_type == "roberta") * 2
    for row, places, vector in zip(rows, turned, found, strict=True):
        ids, where = torch.tensor([row]), torch.tensor([places]) + first
        # The model's own way to be told of positions, one sentence at a time.
        states = encoder.model(ids, position_ids=where, output_hidden_states=True).hidden_states
        layers = {"cls": states[-1][:, 0], "avg": states[-1].mean(dim=1)}
        expected = layers.get(pooler, ((states[1] + states[-1]) / 2).mean(dim=1))
        assert_close(vector, expected[0], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, encoder(inputs), atol=1e-3)


def test_a_pass_in_training_can_leave_dropout_out(tiny_bert: Path) -> None:
    student = student_of(tiny_bert, dropout=0.3)
    plain = student.encoder.template
    contents = student.pieces(SENTENCES, plain)
    silent = [student.encode(contents, plain, edits=Edits(dropout=False))[0] for _ in range(2)]
    assert torch.equal(*silent)
    assert student.encoder.training and student.encoder.model.encoder.layer[0].training
    assert not torch.equal(student.encode(contents, plain)[0], silent[0])


def gradients(student: Student, edits: Edits) -> dict[str, Tensor]:
    plain = student.encoder.template
    contents = student.pieces(SENTENCES, plain)
    first, second = student.encode(contents, plain, plain, edits=edits)
    torch.autograd.backward(first.square().sum() + (first * second.flip(0)).sum())
    return {name: p.grad for name, p in student.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("edits", ["positions", "embeddings", "dropout"])
def test_a_batch_in_chunks_is_edited_as_a_whole_one(edits: str, tiny_bert: Path) -> None:
    whole, chunked = (
        student_of(tiny_bert, gradient_accumulation=n, dropout=0.3 if edits == "dropout" else 0.0)
        for n in (1, 4)
    )
    rows = 2 * whole.encoder.rows(SENTENCES)
    turned = [list(range(len(row)))[:: 1 if n % 2 else -1] for n, row in enumerate(rows)]
    # What is put in belongs to rows of the whole batch.
    own = torch.randn(6, 1, 32)
    chosen = {
        "positions": Edits(positions=turned),
        "embeddings": Edits(embeddings=lambda x, _: x + own),
        "dropout": Edits(dropout=False),
    }[edits]
    expected = gradients(whole, chosen)
    assert len(expected) > 10
    assert_close(gradients(chunked, chosen), expected, rtol=1e-4, atol=1e-5)


def test_an_edited_pass_leaves_no_hooks_behind(tiny_bert: Path) -> None:
    encoder = encoder_of(tiny_bert)
    inputs = encoder.pad(encoder.rows(SENTENCES))
    before = encoder(inputs, edits=UNEDITED)
    with pytest.raises(ZeroDivisionError):
        encoder(inputs, edits=Edits(embeddings=lambda x, _: x / (1 // 0), dropout=False))
    assert encoder.model.training
    assert torch.equal(encoder(inputs), before)
    assert bool(before.isfinite().all())
