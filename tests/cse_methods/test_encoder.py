"""Encoders of both families: poolers, tokens, vectors, saving, and what is refused."""

import json
import logging
import shutil
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor

from cse_methods.contract import Pooler
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.errors import BackboneError

SENTENCES = [
    "The nurse thanks the pilot.",
    "Rain!",
    "A small dog runs over the green grass, and a cat sleeps in the old library.",
    "Rain!",
    "The pilot thanks the nurse.",
]
PROMPT = 'This one : " {} " means [MASK] .'


@pytest.fixture
def encoder(tiny_folder: Path) -> Encoder:
    return load_encoder(str(tiny_folder))


def read(encoder: Encoder, sentences: list[str], *, max_length: int | None) -> dict[str, Tensor]:
    """What the model reads of sentences, in the encoder's own template."""
    template = encoder.template
    return encoder.pad(
        [template(c) for c in encoder.pieces(sentences, template, max_length=max_length)]
    )


def test_a_fresh_head_is_drawn_as_stated() -> None:
    torch.manual_seed(0)
    head = TrainingHead(256)
    assert head.linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert not head.linear.bias.any()


def test_padding_changes_nothing(tiny_folder: Path) -> None:
    for pooler in get_args(Pooler):
        encoder = load_encoder(str(tiny_folder), pooler=pooler, prompt=PROMPT)
        together = encoder.encode(SENTENCES)
        alone = torch.cat([encoder.encode([sentence]) for sentence in SENTENCES])
        assert (together.shape, together.dtype) == ((5, 32), torch.float32)
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(together[0], together[1], atol=0.01)


def test_a_repeated_sentence_is_encoded_once(encoder: Encoder) -> None:
    seen: list[int] = []
    encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0]["input_ids"])))
    vectors = encoder.encode(SENTENCES)
    assert seen == [4]
    assert torch.equal(vectors[1], vectors[3])


def test_encoding_nothing(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, 32)


def test_encoding_leaves_the_mode_and_the_dice_alone(encoder: Encoder) -> None:
    for training in (True, False):
        encoder.train(training)
        dice = torch.get_rng_state()
        first = encoder.encode(SENTENCES)
        assert torch.equal(first, encoder.encode(SENTENCES))
        assert encoder.training is encoder.model.training is training
        assert torch.equal(torch.get_rng_state(), dice)
        assert not first.requires_grad


def test_dropout_makes_views_differ_in_training(tiny_folder: Path) -> None:
    views = {}
    for dropout in (0.0, 0.5):
        encoder = load_encoder(str(tiny_folder), dropout=dropout).train()
        inputs = read(encoder, SENTENCES, max_length=32)
        views[dropout] = torch.allclose(encoder(inputs), encoder(inputs), atol=1e-6)
    assert views == {0.0: True, 0.5: False}


def test_tokens_are_cut_and_padded(encoder: Encoder) -> None:
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
    words = PROMPT.replace("[MASK]", tokenizer.mask_token).format("the nurse .")
    assert rows["input_ids"][0].tolist() == tokenizer(words)["input_ids"]
    place = rows["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    with torch.no_grad():
        hidden = encoder.model(rows["input_ids"][:1]).last_hidden_state
    torch.testing.assert_close(encoder.encode(["the nurse"])[0], hidden[0, place])


def test_prompts_that_cannot_be_read(tiny_bert: Path) -> None:
    for prompt, message in (
        ("means [MASK] .", "expected {} for the sentence and after it"),
        ("{} means", "expected {} for the sentence and after it"),
        ("[MASK] is {}", "expected {} for the sentence and after it"),
        ("{} means [MASK] [MASK]", "each once"),
        (None, "the pooler mask needs a prompt"),
    ):
        with pytest.raises(BackboneError, match=message):
            load_encoder(str(tiny_bert), pooler="mask", prompt=prompt)


def test_a_prompt_that_leaves_no_room(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert), pooler="mask", prompt=PROMPT)
    with pytest.raises(BackboneError, match="8 word pieces have no room for a sentence beside"):
        encoder.encode(SENTENCES, max_length=8)


def test_weights_are_float32_whatever_is_stored() -> None:
    encoder = load_encoder("mini")  # stored as float16
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float32}
    half = load_encoder("mini", dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    assert half.encode(SENTENCES).dtype == torch.float32


def test_attention_kernels_agree(tiny_folder: Path) -> None:
    fast, plain = (load_encoder(str(tiny_folder), attention=kind) for kind in ("sdpa", "eager"))
    assert plain.model.config._attn_implementation == "eager"
    torch.testing.assert_close(
        fast.encode(SENTENCES), plain.encode(SENTENCES), rtol=1e-4, atol=1e-5
    )


def test_mini_knows_that_like_sentences_are_near() -> None:
    encoder = load_encoder("mini")
    assert (encoder.width, encoder.limit, encoder.pooling) == (192, 512, Pooling("avg"))
    dog, hound, tax = encoder.encode(
        ["A dog runs in the park.", "A dog is running in a park.", "The tax was raised in 1931."]
    )
    near, far = (torch.cosine_similarity(dog, other, dim=0) for other in (hound, tax))
    assert near > far


def test_loading_is_quiet(tiny_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("transformers").level
    load_encoder(str(tiny_folder))
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("transformers").level == level


def edited(folder: Path, target: Path, **changes: object) -> str:
    copy = shutil.copytree(folder, target)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | changes))
    return str(copy)


def test_weights_that_do_not_fit(tiny_bert: Path, tmp_path: Path) -> None:
    deeper = edited(tiny_bert, tmp_path / "deeper", num_hidden_layers=3)
    with pytest.raises(BackboneError, match=r"lack 16 of the model's tensors, encoder\.layer\.2"):
        load_encoder(deeper)
    wider = edited(tiny_bert, tmp_path / "wider", intermediate_size=128)
    with pytest.raises(BackboneError, match=f"cannot be loaded from {wider}: "):
        load_encoder(wider)


def test_damaged_weights(tiny_bert: Path, tmp_path: Path) -> None:
    folder = Path(edited(tiny_bert, tmp_path / "damaged"))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(BackboneError, match=f"cannot be loaded from {folder}: "):
        load_encoder(str(folder))


def test_a_first_layer_that_is_not_there(tiny_bert: Path) -> None:
    with pytest.raises(BackboneError, match="first_layer 3 is beyond the 2 layers of backbone"):
        load_encoder(str(tiny_bert), pooler="avg_first_last", first_layer=3)
