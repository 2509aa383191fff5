import errno

import pytest
from loopback_hub import LoopbackHub

from cse_methods.data.source import HubFile
from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_methods.errors import BackboneError, DataError
from cse_methods.files.hub import explain_hub_error

PINNED = "0123456789abcdef0123456789abcdef01234567"
TEXT = b"One sentence.\nAnother one.\n"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries again at once."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)


@pytest.fixture
def texts(own_hub: LoopbackHub) -> HubFile:
    own_hub.put("datasets", "lab/texts", "corpus.txt", TEXT)
    return HubFile("lab/texts", "corpus.txt", "main")


def test_a_file_is_fetched_once_and_then_also_offline(own_hub, texts, monkeypatch) -> None:
    assert not texts.cached
    assert texts.fetch().read_bytes() == TEXT
    texts.fetch()
    assert texts.cached and own_hub.bytes_sent("corpus.txt") == 1
    full = OSError(errno.ENOSPC, "No space left on device")  # no fault of the hub
    assert explain_hub_error(full, "lab/texts", kind="datasets").endswith("No space left on device")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert texts.fetch().read_bytes() == TEXT
    with pytest.raises(DataError, match=r"HF_HUB_OFFLINE is set, and .* cache lacks it"):
        HubFile("lab/texts", "other.txt", "main").fetch()


def test_a_pinned_encoder_is_asked_for_by_its_revision(own_hub, tiny_bert) -> None:
    for file in tiny_bert.iterdir():
        own_hub.put("models", "lab/encoder", file.name, file.read_bytes())
    own_hub.revisions["lab/encoder"] = {PINNED}
    folder = fetch_backbone(resolve_backbone(f"lab/encoder@{PINNED}"))
    assert (folder / "config.json").read_bytes() == (tiny_bert / "config.json").read_bytes()
    files = [asked for asked in own_hub.asked if "/resolve/" in asked]
    assert files and all(f"/resolve/{PINNED}/" in asked for asked in files)


@pytest.mark.parametrize(
    ("status", "way_out"),
    [
        *((code, "accept them on {url}/{page}lab/gated, and set HF_TOKEN") for code in (401, 403)),
        (429, "(429); try again in a few minutes, or set HF_TOKEN"),
        (503, "(503); run it again later"),
    ],
)
def test_a_refusal_says_the_way_out(own_hub: LoopbackHub, status: int, way_out: str) -> None:
    own_hub.put("datasets", "lab/gated", "corpus.txt", TEXT)
    own_hub.put("models", "lab/gated", "config.json", b"{}")
    if status in (429, 503):  # busy for a moment: asked again
        own_hub.put("datasets", "lab/busy", "corpus.txt", TEXT)
        own_hub.fail("lab/busy", status, status)
        assert HubFile("lab/busy", "corpus.txt", "main").fetch().read_bytes() == TEXT
    own_hub.fail("lab/gated", *[status] * 100)
    with pytest.raises(DataError) as of_data:
        HubFile("lab/gated", "corpus.txt", "main").fetch()
    assert way_out.format(url=own_hub.url, page="datasets/") in str(of_data.value)
    with pytest.raises(BackboneError) as of_model:
        fetch_backbone(resolve_backbone("lab/gated"))
    assert way_out.format(url=own_hub.url, page="") in str(of_model.value)


@pytest.mark.usefixtures("texts")
def test_a_missing_repository_or_file_is_named() -> None:
    table: list[tuple[HubFile, str]] = [
        (HubFile("lab/none", "corpus.txt", "main"), "it has no repository lab/none, or a private"),
        (HubFile("lab/texts", "none.txt", "main"), "lab/texts has no such file"),
        (HubFile("lab/texts", "corpus.txt", "v2"), "lab/texts has no such revision"),
    ]
    for file, told in table:
        with pytest.raises(DataError, match=told):
            file.fetch()


def test_an_unreachable_hub_is_reported(
    own_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = own_hub.url.rpartition(":")[0] + ":9"
    template = f"{nowhere}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", nowhere)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(DataError, match=r"it cannot be reached .*; check the connection"):
        HubFile("lab/texts", "corpus.txt", "main").fetch()
