"""What all tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden values and real data beside the project, or a skip."""
    folder = Path(os.environ.get("CSE_SHARED", Path(__file__).parents[2] / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set CSE_SHARED to where the golden values lie")
    return folder
