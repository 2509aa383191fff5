"""Layers that are kept at test time: word pieces' and pooled vectors', saved and read again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import Dense
from cse_methods.encoders.saved_layers import KINDS, SavedLayer, register_layer
from cse_methods.errors import BackboneError, UnknownModelError

SENTENCES = [
    "The nurse thanks the pilot.",
    "Rain!",
    "A small dog runs over the green grass, and a cat sleeps in the old library.",
]
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


@pytest.fixture
def stretch() -> Iterator[type[Stretch]]:
    """Known for one test."""
    yield register_layer()(Stretch)
    del KINDS["cse_methods.Stretch"]


def convolved(folder: Path, pooler: Pooler = "avg", **switches: Any) -> Encoder:
    torch.manual_seed(0)
    layer = TokenConvolution(32, 6, (1, 3, 5), **switches)
    return load_encoder(str(folder), pooler=pooler).with_token_layers(layer)


def one_by_one(encoder: Encoder) -> Tensor:
    return torch.cat([encoder.encode([sentence]) for sentence in SENTENCES])


def test_reference_vectors(golden: Callable[[str], Any]) -> None:
    """IS-BERT's sentence vectors, as they follow from the vectors of word pieces."""
    for name in ("full_code", "oracle_relu_masked"):
        case = golden(f"isbert_{name}_a")
        width, sizes = case.inputs["x"].shape[2], case.params["kernel_sizes"]
        layer = TokenConvolution(
            width,
            case.params["channels"],
            sizes,
            relu=case.params["relu"],
            mask_padding=case.params["zero_padding_vectors"],
        ).double()
        names = {f"convs.{n}.{one}": f"{s}{k}" for n, k in enumerate(sizes) for one, s in PARTS}
        layer.load_state_dict({name: case.inputs[key].detach() for name, key in names.items()})
        mask = case.inputs["attention_mask"]
        local = layer(case.inputs["x"], mask)
        pooled = (local * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        np.testing.assert_allclose(pooled.detach(), case.outputs["global"], rtol=1e-9)


PARTS = (("weight", "W"), ("bias", "b"))


@pytest.mark.parametrize(
    ("switches", "pooler"), [(OWN, "avg"), pytest.param(THEIRS, "cls", marks=pytest.mark.slow)]
)
def test_a_convolution_comes_back(
    switches: dict[str, bool], pooler: Pooler, tiny_folder: Path, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    encoder = convolved(tiny_folder, pooler, **switches)
    after = Dense.affine(torch.randn(18, 4), torch.ones(4))
    encoder = encoder.with_post_pooling(after)
    encoder.save(tmp_path / "a")
    again = load_encoder(str(tmp_path / "a"))
    assert (again.width, again.pooling.pooler) == (4, pooler)
    assert torch.equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
    again.save(tmp_path / "b")
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            other = tmp_path / "b" / file.relative_to(tmp_path / "a")
            assert other.read_bytes() == file.read_bytes(), file.name


def test_a_convolution_by_hand(tiny_bert: Path) -> None:
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


def test_padding_leaks_only_where_it_is_asked_for(tiny_bert: Path) -> None:
    masked, leaking = (convolved(tiny_bert, **switches).eval() for switches in (OWN, THEIRS))
    assert_close(masked.encode(SENTENCES), one_by_one(masked), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(leaking.encode(SENTENCES), one_by_one(leaking), atol=1e-3)


def test_switches_count_in_the_hash_of_the_weights(tiny_bert: Path, tmp_path: Path) -> None:
    hashes = set()
    for number, relu in enumerate((True, False)):
        convolved(tiny_bert, relu=relu).save(tmp_path / str(number))
        hashes.add(weights_sha256(tmp_path / str(number)))
    assert len(hashes) == 2


def test_poolers_of_several_layers_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(BackboneError, match="avg_top2 reads several layers of"):
        convolved(tiny_bert, "avg_top2")


def test_lengths_that_change_the_number_of_vectors() -> None:
    table: list[tuple[int, ...]] = [(), (2,), (3, 0)]
    for sizes in table:
        with pytest.raises(ValueError, match="expected odd kernel sizes"):
            TokenConvolution(4, 2, sizes)


def test_a_kind_of_one_s_own(stretch: type[Stretch], tiny_bert: Path, tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(stretch(32))
    encoder.save(tmp_path)
    again = load_encoder(str(tmp_path))
    assert isinstance(again.post_pooling[0], Stretch)
    assert torch.equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
    plain = load_encoder(str(tiny_bert), pooler="avg").encode(SENTENCES)
    assert_close(encoder.encode(SENTENCES), plain * torch.linspace(1, 2, 32) + 1)
    (tmp_path / "2_Stretch" / "model.safetensors").unlink()
    with pytest.raises(BackboneError, match="2_Stretch is not a layer of this kind"):
        load_encoder(str(tmp_path))


def test_a_kind_that_nobody_registered(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(Stretch(32))
    encoder.save(tmp_path)
    with pytest.raises(UnknownModelError, match=r"of the kind cse_methods\.Stretch; known"):
        load_encoder(str(tmp_path))


def test_a_layer_on_the_wrong_side(tiny_bert: Path, tmp_path: Path) -> None:
    convolved(tiny_bert, **OWN).save(tmp_path)
    file = tmp_path / "modules.json"
    first, convolution, pooling = json.loads(file.read_text())
    file.write_text(json.dumps([first, pooling, convolution]))
    with pytest.raises(UnknownModelError, match="on the wrong side of its pooler"):
        load_encoder(str(tmp_path))


def test_strides_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    convolved(tiny_bert, **THEIRS).save(tmp_path)
    file = tmp_path / "1_CNN" / "cnn_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"stride_sizes": [1, 2, 1]}))
    with pytest.raises(UnknownModelError, match="strides other than 1"):
        load_encoder(str(tmp_path))


@pytest.mark.real
def test_sentence_transformers_opens_its_own_kind_and_refuses_ours(
    tiny_bert: Path, tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    theirs, ours = (convolved(tiny_bert, **switches) for switches in (THEIRS, OWN))
    theirs.save(tmp_path / "theirs")
    ours.save(tmp_path / "ours")
    opened = library.SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
    # One by one: its vectors depend on the padding of a batch.
    found = np.concatenate([opened.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(found, one_by_one(theirs), rtol=1e-4, atol=1e-5)
    with pytest.raises((ImportError, ValueError, AttributeError), match="TokenConvolution"):
        library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
