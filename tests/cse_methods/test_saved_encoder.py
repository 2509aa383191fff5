import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from some_sentences import ONE_TWICE as SENTENCES
from some_sentences import PROMPT
from torch import Tensor, nn
from torch.testing import assert_close

from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import Dense, Normalize, TrainingHead
from cse_methods.encoders.saved_layers import KINDS, SavedLayer, register_layer
from cse_methods.errors import BackboneError, UnknownModelError


def saved_twice(encoder: Encoder, folder: Path) -> Encoder:
    """The encoder as it was read again; what is saved of it then is the same, byte for byte."""
    encoder.save(folder / "a")
    again = load_encoder(str(folder / "a"))
    again.save(folder / "b")
    for file in (folder / "a").rglob("*"):
        if file.is_file():  # neither truncation nor anything else of a past call is saved
            other = folder / "b" / file.relative_to(folder / "a")
            assert other.read_bytes() == file.read_bytes(), file.name
    return again


@pytest.fixture
def dense(tiny_bert: Path, tmp_path: Path) -> Path:
    """A folder of an encoder with a head and the vectors' normalisation at the end."""
    encoder = load_encoder(str(tiny_bert), pooler="avg")
    encoder.with_post_pooling(TrainingHead(32), Normalize()).save(tmp_path / "dense")
    return tmp_path / "dense"


def test_a_saved_encoder_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    for pooler in get_args(Pooler):
        cut = 40 if pooler == "mask" else 5
        encoder = load_encoder(
            str(tiny_folder),
            pooler=pooler,
            first_layer=0,
            prompt=PROMPT if pooler == "mask" else None,
        )
        before = encoder.encode(SENTENCES, max_length=cut)
        again = saved_twice(encoder, tmp_path)
        assert torch.equal(again.encode(SENTENCES, max_length=cut), before)
        assert again.pooling.pooler == pooler


def test_transformers_misses_no_weights_of_a_saved_encoder(dense: Path, caplog) -> None:
    """Its own loader reports those of a pooling layer, which no pooler of ours has."""
    library = pytest.importorskip("sentence_transformers")
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        library.SentenceTransformer(str(dense), device="cpu")
    finally:
        logger.removeHandler(caplog.handler)
    assert "MISSING" not in caplog.text


def test_what_changes_the_vectors_changes_the_hash(dense: Path) -> None:
    changes: dict[str, Callable[[str], str]] = {
        "2_Dense/config.json": lambda text: text.replace("activation.Tanh", "linear.Identity"),
        "modules.json": lambda text: json.dumps(json.loads(text)[:-1]),  # no normalisation
        "sentence_bert_config.json": lambda text: text.replace("64", "5"),
    }
    before, known = load_encoder(str(dense)).encode(SENTENCES), weights_sha256(dense)
    for name, change in changes.items():
        content = (dense / name).read_text()
        (dense / name).write_text(change(content))
        assert not torch.allclose(load_encoder(str(dense)).encode(SENTENCES), before, atol=1e-4)
        assert weights_sha256(dense) != known, name
        (dense / name).write_text(content)


def test_settings_of_a_dense_layer_are_read_or_refused(dense: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"use_residual": True}, "config.json has use_residual True, which is not read here"),
        ({"module_input_name": "token_embeddings"}, "has module_input_name 'token_embeddings'"),
    ]
    file = dense / "2_Dense" / "config.json"
    stored = json.loads(file.read_text())
    default = {"module_input_name": "sentence_embedding", "use_residual": False}
    file.write_text(json.dumps(stored | default))
    load_encoder(str(dense))
    for setting, problem in table:
        file.write_text(json.dumps(stored | setting))
        with pytest.raises(UnknownModelError, match=problem):
            load_encoder(str(dense))
    file.write_text(json.dumps(stored | {"activation_function": "lab.Swish"}))
    with pytest.raises(BackboneError, match=r"activation 'lab\.Swish' is not one of torch"):
        load_encoder(str(dense))
    # The library's own defaults: a bias and tanh.
    file.write_text(json.dumps(stored | {"activation_function": "torch.nn.GELU"}))
    gelu = load_encoder(str(dense))
    assert isinstance(gelu.post_pooling[0].activation, torch.nn.GELU)
    sparse = {name: stored[name] for name in ("in_features", "out_features")}
    file.write_text(json.dumps(sparse))
    layer = load_encoder(str(dense)).post_pooling[0]
    assert (layer.linear.bias is not None, type(layer.activation)) == (True, torch.nn.Tanh)


