from pathlib import Path
from typing import get_args

import pytest
import tiny_families
import torch
from some_sentences import PROMPT
from some_sentences import THREE as SENTENCES
from torch import nn
from transformers import AutoModel, AutoTokenizer

from cse_methods.encoders.backbones import weights_sha256
from cse_methods.encoders.families import FAMILIES
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.training.student import Student, dropout_views

QUICK = ("deberta-v2", "modernbert", "roberta")
"""Families with all tests in every run: relative, rotary and offset positions."""
BY_QUICK = [pytest.param(f, marks=[] if f in QUICK else pytest.mark.slow) for f in FAMILIES]


@pytest.fixture(scope="module", params=BY_QUICK)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an encoder of each family in turn."""
    folder = tmp_path_factory.mktemp(request.param)
    tiny_families.save_tiny(request.param, folder)
    return folder


@pytest.mark.parametrize("family", BY_QUICK)
def test_every_family_gives_the_library_s_vectors_up_to_its_last_position(family, tmp_path) -> None:
    tiny_families.save_tiny(family, tmp_path)
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path), pooler="avg")
    found = encoder.encode(SENTENCES)
    for sentence, vector in zip(SENTENCES, found, strict=True):
        with torch.no_grad():
            states = model.eval()(**tokenizer(sentence, return_tensors="pt")).last_hidden_state
        torch.testing.assert_close(vector, states[0].mean(dim=0), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found[0], found[1], atol=0.01)
    long = "the nurse " * 80
    (content,) = encoder.pieces([long], encoder.template)
    assert encoder.limit == len(encoder.template(content)) == tiny_families.POSITIONS
    assert encoder.encode([long]).isfinite().all()


def test_a_saved_encoder_has_the_same_vectors(folder: Path, tmp_path: Path) -> None:
    for pooler in get_args(Pooler):
        encoder = load_encoder(
            str(folder), pooler=pooler, prompt=PROMPT if pooler == "mask" else None
        )
        encoder.with_post_pooling(TrainingHead(32)).save(tmp_path / pooler)
        again = load_encoder(str(tmp_path / pooler))
        assert (again.pooling, again.limit) == (encoder.pooling, encoder.limit)
        alone = torch.cat([again.encode([sentence]) for sentence in SENTENCES])
        torch.testing.assert_close(again.encode(SENTENCES), alone, rtol=1e-4, atol=1e-5)
        head = again.post_pooling[0]
        with torch.no_grad():
            torch.testing.assert_close(head(encoder.encode(SENTENCES)), again.encode(SENTENCES))


def test_a_prompt_is_read_as_one_text(folder: Path) -> None:
    encoder = load_encoder(str(folder), pooler="mask", prompt=PROMPT)
    (content,) = encoder.pieces(["the nurse ."], encoder.template)
    words = PROMPT.replace("[MASK]", encoder.tokenizer.mask_token).format("the nurse .")
    row = encoder.template(content)
    assert row == encoder.tokenizer(words)["input_ids"]
    assert row.count(encoder.tokenizer.mask_token_id) == 1


def test_every_family_is_trained_under_dropout(folder: Path) -> None:
    alike = {}
    for dropout in (0.0, 0.5):
        encoder = load_encoder(str(folder), dropout=dropout)
        student = Student(encoder, TrainingHead(32), max_length=16).train()
        first, second = dropout_views(student, SENTENCES, count=2)
        alike[dropout] = torch.allclose(first, second, atol=1e-6)
    assert alike == {0.0: True, 0.5: False}
    first.sum().backward()
    parameters = encoder.named_parameters()
    assert [name for name, p in parameters if p.requires_grad and p.grad is None] == []


def test_without_dropout_equal_rows_are_encoded_once(folder, monkeypatch) -> None:
    student = Student(load_encoder(str(folder), dropout=0.0), nn.Identity(), max_length=16).train()
    padded = []
    pad = student.encoder.pad
    monkeypatch.setattr(student.encoder, "pad", lambda rows: padded.append(len(rows)) or pad(rows))
    template = student.encoder.template
    contents = student.pieces([*SENTENCES, SENTENCES[0]], template)
    first, second = student.encode(contents, template, template)
    assert padded == [len(SENTENCES)]
    assert first.shape == second.shape == (len(SENTENCES) + 1, student.encoder.width)
    assert first.equal(second)
    assert first[0].equal(first[-1])
    expected = student.encoder.encode([*SENTENCES, SENTENCES[0]], max_length=16)
    torch.testing.assert_close(first.detach(), expected, rtol=1e-4, atol=1e-5)


def test_a_sentence_piece_model_alone_is_a_tokenizer(tmp_path: Path) -> None:
    """As the hub has DeBERTa v3: without a tokenizer.json."""
    pytest.importorskip("sentencepiece", reason="installed since DeBERTa is read")
    from transformers.convert_slow_tokenizer import import_protobuf

    tiny_families.save_tiny("deberta-v2", tmp_path)
    model = import_protobuf().ModelProto()
    model.trainer_spec.model_type, model.trainer_spec.unk_id = 1, 1
    marks = [(mark, 0.0) for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    for place, (text, score) in enumerate([*marks, *tiny_families.sentence_pieces()]):
        kind = 2 if text == "[UNK]" else 3 if place < len(marks) else 1
        model.pieces.add(piece=text, score=score, type=kind)
    whole = load_encoder(str(tmp_path)).encode(SENTENCES)
    before = weights_sha256(tmp_path)
    (tmp_path / "spm.model").write_bytes(model.SerializeToString())
    assert weights_sha256(tmp_path) == before  # tokenizer.json says it all
    (tmp_path / "tokenizer.json").unlink()
    torch.testing.assert_close(load_encoder(str(tmp_path)).encode(SENTENCES), whole)
    assert weights_sha256(tmp_path) != before
