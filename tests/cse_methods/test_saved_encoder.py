"""Encoders on disk: the same vectors again, for us and for sentence-transformers."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import Dense, Normalize, TrainingHead
from cse_methods.errors import BackboneError, UnknownModelError

SENTENCES = [
    "The nurse thanks the pilot.",
    "Rain!",
    "A small dog runs over the green grass, and a cat sleeps in the old library.",
    "Rain!",
    "The pilot thanks the nurse.",
]
POOLERS: tuple[Pooler, ...] = get_args(Pooler)
PROMPT = 'This one : " {} " means [MASK] .'


def test_a_saved_encoder_is_the_same(tiny_folder: Path, tmp_path: Path) -> None:
    for pooler in POOLERS:
        cut = 40 if pooler == "mask" else 5
        encoder = load_encoder(str(tiny_folder), pooler=pooler, first_layer=0, prompt=PROMPT)
        before = encoder.encode(SENTENCES, max_length=cut)
        encoder.save(tmp_path / "a")
        again = load_encoder(str(tmp_path / "a"))
        assert torch.equal(again.encode(SENTENCES, max_length=cut), before)
        assert again.pooling.pooler == pooler
        again.save(tmp_path / "b")
        for file in (tmp_path / "a").rglob("*"):
            if file.is_file():  # neither truncation nor anything else of a past call is saved
                other = tmp_path / "b" / file.relative_to(tmp_path / "a")
                assert other.read_bytes() == file.read_bytes(), file.name


def test_a_saved_tail_is_the_same(tiny_folder: Path, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    affine = Dense.affine(torch.randn(32, 8, generator=generator), torch.ones(8))
    encoder = load_encoder(str(tiny_folder), pooler="avg").with_post_pooling(
        affine, TrainingHead(8)
    )
    before = encoder.encode(SENTENCES)
    plain = load_encoder(str(tiny_folder), pooler="avg")
    by_hand = torch.tanh(affine(plain.encode(SENTENCES)) @ encoder.post_pooling[1].linear.weight.T)
    torch.testing.assert_close(before, by_hand.detach(), rtol=1e-5, atol=1e-6)
    plain_hash = weights_sha256(tiny_folder)
    encoder.save(tmp_path)
    again = load_encoder(str(tmp_path))
    assert again.width == 8
    assert torch.equal(again.encode(SENTENCES), before)
    assert weights_sha256(tmp_path) != plain_hash


def set_activation(folder: Path) -> None:
    file = folder / "2_Dense" / "config.json"
    kinds = ("activation.Tanh", "linear.Identity")
    file.write_text(file.read_text().replace(*kinds))


def leave_normalisation_out(folder: Path) -> None:
    file = folder / "modules.json"
    file.write_text(json.dumps(json.loads(file.read_text())[:-1]))


def cut_earlier(folder: Path) -> None:
    file = folder / "sentence_bert_config.json"
    file.write_text(file.read_text().replace("64", "5"))


@pytest.mark.parametrize("change", [set_activation, leave_normalisation_out, cut_earlier])
def test_what_changes_the_vectors_changes_the_hash(
    change: Callable[[Path], None], tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = load_encoder(str(tiny_bert), pooler="avg")
    encoder.with_post_pooling(TrainingHead(32), Normalize()).save(tmp_path)
    before, known = load_encoder(str(tmp_path)).encode(SENTENCES), weights_sha256(tmp_path)
    change(tmp_path)
    assert not torch.allclose(load_encoder(str(tmp_path)).encode(SENTENCES), before, atol=1e-4)
    assert weights_sha256(tmp_path) != known


def test_an_encoder_without_layers_keeps_its_hash(tiny_bert: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_bert), pooler="avg").save(tmp_path)
    for folder in (tiny_bert, tmp_path):
        names = ("config.json", "model.safetensors", "tokenizer.json")
        lines = [f"{name} {sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names]
        assert weights_sha256(folder) == sha256("".join(lines).encode()).hexdigest()


def test_a_damaged_dense_layer(tiny_bert: Path, tmp_path: Path) -> None:
    for content in ("{}", "[]", "rubbish"):
        for file in ("config.json", "model.safetensors"):
            load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(TrainingHead(32)).save(
                tmp_path
            )
            (tmp_path / "2_Dense" / file).write_text(content)
            with pytest.raises(BackboneError, match="2_Dense is not a dense layer"):
                load_encoder(str(tmp_path))


def test_a_dense_layer_of_another_make(tiny_bert: Path, tmp_path: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"use_residual": True}, "2_Dense has use_residual True, which is not read here"),
        ({"module_input_name": "token_embeddings"}, "has module_input_name 'token_embeddings'"),
        ({"activation_function": "torch.nn.GELU"}, "has the activation 'torch.nn.GELU'; known are"),
    ]
    for setting, problem in table:
        load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(TrainingHead(32)).save(
            tmp_path
        )
        file = tmp_path / "2_Dense" / "config.json"
        stored = json.loads(file.read_text())
        default = {"module_input_name": "sentence_embedding", "use_residual": False}
        file.write_text(json.dumps(stored | default))
        load_encoder(str(tmp_path))
        file.write_text(json.dumps(stored | setting))
        with pytest.raises(UnknownModelError, match=problem):
            load_encoder(str(tmp_path))


def test_pickled_weights_of_a_dense_layer_are_left_to_another_library(
    tiny_bert: Path, tmp_path: Path
) -> None:
    load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(TrainingHead(32)).save(tmp_path)
    layer = tmp_path / "2_Dense"
    (layer / "model.safetensors").rename(layer / "pytorch_model.bin")
    with pytest.raises(UnknownModelError, match=r"2_Dense has its weights in pytorch_model\.bin"):
        load_encoder(str(tmp_path))
    (layer / "pytorch_model.bin").unlink()
    with pytest.raises(BackboneError, match="2_Dense is not a dense layer"):
        load_encoder(str(tmp_path))


def test_the_pooling_lies_where_the_modules_say(tiny_bert: Path, tmp_path: Path) -> None:
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


def test_texts_in_lower_case(tiny_bert: Path, tiny_roberta: Path, tmp_path: Path) -> None:
    for folder in (tiny_bert, tiny_roberta):
        load_encoder(str(folder), pooler="avg").save(tmp_path / folder.name)
        texts = {"max_seq_length": 9, "do_lower_case": True}
        (tmp_path / folder.name / "sentence_bert_config.json").write_text(json.dumps(texts))
    assert load_encoder(str(tmp_path / tiny_bert.name)).limit == 9  # its tokenizer does so anyway
    with pytest.raises(UnknownModelError, match="in lower case, and its tokenizer keeps capitals"):
        load_encoder(str(tmp_path / tiny_roberta.name))


def test_a_saved_encoder_cuts_where_its_folder_says(tiny_bert: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_bert), pooler="avg").save(tmp_path)
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 7}')
    again = load_encoder(str(tmp_path))
    assert again.limit == 7
    assert max(map(len, again.pieces(SENTENCES, again.template))) == 5
    (tmp_path / "sentence_bert_config.json").rename(tmp_path / "sentence_roberta_config.json")
    assert load_encoder(str(tmp_path)).limit == 7
    (tmp_path / "sentence_bert_config.json").write_text("[")
    with pytest.raises(BackboneError, match="cannot be read"):
        load_encoder(str(tmp_path))


def test_what_only_another_library_reads_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_bert), pooler="avg").save(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    odd = {"idx": 2, "name": "2", "path": "2_LSTM", "type": "sentence_transformers.models.LSTM"}
    (tmp_path / "modules.json").write_text(json.dumps([*modules, odd]))
    with pytest.raises(UnknownModelError, match=r"not read here: .+, LSTM in 2_LSTM"):
        load_encoder(str(tmp_path))
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    options = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(options))
    with pytest.raises(UnknownModelError, match="wants 'query: ' before every text"):
        load_encoder(str(tmp_path))


def test_the_saved_files(tiny_bert: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_bert), pooler="cls").save(tmp_path)
    files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert files >= {
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "1_Pooling/config.json",
    }
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert pooling["pooling_mode_cls_token"] is True
    assert pooling["pooling_mode_mean_tokens"] is False
    assert pooling["word_embedding_dimension"] == 32


@pytest.mark.real
@pytest.mark.parametrize("pooler", ["cls", "avg"])
def test_sentence_transformers_loads_a_saved_encoder(
    tiny_folder: Path, pooler: Pooler, tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    affine = Dense.affine(
        torch.randn(32, 8, generator=torch.Generator().manual_seed(0)), torch.ones(8)
    )
    encoder = load_encoder(str(tiny_folder), pooler=pooler).with_post_pooling(
        affine, TrainingHead(8)
    )
    encoder.save(tmp_path)
    theirs = library.SentenceTransformer(str(tmp_path), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs, encoder.encode(SENTENCES), rtol=1e-4, atol=1e-5)


@pytest.mark.real
@pytest.mark.parametrize("pooler", ["avg_top2", "avg_first_last"])
def test_sentence_transformers_refuses_poolers_it_lacks(
    tiny_bert: Path, pooler: Pooler, tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    load_encoder(str(tiny_bert), pooler=pooler).save(tmp_path)
    with pytest.raises((ValueError, TypeError), match=r"Invalid pooling mode|'first_layer'"):
        library.SentenceTransformer(str(tmp_path), device="cpu")
