from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_variants import write_lab
from torch import Tensor

from cse_methods.contract import BEST_FOLDER
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.flow import Flow
from cse_methods.encoders.loading import load_encoder
from cse_methods.registry import get_method
from cse_methods.testing import RecordedRun

STEPS = {"batch_size": 8, "max_steps": 2, "eval_steps": 2}


@pytest.fixture
def lab(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings of a small corpus and dev set; vectors are cached in `cache`."""
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    return write_lab(tmp_path, tiny_bert, tiny_bert)[0]


def moved_flow(width: int, levels: int, depth: int) -> Flow:
    """A flow whose parameters are all somewhere."""
    flow = Flow(width, levels, depth, hidden=3).double()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return flow


@settings(max_examples=8, deadline=None)
@given(
    width=st.sampled_from([8, 16]),
    levels=st.integers(1, 3),
    depth=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_a_flow_can_be_inverted_and_gives_its_log_determinant(width, levels, depth, seed) -> None:
    torch.manual_seed(seed)
    flow, rows = moved_flow(width, levels, depth), torch.randn(3, width).double()
    torch.testing.assert_close(flow.inverse(flow(rows)), rows)
    jacobian: Tensor = torch.func.jacrev(lambda row: flow(row[None])[0])(rows[0])
    torch.testing.assert_close(jacobian.slogdet()[1], flow.log_determinant())


def test_bertflow_trains_the_flow_and_not_the_encoder(lab, tiny_bert, tmp_path) -> None:
    method, run = get_method("bertflow"), RecordedRun(tmp_path / "run")
    own = {"levels": 2, "depth": 1, "width": 4, "encoder_dropout": True}
    method.train(method.config.model_validate(lab | STEPS | own), run)
    kept = load_encoder(str(tmp_path / "run" / "2" / BEST_FOLDER))
    (layer,) = kept.post_pooling
    assert isinstance(layer, Flow)
    assert layer.settings() == {"width": 32, "levels": 2, "depth": 1, "hidden": 4}
    bare = load_encoder(str(tiny_bert), pooler="avg_first_last")
    for name, weight in bare.model.state_dict().items():
        assert torch.equal(weight, kept.model.state_dict()[name]), name
    sentences = builtin_corpus()[:3]
    torch.testing.assert_close(kept.encode(sentences), layer(bare.encode(sentences)).detach())