def test_the_pooling_is_read_from_the_folder_that_modules_json_names(
    tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = load_encoder(str(tiny_bert), pooler="cls")
    encoder.save(tmp_path)
    (tmp_path / "1_Pooling").rename(tmp_path / "pool")
    modules = tmp_path / "modules.json"
    modules.write_text(modules.read_text().replace("1_Pooling", "pool"))
    again = load_encoder(str(tmp_path))
    assert again.pooling.pooler == "cls"
    assert torch.equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
    (tmp_path / "pool" / "config.json").unlink()
    with pytest.raises(BackboneError, match=r"is not a pooling configuration: .*No such file"):
        load_encoder(str(tmp_path))


def test_a_saved_encoder_reads_texts_as_its_folder_says(tiny_bert, tiny_roberta, tmp_path) -> None:
    load_encoder(str(tiny_bert), pooler="avg").save(tmp_path)
    texts = tmp_path / "sentence_bert_config.json"
    texts.write_text('{"max_seq_length": 7, "do_lower_case": true}')  # its tokenizer does so anyway
    again = load_encoder(str(tmp_path))
    assert again.limit == 7
    assert max(map(len, again.pieces(SENTENCES, again.template))) == 5
    texts.rename(tmp_path / "sentence_roberta_config.json")
    assert load_encoder(str(tmp_path)).limit == 7
    texts.write_text("[")
    with pytest.raises(BackboneError, match="cannot be read"):
        load_encoder(str(tmp_path))
    load_encoder(str(tiny_roberta), pooler="avg").save(tmp_path / "cased")
    (tmp_path / "cased" / texts.name).write_text('{"do_lower_case": true}')
    with pytest.raises(UnknownModelError, match="in lower case, and its tokenizer keeps capitals"):
        load_encoder(str(tmp_path / "cased"))


@pytest.mark.real
@pytest.mark.parametrize("pooler", ["cls", "avg"])
def test_sentence_transformers_loads_a_saved_encoder(tiny_folder, pooler, tmp_path) -> None:
    library = pytest.importorskip("sentence_transformers")
    affine = Dense.affine(torch.eye(32)[:, :8] + 0.1, torch.ones(8))
    encoder = load_encoder(str(tiny_folder), pooler=pooler)
    encoder = encoder.with_post_pooling(affine, TrainingHead(8))
    encoder.save(tmp_path)
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs, encoder.encode(SENTENCES), rtol=1e-4, atol=1e-5)


OWN: dict[str, Any] = {"relu": True, "mask_padding": True}
THEIRS: dict[str, Any] = {"relu": False, "mask_padding": False}


class Stretch(SavedLayer):
    """A layer that can be inverted: each coordinate times a factor of its own."""

    shift: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.linspace(1, 2, width))
        self.register_buffer("shift", torch.ones(width))

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings * self.factors + self.shift

    def settings(self) -> dict[str, Any]:
        return {"width": len(self.factors)}


def convolved(folder: Path, pooler: Pooler = "avg", **switches: Any) -> Encoder:
    torch.manual_seed(0)
    layer = TokenConvolution(32, 6, (1, 3, 5), **switches)
    return load_encoder(str(folder), pooler=pooler).with_token_layers(layer)


def one_by_one(encoder: Encoder) -> Tensor:
    return torch.cat([encoder.encode([sentence]) for sentence in SENTENCES])


def test_a_convolution_is_saved_and_loaded(tiny_folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    after = Dense.affine(torch.randn(18, 4), torch.ones(4))
    encoder = convolved(tiny_folder, "cls", **THEIRS).with_post_pooling(after)
    again = saved_twice(encoder, tmp_path)
    assert (again.width, again.pooling.pooler) == (4, "cls")
    assert torch.equal(again.encode(SENTENCES), encoder.encode(SENTENCES))


def test_a_convolution_equals_a_hand_worked_one(tiny_bert: Path) -> None:
    """Length 3: a piece with its neighbours, and zeros beyond the ends of a sentence."""
    encoder = convolved(tiny_bert, **OWN)
    (layer,) = encoder.token_layers
    assert isinstance(layer, TokenConvolution)
    conv: Any = layer.convs[1]
    row = encoder.rows(SENTENCES[:1])
    states = load_encoder(str(tiny_bert)).model(torch.tensor(row)).last_hidden_state[0]
    around = torch.cat([torch.zeros(1, 32), states, torch.zeros(1, 32)])
    windows = torch.stack([around[n : n + 3] for n in range(len(states))])
    expected = torch.einsum("lkd,cdk->lc", windows, conv.weight) + conv.bias
    found = encoder.eval().encode(SENTENCES)[0, 6:12]  # of all in one batch, with padding
    assert_close(found, expected.relu().mean(dim=0).detach(), rtol=1e-4, atol=1e-5)


def test_padding_changes_a_vector_only_without_mask_padding(tiny_bert: Path) -> None:
    masked, leaking = (convolved(tiny_bert, **switches).eval() for switches in (OWN, THEIRS))
    assert_close(masked.encode(SENTENCES), one_by_one(masked), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(leaking.encode(SENTENCES), one_by_one(leaking), atol=1e-3)


def test_a_registered_layer_is_saved_and_loaded(tiny_bert, tmp_path, monkeypatch) -> None:
    plain = load_encoder(str(tiny_bert), pooler="avg")
    encoder = plain.with_post_pooling(Stretch(32))
    encoder.save(tmp_path)
    with pytest.raises(UnknownModelError, match=r"of the kind cse_methods\.Stretch; known"):
        load_encoder(str(tmp_path))
    with monkeypatch.context() as known:
        known.setattr("cse_methods.encoders.saved_layers.KINDS", dict(KINDS))
        register_layer()(Stretch)
        again = load_encoder(str(tmp_path))
        assert isinstance(again.post_pooling[0], Stretch)
        assert torch.equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
        expected = plain.encode(SENTENCES) * torch.linspace(1, 2, 32) + 1
        assert_close(encoder.encode(SENTENCES), expected)
        (tmp_path / "2_Stretch" / "model.safetensors").unlink()
        with pytest.raises(BackboneError, match="2_Stretch is not a layer of this kind"):
            load_encoder(str(tmp_path))
