"""What all tests share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from empty_stores import *  # noqa: F403
from hypothesis import settings

from cse_methods.data.manifest import manifest
from cse_methods.data.source import HubFile

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden values and real data beside the project, or a skip."""
    folder = Path(os.environ.get("CSE_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set CSE_SHARED to where the golden values lie")
    return folder


@pytest.fixture
def kept_from_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[HubFile], Path]:
    """Offline; gives the place where the hub's client keeps a file that it has fetched."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def place(file: HubFile) -> Path:
        home = tmp_path / "hub" / f"datasets--{file.repository.replace('/', '--')}"
        reference = home / "refs" / file.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text("0" * 40)
        path = home / "snapshots" / ("0" * 40) / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    return place


@pytest.fixture
def counted_data(tmp_path: Path) -> Path:
    """A data folder whose files have made-up lines, of each as many as are known."""
    for file in manifest().values():
        path = tmp_path / "data" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        blank = file.lines - file.records if "/STS.gs." in file.path else 0
        path.write_text("\n" * blank + "2.5\n" * (file.lines - blank))
    return tmp_path / "data"
