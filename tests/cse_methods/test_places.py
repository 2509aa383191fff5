"""Encoders in an object store, copied once onto a machine."""

from pathlib import Path

import pytest
from object_store import *  # noqa: F403

from cse_methods.encoders.backbones import (
    fetch_backbone,
    locate_backbone,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.errors import BackboneError


@pytest.fixture
def stored(bucket: Bucket, tiny_bert: Path, tmp_path: Path, monkeypatch) -> str:  # noqa: F405
    monkeypatch.setenv("CSE_CACHE", str(tmp_path / "cache"))
    for file in tiny_bert.rglob("*"):
        if file.is_file():
            bucket.client.upload_file(str(file), "lab", f"models/a/{file.relative_to(tiny_bert)}")
    return f"{bucket.uri}/models/a"


def test_a_stored_encoder_is_copied_once_and_one_that_was_replaced_is_another(
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
