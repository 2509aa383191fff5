"""What sentence-transformers reads, and that this package's own models give the same vectors."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import peft
import pytest
import tiny_families
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor
from transformers import AutoConfig, AutoModel

from cse_methods.data.corpus import Corpus
from cse_methods.data.dev_selection import DevSelection
from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.library_encoder import LibraryEncoder
from cse_methods.encoders.loading import load_encoder, load_sentence_encoder
from cse_methods.encoders.post_pooling import Dense, Normalize, TrainingHead
from cse_methods.errors import BackboneError, EvaluationError, UnknownModelError
from cse_methods.evaluation.embeddings import StoredEmbeddings, encode_texts
from cse_methods.evaluation.models import ForeignModel, open_model
from cse_methods.papers.untrained import UntrainedConfig, train
from cse_methods.testing import RecordedRun
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

SENTENCES = [*tiny_families.TEXTS, "", " rain!", "Rain <mask> [MASK] <pad>", "the nurse " * 30]
TYPES = "sentence_transformers.models."


def by_library(folder: Path, sentences: list[str] = SENTENCES) -> Tensor:
    model = SentenceTransformer(str(folder), device="cpu")
    return torch.as_tensor(model.encode(sentences, show_progress_bar=False)).float()


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def lay_out(folder: Path, pooling: dict[str, Any], *layers: str, **options: Any) -> Path:
    """Make a folder of sentence-transformers of one of transformers."""
    steps = [("", "Transformer"), ("1_Pooling", "Pooling"), *((f"2_{one}", one) for one in layers)]
    listed = [{"name": str(n), "path": p, "type": TYPES + k} for n, (p, k) in enumerate(steps)]
    write(folder / "modules.json", listed)
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 32} | pooling)
    write(folder / "config_sentence_transformers.json", options)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 48})
    return folder


QUICK, OTHERS = (
    ("bert", "roberta", "mpnet"),
    sorted(set(tiny_families.FAMILIES) - {"bert", "roberta", "mpnet"}),
)


@pytest.mark.parametrize("families", [QUICK, pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_own_encoders_give_the_library_s_vectors(families: list[str], tmp_path: Path) -> None:
    """Every form of folder that both read, also where the configuration has another padding."""
    prompt = {"prompts": {"query": "the nurse : "}, "default_prompt_name": "query"}
    forms: dict[str, tuple[dict[str, Any], tuple[str, ...], dict[str, Any]]] = {
        "cls": ({"pooling_mode_cls_token": True}, (), {}),
        "no flags": ({}, (), {}),
        "a list of one": ({"pooling_mode": ["mean"], "include_prompt": True}, ("Normalize",), {}),
        "a prompt": ({"pooling_mode": "mean"}, ("Dense",), prompt),
        "not pooled": ({"pooling_mode": "mean", "include_prompt": False}, (), prompt),
    }
    wrong = {}
    for family in families:
        for form, (pooling, layers, options) in forms.items():
            folder = tiny_families.save_tiny(family, tmp_path / family / form)
            lay_out(folder, pooling, *layers, **options)
            if "Dense" in layers:  # without `bias`, whose default is true
                sizes = {"in_features": 32, "out_features": 8}
                write(folder / "2_Dense" / "config.json", sizes)
                torch.save(
                    {f"linear.{n}": v for n, v in torch.nn.Linear(32, 8).state_dict().items()},
                    folder / "2_Dense" / "pytorch_model.bin",
                )
            if form == "no flags":
                stored = json.loads((folder / "config.json").read_text())
                write(folder / "config.json", stored | {"pad_token_id": 3})
            check_encoder(str(folder))
            found, expected = load_encoder(str(folder)).encode(SENTENCES), by_library(folder)
            if not torch.allclose(found, expected, rtol=1e-5, atol=2e-6):
                wrong[family, form] = float((found - expected).abs().max())
    assert not wrong


def test_settings_of_saved_modules_take_effect(tiny_bert: Path, tmp_path: Path) -> None:
    """By the fast path or by the library, whichever reads them."""
    tokens = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
    changes: list[tuple[str, dict[str, Any]]] = [
        ("tokenizer_config.json", {"model_max_length": 20}),  # less than the folder's own 48
        ("config.json", {"return_dict": False}),
        ("sentence_albert_config.json", {"max_seq_length": 10}),  # the other file comes first
        ("sentence_mpnet_config.json", {"max_seq_length": 10}),
        ("2_Normalize/config.json", tokens),
        ("2_Normalize/config.json", {"module_output_name": "other"}),
        ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
        *(
            ("sentence_bert_config.json", {name: value})
            for name, value in (
                ("tokenizer_args", {"model_max_length": 9}),
                ("processing_kwargs", {"text": {"max_length": 8}}),
                ("config_args", {"num_hidden_layers": 1}),
                ("config_kwargs", {"hidden_act": "relu"}),
                ("max_seq_length", None),
                ("modality_config", {"text": {"method": "forward", "method_output_name":
                                              ["hidden_states", 1]}}),
            )
        ),
    ]  # fmt: skip
    wrong, hashes = {}, set()
    for number, (name, settings) in enumerate(changes):
        folder = lay_out(
            shutil.copytree(tiny_bert, tmp_path / str(number)),
            {"pooling_mode": "mean"},
            "Normalize",
        )
        file = folder / name
        write(file, (json.loads(file.read_text()) if file.is_file() else {}) | settings)
        if "modality_config" in settings:
            write(file, json.loads(file.read_text()) | {"module_output_name": "token_embeddings"})
        check_encoder(str(folder))
        found, expected = load_sentence_encoder(str(folder)).encode(SENTENCES), by_library(folder)
        if not torch.allclose(found, expected, rtol=1e-5, atol=2e-6):
            wrong[name, str(settings)] = float((found - expected).abs().max())
        hashes.add(weights_sha256(folder))
    assert not wrong
    assert len(hashes) == len(changes) - 2  # of which three change no vector


@cache
def save_decoder(folder: Path) -> Path:
    """Write a random Qwen 3 as its authors do: the last piece, and texts padded on the left."""
    tokenizer = tiny_families.new_tokenizer("BPE")
    tokenizer.padding_side = "left"
    config = AutoConfig.for_model(
        "qwen3", **tiny_families.SIZES, num_key_value_heads=2, head_dim=16,
        vocab_size=len(tokenizer), max_position_embeddings=64,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return lay_out(folder, {"pooling_mode": "lasttoken"}, "Normalize")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("qwen3"))


def adapt(decoder: Path, folder: Path) -> Path:
    model = AutoModel.from_pretrained(decoder)
    config = peft.LoraConfig(target_modules="all-linear", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.add_adapter(config)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(decoder / name, folder)
    return lay_out(folder, {"pooling_mode": "lasttoken"})


def test_the_library_reads_what_this_package_does_not(
    decoder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    several, most, words = (tmp_path / name for name in ("several", "most", "words"))
    for folder in (several, most):
        shutil.copytree(tiny_bert, folder)
    lay_out(several, {"pooling_mode": ["mean", "max"]})
    lay_out(most, {"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False})
    (tmp_path / "glove.txt").write_text("the 1 2\nnurse 3 -1\nrain 0.5 4\n")
    load_sentence_encoder(str(tmp_path / "glove.txt")).save(words)
    static = StaticEmbedding(load_encoder(str(tiny_bert)).tokenizer, embedding_dim=12)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path / "static"))
    write(tmp_path / "static" / "config.json", {"model_type": "model2vec"})  # as its authors do
    widths = {
        decoder: 32, adapt(decoder, tmp_path / "adapter"): 32, several: 64, most: 32, words: 2,
        tmp_path / "static": 12,
    }  # fmt: skip
    hashes = set()
    for folder, width in widths.items():
        check_encoder(str(folder))
        encoder = load_sentence_encoder(str(folder))
        assert isinstance(encoder, LibraryEncoder)
        assert encoder.width == width
        torch.testing.assert_close(encoder.encode(SENTENCES), by_library(folder))
        encoder.save(tmp_path / "again")
        again = load_sentence_encoder(str(tmp_path / "again")).encode(SENTENCES)
        torch.testing.assert_close(again, encoder.encode(SENTENCES))
        shutil.rmtree(tmp_path / "again")
        hashes.add(weights_sha256(folder))
        model = open_model(str(folder))
        assert isinstance(model, ForeignModel)
        with_files = StoredEmbeddings(model, SENTENCES, folder=tmp_path, progress=lambda *_: None)
        torch.testing.assert_close(with_files(SENTENCES), encoder.encode(SENTENCES))
        json.dumps(model.reading, allow_nan=False)
        with pytest.raises(UnknownModelError, match="the method untrained scores it"):
            load_encoder(str(folder))
    assert len(hashes) == len(widths)
    before = weights_sha256(tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    write(config, json.loads(config.read_text()) | {"base_model_name_or_path": str(several)})
    assert weights_sha256(tmp_path / "adapter") != before
    write(config, json.loads(config.read_text()) | {"base_model_name_or_path": "lab/base"})
    with pytest.raises(BackboneError, match="adapts 'lab/base', which is not on this machine"):
        load_sentence_encoder(str(tmp_path / "adapter"))


def test_a_decoder_is_scored_whitened_and_teaches(
    decoder: Path, new_run: Callable[..., RecordedRun], tmp_path: Path
) -> None:
    settings = {"backbone": str(decoder), "corpus": "builtin", "data": "builtin"}
    config = UntrainedConfig.model_validate(
        {**settings, "whitening": True, "whitening_sentences": 200, "dev": DevSelection()}
    )
    run = new_run()
    metrics = train(config, run)
    kept = load_sentence_encoder(str(run.folder / "1" / "best"))
    assert isinstance(kept, LibraryEncoder)
    assert metrics["dev/stsb_spearman"] != run.curve[0]["dev/stsb_spearman"]
    corpus = Corpus("own", SENTENCES, "0" * 64)
    teacher = TeacherSpec.model_validate(str(decoder))
    taught = teacher_vectors(teacher, corpus, max_length=8, cache=tmp_path)
    expected = SentenceTransformer(str(decoder), device="cpu")
    expected.max_seq_length = 8
    torch.testing.assert_close(torch.tensor(taught), torch.as_tensor(expected.encode(SENTENCES)))


def test_truncated_vectors_are_whitened_and_kept(decoder: Path, tmp_path: Path) -> None:
    shutil.copytree(decoder, tmp_path / "cut")
    write(tmp_path / "cut" / "config_sentence_transformers.json", {"truncate_dim": 6})
    encoder = load_sentence_encoder(str(tmp_path / "cut"))
    torch.testing.assert_close(encoder.encode(SENTENCES), by_library(decoder)[:, :6])
    layer = Dense.affine(torch.randn(6, 4), torch.randn(4)).requires_grad_(False)
    for number, one in enumerate((encoder, encoder.with_post_pooling(layer))):
        one.save(tmp_path / str(number))
        again = load_sentence_encoder(str(tmp_path / str(number)))
        torch.testing.assert_close(again.encode(SENTENCES), one.encode(SENTENCES))
    torch.testing.assert_close(one.encode(SENTENCES), layer(encoder.encode(SENTENCES)))


def test_queries_are_read_with_their_prompt(decoder: Path, tmp_path: Path) -> None:
    shutil.copytree(decoder, tmp_path / "prompted")
    options = {"prompts": {"query": "the nurse : ", "document": ""}}
    write(tmp_path / "prompted" / "config_sentence_transformers.json", options)
    model = open_model(str(tmp_path / "prompted"))
    torch.testing.assert_close(encode_texts(model, SENTENCES), by_library(decoder))
    assert model.prompted.keys() == {"query"}
    of_queries = model.prompted["query"]
    prompted = by_library(decoder, [f"the nurse : {sentence}" for sentence in SENTENCES])
    torch.testing.assert_close(encode_texts(of_queries, SENTENCES), prompted)
    assert (model.reading["prompt"], of_queries.reading["prompt"]) == (None, "the nurse : ")


def test_settings_that_do_not_apply_are_refused(
    decoder: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    for read in (check_encoder, load_sentence_encoder):
        for options, text in (
            ({"pooler": "avg"}, "leave pooler out"),
            ({"head": True}, "leave head out"),
            ({"max_length": 60}, "above the 48 word pieces"),
        ):
            with pytest.raises(BackboneError, match=text):
                read(str(decoder), **options)
    prompted = load_sentence_encoder(str(decoder), prompt="the nurse ").encode(["rain"])
    torch.testing.assert_close(prompted, by_library(decoder, ["the nurse rain"]))
    assert open_model(str(decoder), max_length=99_999).reading["max_length"] == 48
    with pytest.raises(EvaluationError, match="slicing_length 8 has no effect"):
        open_model(str(decoder), slicing_length=8)
    static = StaticEmbedding(load_encoder(str(tiny_bert)).tokenizer, embedding_dim=12)
    SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path))
    model = open_model(str(tmp_path))
    assert (model.reading["max_length"], model.reading["lower_cased"]) == (None, None)
    with pytest.raises(EvaluationError, match="max_length 9 has no effect on a model that trunc"):
        open_model(str(tmp_path), max_length=9)


def test_texts_are_no_longer_than_the_model_s_positions(tiny_roberta: Path, tmp_path: Path) -> None:
    """The library would read pieces for which the table of positions has no row."""
    found = []
    for length in (None, 64, 1000):
        folder = lay_out(
            shutil.copytree(tiny_roberta, tmp_path / str(length)), {"pooling_mode": "max"}
        )
        write(folder / "sentence_bert_config.json", {"max_seq_length": length})
        found.append(load_sentence_encoder(str(folder)).encode(["the nurse " * 80]))
    torch.testing.assert_close(found, [by_library(tmp_path / "64", ["the nurse " * 80])] * 3)


def test_texts_are_lower_cased_as_the_folder_says(tiny_roberta: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_roberta), pooler="avg").save(tmp_path)
    texts = {"max_seq_length": 64, "do_lower_case": True}
    write(tmp_path / "sentence_bert_config.json", texts)
    model = open_model(str(tmp_path))
    assert isinstance(model, ForeignModel)
    assert model.reading["lower_cased"]
    with pytest.raises(EvaluationError, match="without pooler, head or slicing"):
        open_model(str(tmp_path), pooler="cls")


def test_doubtful_folders_are_not_left_to_the_library(tiny_bert: Path, tmp_path: Path) -> None:
    """It would read them as something else, or say so in words of its own."""
    lay_out(shutil.copytree(tiny_bert, tmp_path / "bert"), {"pooling_mode": "max"})
    config = tmp_path / "bert" / "config.json"
    write(config, json.loads(config.read_text()) | {"position_embedding_type": "relative_key"})
    bad = tmp_path / "dense"
    load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(
        TrainingHead(32), Normalize()
    ).save(bad)
    (bad / "2_Dense" / "model.safetensors").unlink()
    (bad / "2_Dense" / "pytorch_model.bin").write_text("rubbish")
    words, bare, odd = tmp_path / "words.txt", tmp_path / "bare", tmp_path / "odd"
    words.write_text("the 1 2\nnurse 3 inf\n")
    lay_out(shutil.copytree(tiny_bert, bare), {"pooling_mode": "max"})
    (bare / "config.json").unlink()
    lay_out(shutil.copytree(tiny_bert, odd), {"pooling_mode": "max"})
    write(odd / "sentence_bert_config.json", {"max_seq_length": "48"})
    few = lay_out(shutil.copytree(tiny_bert, tmp_path / "few"), {"pooling_mode": "max"})
    write(few / "config.json", json.loads((few / "config.json").read_text()) | {
        "num_hidden_layers": 3})  # fmt: skip
    for folder, text in (
        (tmp_path / "bert", "relative_key"),
        (bad, "2_Dense"),
        (few, "lack 16 of the model's tensors"),
        (words, "line 2: 'nurse 3 inf'; expected"),
        (bare, "No such file.*config.json"),
        (odd, "max_seq_length '48'; expected"),
    ):
        for read in (check_encoder, open_model):
            with pytest.raises(BackboneError, match=text):
                read(str(folder))
