from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from started_papers import NUMBERED, configured

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.losses.debiased import debiased_loss, noise_logits
from cse_methods.papers.multicsr import MultiCSR, weigh_triples
from cse_methods.training.student import Batch, Student

COLUMNS = (NUMBERED[:3], NUMBERED[3:6], NUMBERED[5:8])
NLI = {"name": "a.csv", "columns": ["x", "y", "z"]}
AXES = torch.eye(2, dtype=torch.float64)


def test_negatives_that_are_too_alike_are_left_out_and_own_positives_never() -> None:
    """The frozen model finds a hard negative like each anchor, one of them its own."""
    frozen = (AXES, AXES.flip(0), torch.tensor([[1.0, 0], [1, 1]], dtype=torch.float64))
    assert weigh_triples(*frozen, phi=0.9).tolist() == [[1, 0, 0, 1], [0, 1, 1, 1]]
    assert weigh_triples(*frozen, phi=0.5).tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert weigh_triples(*frozen, phi=1).min() == 1


def test_the_complementary_model_weighs_the_rows_of_the_batch(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    frozen = load_encoder(str(tiny_bert), pooler="cls")
    rows = [2, 0]
    seen = [frozen.encode([column[row] for row in rows], max_length=32) for column in COLUMNS]
    cosines = torch.cosine_similarity(seen[0][:, None], torch.cat(seen[1:])[None], dim=2)
    phi = float(cosines.median()) + 1e-4  # of eight pairs, half are above or equal
    complementary = {"model": str(tiny_bert), "pooler": "cls"}
    settings: dict[str, Any] = {"corpus": NLI, "complementary_model": complementary, "phi": phi}
    config = configured("multicsr", tiny_bert, dropout=0.0, temperature=0.5, **settings)
    assert config.encoders() == (str(tiny_bert),) * 2
    student = Student.from_config(config).train()
    objective = MultiCSR(config, Corpus("nli", COLUMNS[0], "some", COLUMNS))
    assert len(list(tmp_path.glob("teachers/*.npy"))) == 3
    template = student.encoder.template
    views = [
        student.encode(student.pieces([column[row] for row in rows], template), template)[0]
        for column in COLUMNS
    ]
    logits = noise_logits(*views, temperature=0.5)
    weights = weigh_triples(*seen, phi=phi)
    assert 0 < weights.sum() < 8
    expected = debiased_loss(logits, weights, form="infonce")
    found = objective(student, Batch(["", ""], np.array(rows)))["contrastive"]
    torch.testing.assert_close(found, expected)
    assert objective.evaluation_encoder(student) is student.encoder
    assert not objective.state_dict()
