"""BERT-flow: a flow that can be inverted, its start, and an encoder that stays as it was."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from cse_methods.contract import BEST_FOLDER
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.flow import ActNorm, Flow
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import TrainingError
from cse_methods.losses.likelihood import bits_per_dimension, log_likelihood
from cse_methods.papers.bertflow import BERTFlow, BERTFlowConfig
from cse_methods.registry import get_method
from cse_methods.testing import RecordedRun
from cse_methods.training.student import Student

DEV = {"checkpoint": "sickr", "search": "sickr", "also": []}
PLACES: dict[str, Any] = {"corpus": "builtin", "data": "builtin", "dev": DEV}
STEPS = {"batch_size": 8, "max_steps": 2, "eval_steps": 2}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))


def moved_flow(width: int, levels: int, depth: int) -> Flow:
    """A flow whose parameters are all somewhere."""
    flow = Flow(width, levels, depth, hidden=3).double()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return flow


@settings(max_examples=20, deadline=None)
@given(
    width=st.sampled_from([8, 16]),
    levels=st.integers(1, 3),
    depth=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_a_flow_is_undone_and_knows_its_volume(
    width: int, levels: int, depth: int, seed: int
) -> None:
    torch.manual_seed(seed)
    flow, rows = moved_flow(width, levels, depth), torch.randn(3, width).double()
    torch.testing.assert_close(flow.inverse(flow(rows)), rows)
    jacobian: Tensor = torch.func.jacrev(lambda row: flow(row[None])[0])(rows[0])
    torch.testing.assert_close(jacobian.slogdet()[1], flow.log_determinant())


def test_a_normalisation_by_hand() -> None:
    """Mean 2 and spread 1, then mean 2 and spread 3."""
    norm = ActNorm(2)
    rows = torch.tensor([[1.0, -1.0], [3.0, 5.0]])
    torch.testing.assert_close(norm.start(rows), torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    torch.testing.assert_close(norm.shift.data, torch.tensor([-2.0, -2.0]))
    torch.testing.assert_close(
        norm.log_scale.data, torch.tensor([0.0, -np.log(3.0) / 3]).float(), rtol=1e-4, atol=1e-6
    )


def test_a_started_flow_standardises_and_couplings_add_nothing() -> None:
    torch.manual_seed(0)
    rows, flow = 5 + 3 * torch.randn(200, 8), Flow(8, 2, 2, hidden=4)
    mapped = flow.start(rows)
    torch.testing.assert_close(flow(rows), mapped)
    assert mapped.mean(dim=0).abs().max() < 1e-4
    torch.testing.assert_close(mapped.square().mean(dim=0), torch.ones(8), rtol=1e-4, atol=1e-4)


def test_the_likelihood_by_hand() -> None:
    """Of the origin in two dimensions, with a volume of e: 1 - log 2 pi."""
    likelihood = log_likelihood(torch.zeros(1, 2), torch.tensor(1.0))
    assert likelihood.item() == pytest.approx(1 - np.log(2 * np.pi))
    bits = bits_per_dimension(torch.tensor([-2 * np.log(2)]), width=2)
    assert bits.item() == pytest.approx(1)


@pytest.mark.parametrize("dropout", [False, True])
def test_the_flow_is_trained_and_the_encoder_is_not(
    dropout: bool, tiny_bert: Path, tmp_path: Path
) -> None:
    method, run = get_method("bertflow"), RecordedRun(tmp_path / "run")
    own = {"levels": 2, "depth": 1, "width": 4, "encoder_dropout": dropout}
    method.train(
        method.config.model_validate({"backbone": str(tiny_bert)} | PLACES | STEPS | own), run
    )
    kept = load_encoder(str(tmp_path / "run" / "2" / BEST_FOLDER))
    (layer,) = kept.post_pooling
    assert isinstance(layer, Flow)
    assert layer.settings() == {"width": 32, "levels": 2, "depth": 1, "hidden": 4}
    bare = load_encoder(str(tiny_bert), pooler="avg_first_last")
    for name, weight in bare.model.state_dict().items():
        assert torch.equal(weight, kept.model.state_dict()[name]), name
    sentences = builtin_corpus()[:3]
    torch.testing.assert_close(kept.encode(sentences), layer(bare.encode(sentences)).detach())


def test_the_flow_alone_takes_gradients(tiny_bert: Path) -> None:
    config = BERTFlowConfig.model_validate(
        {"backbone": str(tiny_bert), "weight_decay": 0.1} | PLACES
    )
    student = Student.from_config(config)
    corpus = load_corpus(config.corpus, "builtin")
    objective = BERTFlow(config, student, corpus=corpus, seed=0)
    assert not any(parameter.requires_grad for parameter in student.parameters())
    (group,) = objective.parameter_groups(student)
    assert (group.modules, group.weight_decay) == ([objective.flow], 0.1)
    assert all(parameter.requires_grad for parameter in objective.flow.parameters())


def test_vectors_are_encoded_once_for_all_trials(tiny_bert: Path, tmp_path: Path) -> None:
    method = get_method("bertflow")
    config = {"backbone": str(tiny_bert), "first_layer": 0} | PLACES | STEPS
    for seed in (0, 1):
        method.train(method.config.model_validate(config), RecordedRun(tmp_path / str(seed), seed))
    sentences = load_corpus(BERTFlowConfig.model_validate(config).corpus, "builtin").sentences[:4]
    (file,) = (tmp_path / "cache").rglob("*.npy")
    bare = load_encoder(str(tiny_bert), pooler="avg_first_last", first_layer=0)
    found = torch.from_numpy(np.load(file)[:4].copy())
    torch.testing.assert_close(found, bare.encode(sentences, max_length=32), rtol=1e-4, atol=1e-5)


def test_a_flow_comes_back_from_its_folder(tiny_bert: Path, tmp_path: Path) -> None:
    hashes = set()
    for number in (1, 2):
        torch.manual_seed(0)
        encoder = load_encoder(str(tiny_bert)).with_post_pooling(Flow(32, number, 1, hidden=4))
        encoder.save(tmp_path / str(number))
        again = load_encoder(str(tmp_path / str(number)))
        assert torch.equal(again.encode(["Rain!"]), encoder.encode(["Rain!"]))
        hashes.add(weights_sha256(tmp_path / str(number)))
    assert len(hashes) == 2


def test_vectors_that_cannot_be_halved(tiny_bert: Path) -> None:
    config = BERTFlowConfig.model_validate({"backbone": str(tiny_bert), "levels": 6} | PLACES)
    with pytest.raises(TrainingError, match=r"levels=6 halve vectors of 32 .* take fewer"):
        config.check_width(32)
    with pytest.raises(ValueError, match="divisible by 8, got 12"):
        Flow(12)
    with pytest.raises(ValidationError, match="test_pooler=cls: the flow fits"):
        BERTFlowConfig.model_validate({"backbone": "mini", "test_pooler": "cls"} | PLACES)
