"""The modules that a folder or a hub's model lists: read where they are ours, else refused."""

import json
import shutil
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError

from cse_methods.encoders.backbones import (
    Backbone,
    fetch_backbone,
    locate_backbone,
    own_pooling,
    resolve_backbone,
)
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.errors import UnknownModelError

STEM = "sentence_transformers.models"


def list_modules(folder: Path, *modules: tuple[str, str]) -> None:
    listed = [{"type": kind, "path": path} for kind, path in modules]
    (folder / "modules.json").write_text(json.dumps(listed))


def test_modules_that_are_not_ours(tiny_bert, tmp_path, monkeypatch) -> None:
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
        with pytest.raises(UnknownModelError, match=match):
            resolve_backbone(str(tmp_path))
    folder = shutil.copytree(tiny_bert, tmp_path / "mine")  # a model's own code
    list_modules(folder, ("custom_st.Transformer", ""), (f"{STEM}.Pooling", "1_Pooling"))
    with pytest.raises(UnknownModelError, match=r"not read here: custom_st\.Transformer, Pooling"):
        resolve_backbone(str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--owner--static" / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    list_modules(folder, (f"{STEM}.StaticEmbedding", ""))
    for find in (locate_backbone, fetch_backbone):
        with pytest.raises(UnknownModelError, match="not read here: StaticEmbedding"):
            find(Backbone("owner/static", "owner/static", "0" * 40))


@pytest.mark.parametrize("ours", [True, False])
def test_modules_are_read_before_weights_are_fetched(
    ours: bool, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = shutil.copytree(tiny_bert, tmp_path / "hub")
    second = "Pooling" if ours else "WeightedLayerPooling"
    list_modules(hub, (f"{STEM}.Transformer", ""), (f"{STEM}.{second}", "pool"))
    (hub / "pool").mkdir()
    (hub / "pool" / "config.json").write_text('{"pooling_mode": "cls"}')
    target = tmp_path / "fetched"

    def one_file(repository: str, name: str, *, revision: str | None) -> None:
        if not (hub / name).is_file():
            response: Any = SimpleNamespace(headers={}, request=None)
            raise RemoteEntryNotFoundError("no such file", response=response)

    def snapshot(_: str, *, allow_patterns: Sequence[str], **options: Any) -> str:
        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("not here")
        for file in (file for file in hub.rglob("*") if file.is_file()):
            path = file.relative_to(hub)
            if any(fnmatch(path.as_posix(), pattern) for pattern in allow_patterns):
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target / path)
        return str(target)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", one_file)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    source = resolve_backbone("owner/name")
    if ours:
        assert own_pooling(source, fetch_backbone(source)) == Pooling("cls")
    else:
        with pytest.raises(UnknownModelError, match=r"not read here: .*WeightedLayerPooling"):
            fetch_backbone(source)
    assert (target / "model.safetensors").exists() == ours
