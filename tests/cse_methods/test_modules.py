"""The modules that a folder or a hub's model lists: read where they are ours, else refused."""

import json
import shutil
from pathlib import Path

import pytest

from cse_methods.encoders.backbones import fetch_backbone, own_pooling, resolve_backbone
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.errors import UnknownModelError

STEM = "sentence_transformers.models"


def list_modules(folder: Path, *modules: tuple[str, str]) -> None:
    listed = [{"type": kind, "path": path} for kind, path in modules]
    (folder / "modules.json").write_text(json.dumps(listed))


def test_modules_that_are_not_ours(tiny_bert: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("ours", [True, False])
def test_modules_are_read_before_weights_are_fetched(ours, own_hub, tiny_bert, tmp_path) -> None:
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
        with pytest.raises(UnknownModelError, match=r"not read here: .*WeightedLayerPooling"):
            fetch_backbone(source)
    assert bool(own_hub.bytes_sent("model.safetensors")) == ours
