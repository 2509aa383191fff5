"""Folders whose files ask for what is easily read otherwise, or do not fit each other."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_families
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from cse_methods.encoders.backbones import resolve_backbone, weight_bytes, weights_sha256
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError, CseError
from cse_methods.papers.diffcse import DiffCSEConfig

SENTENCES = [*tiny_families.TEXTS, "a <pad> b [PAD] c", "", "?", "the nurse " * 40]
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def change(file: Path, **settings: Any) -> None:
    stored = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(stored | settings))


def test_positions_begin_after_the_padding_of_the_configuration(tmp_path: Path) -> None:
    wrong = {}
    for family, attention in (
        *((family, "sdpa") for family in ("roberta", "camembert", "xlm-roberta", "mpnet")),
        ("roberta-prelayernorm", "sdpa"),
        ("roberta", "eager"),
    ):
        folder = tiny_families.save_tiny(family, tmp_path / family / attention)
        for padding in (0, 3) if attention == "eager" else (0,):
            change(folder / "config.json", pad_token_id=padding)
            encoder = load_encoder(str(folder), pooler="avg", attention=attention)
            first = 2 if family == "mpnet" else padding + 1
            assert encoder.limit == tiny_families.POSITIONS + 2 - first
            model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModel, AutoTokenizer))
            whole = partial(tokenizer, truncation=True, max_length=encoder.limit)
            with torch.no_grad():
                rows = [model(**whole(text, return_tensors="pt"))[0][0] for text in SENTENCES]
            expected = torch.stack([row.mean(dim=0) for row in rows])
            found = encoder.encode(SENTENCES)
            if not torch.allclose(found, expected, atol=1e-5):
                wrong[family, attention, padding] = (found - expected).abs().amax(dim=1).tolist()
    assert not wrong
    change(folder / "config.json", pad_token_id=None)
    with pytest.raises(BackboneError, match="pad_token_id None, and the positions"):
        check_encoder(str(folder))


def spoil(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors[name].view(-1)[-1] = float("nan")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def split(folder: Path, *, suffix: str = "safetensors") -> list[Path]:
    """Write the weights as two files and their index; returns all three."""
    tensors = load_file(folder / "model.safetensors")
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = sorted(tensors)
    halves = [names[::2], names[1::2]]
    files = [folder / f"{stem}-0000{n}-of-00002.{suffix}" for n in (1, 2)]
    for half, file in zip(halves, files, strict=True):
        part = {name: tensors[name] for name in half}
        save_file(part, file) if suffix == "safetensors" else torch.save(part, file)
    index = folder / f"{stem}.{suffix}.index.json"
    places = {name: file.name for h, file in zip(halves, files, strict=True) for name in h}
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()
    return [index, *files]


def retokenize(folder: Path, *, rule: str, value: Any, cls: str = "BertTokenizer") -> None:
    change(folder / "tokenizer_config.json", tokenizer_class=cls)
    change(folder / "tokenizer.json", **{rule: value})


def saved(folder: Path) -> Path:
    """Make a folder of sentence-transformers of one of transformers."""
    load_encoder(str(folder), pooler="avg").save(folder)
    return folder


def lay_dense(folder: Path, content: bytes | None = None, **settings: Any) -> None:
    load_encoder("mini").save(folder / "unused")  # any folder that is not read
    shutil.rmtree(folder / "unused")
    saved(folder)
    steps = json.loads((folder / "modules.json").read_text())
    kind = "sentence_transformers.models.Dense"
    steps.append({"idx": 2, "name": "2", "path": "2_Dense", "type": kind})
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "2_Dense").mkdir()
    sizes = {"in_features": 32, "out_features": 8, "bias": True}
    activation = {"activation_function": "torch.nn.modules.linear.Identity"}
    change(folder / "2_Dense" / "config.json", **sizes | activation | settings)
    file = folder / "2_Dense" / "model.safetensors"
    weights = {"linear.weight": torch.eye(8, 32), "linear.bias": torch.full((8,), torch.nan)}
    save_file(weights, file) if content is None else file.write_bytes(content)


def set_prompts(folder: Path, **options: Any) -> None:
    change(saved(folder) / "config_sentence_transformers.json", **options)


def set_modules(folder: Path, *paths: str) -> None:
    file = saved(folder) / "modules.json"
    steps = zip(json.loads(file.read_text()), paths, strict=False)
    file.write_text(json.dumps([step | {"path": path} for step, path in steps]))


def join_marks(folder: Path) -> None:
    """Let a byte-level tokenizer have a piece of a colon and a quotation mark."""
    set_prompts(folder, prompts={"query": "query:"}, default_prompt_name="query")
    stored = json.loads((folder / "tokenizer.json").read_text())
    pieces = stored["model"]
    last = max(pieces["vocab"], key=pieces["vocab"].get)
    pieces["vocab"][':"'] = pieces["vocab"].pop(last)
    pieces["merges"] = [pair for pair in pieces["merges"] if "".join(pair) != last] + [[":", '"']]
    (folder / "tokenizer.json").write_text(json.dumps(stored))


def set_types(folder: Path) -> None:
    file = folder / "tokenizer.json"
    text = json.dumps(json.loads(file.read_text())["post_processor"]).replace(
        '{"Sequence": {"id": "A", "type_id": 0}}', '{"Sequence": {"id": "A", "type_id": 1}}'
    )
    change(file, post_processor=json.loads(text))
    change(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast",
           model_input_names=["input_ids", "token_type_ids", "attention_mask"])  # fmt: skip


def point(file: str, folder: Path) -> None:
    (folder / file).write_text(POINTER)


def replacing(content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": content}, "content": "the"}


ONLY_LOADED = (
    *("has the shape", "attention heads", "nope", "adding_idx", "hidden_dropout_prob"),
    *("2_Dense is not a dense layer", "cannot be multiplied", "Dense linear.bias"),
)
"""Parts of messages about what shows once a model is made, whose modules no dry run imports."""
REFUSED: list[tuple[str, Callable[[Path], object], dict[str, Any], str]] = [
    *(
        (kind, lambda f, at=at: change(f / "config.json", position_embedding_type=at), {}, at)
        for kind in ("bert", "roberta", "electra")
        for at in ("relative_key", "relative_key_query", "alibi")
    ),
    ("bert", lambda f: change(f / "tokenizer_config.json", tokenizer_class="RobertaTokenizer"),
     {}, "a RobertaTokenizer, reads .*PreTrainedTokenizerFast"),
    ("bert", lambda f: retokenize(f, rule="normalizer", value=replacing("nurse")),
     {}, "a BertTokenizer, reads .*, and its tokenizer.json as"),
    ("roberta", lambda f: retokenize(f, rule="normalizer", value={"type": "Lowercase"},
     cls="RobertaTokenizer"), {}, "a RobertaTokenizer, reads"),
    ("xlm-roberta", lambda f: retokenize(f, rule="normalizer", value=replacing("…"),
     cls="XLMRobertaTokenizer"), {}, "a XLMRobertaTokenizer, reads"),
    ("bert", lambda f: change(f / "tokenizer_config.json", model_max_length=16),
     {"max_length": 17}, "max_length 17 is above the 16 word pieces .* set max_length to 16"),
    ("bert", lambda f: change(saved(f) / "sentence_bert_config.json", max_seq_length=20),
     {"max_length": 60}, "above the 20 word pieces .* up to its 64 positions"),
    ("bert", lambda f: set_prompts(f, prompts={"query": "q: "}, default_prompt_name="passage"),
     {}, "default_prompt_name 'passage' is not among its prompts, query, document"),
    ("bert", lambda f: set_prompts(f, prompts={}, default_prompt_name="query: "), {}, "not among"),
    ("bert", lambda f: set_prompts(f, prompts={"query": 3}), {}, "expected are texts by name"),
    ("bert", lambda f: set_prompts(f, prompts={}, default_prompt_name=["a"]), {}, "not among"),
    ("bert", lambda f: set_prompts(f, prompts={"q": "the rain "}, default_prompt_name="q") or
     change(f / "tokenizer_config.json", truncation_side="left"), {}, "truncates from the left"),
    ("modernbert", join_marks, {}, "joins its end with a sentence"),
    ("bert", set_types, {}, r"the types \[0, 1, 0\], and read here is the type 0"),
    *(
        ("bert", lambda f, n=n: change(saved(f) / "sentence_bert_config.json", max_seq_length=n),
         {}, f"max_seq_length {n!r}; expected is a whole number")
        for n in ("48", 20.0, 0, -1)
    ),
    ("bert", lambda f: change(saved(f) / "sentence_bert_config.json", max_seq_length=2),
     {}, "2 word pieces have no room for a sentence beside the 2"),
    *(
        ("bert", lambda f, n=n: change(f / "tokenizer_config.json", model_max_length=n),
         {}, f"has model_max_length {n!r}; write a number above 0 into .*tokenizer_config.json")
        for n in ("512", -1)
    ),
    *(
        ("bert", lambda f, path=path: set_modules(f, *path), {}, f"modules.json is not.*{text}")
        for path, text in (
            (["../mpnet"], "'../mpnet' leads out"), (["/mpnet"], "leads out"), ([], "it is empty"),
            (["", "../1_Pooling"], "leads out"),
        )
    ),
    ("bert", lambda f: change(saved(f) / "1_Pooling" / "config.json", pooling_mode="Mean"),
     {}, "pooling_mode 'Mean'; known are mean, cls"),
    *(
        ("bert", lambda f, s=s: change(f / "config.json", **s), {}, text)
        for s, text in (
            ({"num_hidden_layers": 3}, "lack (16 of the model's tensors|layer 2)"),
            ({"intermediate_size": 48}, r"has the shape \[64\], and \[48\] by config.json"),
            ({"max_position_embeddings": 128}, r"has the shape \[64, 32\], and \[128, 32\]"),
            ({"model_type": None}, 'names no family; add "model_type"'),
            ({"num_attention_heads": 5}, "cannot be loaded from .* attention heads"),
            ({"hidden_act": "nope"}, "cannot be loaded from .*nope"),
            ({"pad_token_id": 999}, "cannot be loaded from .*adding_idx"),
            ({"hidden_dropout_prob": "0.1"}, "cannot be loaded from .*hidden_dropout_prob"),
        )
    ),
    ("bert", lambda f: change(f / "config.json", vocab_size=20), {}, "pieces and the weights 20"),
    ("bert", lambda f: change(f / "config.json", vocab_size=5000), {}, "5000|mismatched"),
    *(
        (kind, lambda f, name=name: spoil(f, name), {}, f"the weight .*{name[-20:]} holds NaN")
        for kind, name in (
            ("bert", "encoder.layer.1.output.dense.weight"),
            ("distilbert", "embeddings.word_embeddings.weight"),
            ("modernbert", "final_norm.weight"),
        )
    ),
    *(
        ("bert", partial(point, file), {}, f"{file} is a pointer of git-lfs, not the file; run")
        for file in ("model.safetensors", "tokenizer.json", "config.json")
    ),
    *(
        ("bert", lambda f, file=file: point(file, saved(f)), {}, f"{file} is a pointer of git-lfs")
        for file in ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json")
    ),
    ("bert", lambda f: lay_dense(f, POINTER.encode()), {}, "2_Dense/model.safetensors is a poin"),
    ("bert", lambda f: (f / "config.json").write_text("null"), {}, "cannot be loaded from"),
    ("bert", lay_dense, {}, "the weight Dense linear.bias holds NaN"),
    *(
        ("bert", lambda f, s=s: lay_dense(f, **s), {}, f"2_Dense is not a dense layer: .*{text}")
        for s, text in (
            ({"out_features": 5}, "size mismatch"),
            ({"bias": False}, "Unexpected key"),
            ({"activation_function": None}, "startswith"),
            ({"activation_function": "torch.nn.Nope"}, "Nope"),
            ({"activation_function": "torch.nn.Threshold"}, "threshold"),
        )
    ),
    ("bert", lambda f: lay_dense(f) or change(f / "2_Dense/config.json", in_features=16) or
     save_file({"linear.weight": torch.eye(8, 16), "linear.bias": torch.zeros(8)},
               f / "2_Dense/model.safetensors"), {}, "shapes cannot be multiplied"),
    ("bert", lambda f: lay_dense(f) or (f / "2_Dense/model.safetensors").unlink(),
     {}, "2_Dense is not a dense layer"),
    ("bert", lambda f: lay_dense(f, b"rubbish"), {}, "2_Dense.* (is not a dense|Error)"),
    *(
        ("bert", lambda f, s=s, n=n: split(f, suffix=s)[n].unlink(), {}, "has no .*-of-00002")
        for s in ("safetensors", "bin")
        for n in (1, 2)
    ),
    ("bert", lambda f: split(f)[2].write_text(POINTER), {}, "00002-of-00002.safetensors is a poin"),
    ("bert", lambda f: split(f)[0].write_text(POINTER), {}, "index.json is a pointer"),
    ("bert", lambda f: split(f)[0].write_text("{}"), {}, "is not an index of weights"),
    ("bert", lambda f: split(f)[1].write_bytes(b"short"), {}, "cannot be loaded"),
    ("bert", lambda f: change(split(f)[0], weight_map={"x": "../x"}), {}, "has no ../x"),
    ("bert", lambda f: (f / "model.safetensors").write_bytes(b"short"), {}, "cannot be loaded"),
]  # fmt: skip


def test_damaged_and_ambiguous_encoders_are_refused(tmp_path: Path) -> None:
    sound = {kind: tiny_families.save_tiny(kind, tmp_path / kind) for kind, *_ in REFUSED}
    for folder in sound.values():
        check_encoder(str(folder))
    wrong = []
    for number, (kind, spoiled, options, text) in enumerate(REFUSED):
        folder = tmp_path / str(number)
        shutil.copytree(sound[kind], folder)
        spoiled(folder)
        is_loaded = any(part in text for part in ONLY_LOADED)
        for read in (load_encoder,) if is_loaded else (check_encoder, load_encoder):
            try:
                read(str(folder), **options)
                wrong.append((number, read.__name__, "read"))
            except BackboneError as error:
                if not re.search(text, str(error)):
                    wrong.append((number, read.__name__, str(error)))
    assert not wrong, "\n".join(map(str, wrong))


def test_vectors_with_nan_are_refused_though_no_weight_has_any(tmp_path: Path) -> None:
    folder = tiny_families.save_tiny("modernbert", tmp_path)
    change(folder / "config.json", local_rope_theta=-1, rope_parameters=None)
    with pytest.raises(BackboneError, match="vectors hold NaN, and its weights do not"):
        load_encoder(str(folder))


def test_weights_in_several_files_are_read_as_in_one(tiny_bert: Path, tmp_path: Path) -> None:
    expected = load_encoder(str(tiny_bert)).encode(SENTENCES)
    hashes = set()
    for suffix in ("safetensors", "bin"):
        folder = tmp_path / suffix
        shutil.copytree(tiny_bert, folder)
        files = split(folder, suffix=suffix)
        check_encoder(str(folder))
        torch.testing.assert_close(load_encoder(str(folder)).encode(SENTENCES), expected)
        assert weight_bytes(folder) == sum(file.stat().st_size for file in files)
        hashes.add(weights_sha256(resolve_backbone(str(folder)).model))
    assert len(hashes) == 2


def test_an_unfit_generator_is_found_before_a_trial(
    tiny_bert: Path, tiny_roberta: Path, masked_lm: Callable[[Path], Path]
) -> None:
    def check(generator: object) -> None:
        settings = {"backbone": str(tiny_bert), "corpus": "builtin", "generator": str(generator)}
        DiffCSEConfig.model_validate(settings).check_encoders()

    check(masked_lm(tiny_bert))
    for generator, text in (
        ("mini", "mini does not read the word pieces of"),
        (masked_lm(tiny_roberta), "does not read the word pieces of"),
        (tiny_bert, "has no head for masked word pieces"),
    ):
        with pytest.raises(CseError, match=text):
            check(generator)
