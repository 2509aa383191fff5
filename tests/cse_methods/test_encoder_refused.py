"""Encoders that are refused: by `check_encoder` without weights, and by loading in its words."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.reading import check_encoder
from cse_methods.errors import BackboneError

Edit = Callable[..., Path]


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


def test_families(edited: Edit) -> None:
    configs: list[tuple[dict[str, Any], str]] = [
        ({"model_type": "gpt2"}, "of the family 'gpt2'; encoders of"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "'t5', which decodes as well"),
        ({"is_decoder": True}, "is a decoder of the family 'bert'"),
        (
            {"model_type": "new", "auto_map": {"AutoModel": "a/b--modeling.NewModel"}},
            "'new', whose code comes with the model and is not run here",
        ),
        ({"model_type": None}, "of the family None"),
    ]
    for config, datum in configs:
        message = refused(edited(**config))
        assert datum in message
        assert "deberta-v2, distilbert, electra" in message


def test_more_word_pieces_than_positions(edited: Edit) -> None:
    folder = edited()
    check_encoder(str(folder), max_length=64)
    message = refused(folder, max_length=65)
    assert "max_length 65" in message and "64 positions" in message


def change_tokenizer(folder: Path, **tokens: str | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = {f"{one}_token": f"[{one.upper()}]" for one in ("cls", "sep", "pad", "mask", "unk")}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, **(names | tokens)
    ).save_pretrained(folder)


def test_no_mask_to_pool_at(edited: Edit) -> None:
    change_tokenizer(folder := edited(), mask_token=None)
    check_encoder(str(folder), pooler="cls")
    assert "no mask token" in refused(folder, pooler="mask", prompt="{} means [MASK] .")


def test_no_marks_around_a_sentence(edited: Edit) -> None:
    for lacking in ("cls", "sep", "pad"):
        change_tokenizer(folder := edited(), **{f"{lacking}_token": None})
        assert f"no {lacking}_token" in refused(folder)


def test_a_slow_tokenizer(edited: Edit) -> None:
    folder = edited()
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    settings = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert "BertJapaneseTokenizer" in refused(folder)


def test_what_is_not_here_yet_is_not_looked_at() -> None:
    check_encoder("nobody/nothing@v1", max_length=9999)
