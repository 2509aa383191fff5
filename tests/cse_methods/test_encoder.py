import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from some_sentences import ONE_TWICE as SENTENCES
from some_sentences import PROMPT
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError, UnknownModelError

Edit = Callable[..., Path]


@pytest.fixture
def encoder(tiny_folder: Path) -> Encoder:
    return load_encoder(str(tiny_folder))


@pytest.fixture
def edited(tiny_bert: Path, tmp_path: Path) -> Edit:
    """Copies the tiny BERT and changes its config.json."""

    def copy(**changes: Any) -> Path:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        shutil.copytree(tiny_bert, folder, dirs_exist_ok=True)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        return folder

    return copy


def read(encoder: Encoder, sentences: list[str], *, max_length: int | None) -> dict[str, Tensor]:
    """What the model reads of sentences, in the encoder's own template."""
    template = encoder.template
    return encoder.pad(
        [template(c) for c in encoder.pieces(sentences, template, max_length=max_length)]
    )


def test_a_repeated_sentence_is_encoded_once_and_no_sentence_gives_no_vector(
    encoder: Encoder,
) -> None:
    seen: list[int] = []
    encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0]["input_ids"])))
    vectors = encoder.encode(SENTENCES)
    assert seen == [4]
    assert torch.equal(vectors[1], vectors[3])
    assert encoder.encode([]).shape == (0, 32)


def test_encoding_changes_neither_mode_nor_random_state(encoder: Encoder) -> None:
    for training in (True, False):
        encoder.train(training)
        dice = torch.get_rng_state()
        first = encoder.encode(SENTENCES)
        assert torch.equal(first, encoder.encode(SENTENCES))
        assert encoder.training is encoder.model.training is training
        assert torch.equal(torch.get_rng_state(), dice)
        assert not first.requires_grad


def test_rows_are_truncated_and_padded(encoder: Encoder) -> None:
    inputs = read(encoder, SENTENCES, max_length=7)
    assert inputs.keys() == {"input_ids", "attention_mask", "pieces"}
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    tokenizer = encoder.tokenizer
    assert ids.shape == mask.shape == (5, 7)
    assert (ids[:, 0] == tokenizer.cls_token_id).all()
    assert ids[2, -1] == tokenizer.sep_token_id
    assert torch.equal(ids == tokenizer.pad_token_id, mask == 0)
    assert mask[1].sum() < 7
    assert torch.equal(mask.flatten()[inputs["pieces"]], torch.ones(int(mask.sum())).long())


def test_a_prompt_is_read_at_its_mask(tiny_folder: Path) -> None:
    encoder = load_encoder(str(tiny_folder), pooler="mask", prompt=PROMPT)
    tokenizer = encoder.tokenizer
    rows = read(encoder, ["the nurse", "the nurse ."], max_length=None)
    assert rows["input_ids"][0].tolist() == rows["input_ids"][1].tolist()  # a final mark is added
    place = rows["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        hidden = encoder.model(rows["input_ids"][:1]).last_hidden_state
    torch.testing.assert_close(encoder.encode(["the nurse"])[0], hidden[0, place])


def test_a_prompt_without_sentence_or_mask_is_refused(tiny_bert: Path) -> None:
    for prompt, message in (
        ("means [MASK] .", "expected {} for the sentence and after it"),
        ("{} means", "expected {} for the sentence and after it"),
        ("[MASK] is {}", "expected {} for the sentence and after it"),
        ("{} and {} mean [MASK]", "and no second {}"),
        (None, "the pooler mask needs a prompt"),
    ):
        with pytest.raises(BackboneError, match=message):
            load_encoder(str(tiny_bert), pooler="mask", prompt=prompt)
    encoder = load_encoder(str(tiny_bert), pooler="mask", prompt=PROMPT)
    with pytest.raises(BackboneError, match="8 word pieces have no room for a sentence beside"):
        encoder.encode(SENTENCES, max_length=8)


def test_weights_are_float32_in_memory_whatever_the_file_has() -> None:
    encoder = load_encoder("mini")  # stored as float16
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    half = load_encoder("mini", dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    assert half.encode(SENTENCES).dtype == torch.float32


def test_unknown_families_are_refused(edited: Edit) -> None:
    own_code = {"model_type": "new", "auto_map": {"AutoModel": "a/b--modeling.NewModel"}}
    configs: list[tuple[dict[str, Any], str]] = [
        ({"model_type": "gpt2"}, "of the family 'gpt2'; encoders of"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "'t5', which decodes as well"),
        ({"is_decoder": True}, "is a decoder of the family 'bert'"),
        (own_code, "'new', whose code comes with the model and is not run here"),
    ]
    for config, datum in configs:
        folder = str(edited(**config))
        with pytest.raises(UnknownModelError, match=repr(folder)) as caught:
            load_encoder(folder)
        message = str(caught.value)
        assert datum in message
        assert "deberta-v2, distilbert, electra" in message


def refused(name: Path | str, **settings: Any) -> str:
    """What both say, and the model's name in it."""
    said = []
    for use in (check_encoder, load_encoder):
        with pytest.raises(BackboneError) as caught:
            use(str(name), **settings)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert repr(str(name)) in said[0]
    return said[0]


def test_too_few_positions_and_missing_special_tokens_are_refused(edited: Edit) -> None:
    folder = edited()
    check_encoder(str(folder), max_length=64)
    message = refused(folder, max_length=65)
    assert "max_length 65" in message and "64 positions" in message
    change_tokenizer(folder := edited(), mask_token=None)
    check_encoder(str(folder), pooler="cls")
    assert "no mask token" in refused(folder, pooler="mask", prompt="{} means [MASK] .")
    for lacking in ("cls", "sep", "pad"):
        change_tokenizer(folder := edited(), **{f"{lacking}_token": None})
        assert f"no {lacking}_token" in refused(folder)


def change_tokenizer(folder: Path, **tokens: str | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = {f"{one}_token": f"[{one.upper()}]" for one in ("cls", "sep", "pad", "mask", "unk")}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, **(names | tokens)
    ).save_pretrained(folder)
