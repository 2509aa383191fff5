"""Commands, page and stores show what they showed before, to the character."""

from pathlib import Path

import pytest
from golden_outputs import OUTPUTS, read_outputs


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return dict(read_outputs(tmp_path_factory.mktemp("golden")))


def test_each_recorded_output_is_still_made(shown: dict[str, str]) -> None:
    assert sorted(shown) == sorted(file.stem for file in OUTPUTS.glob("*.txt"))


@pytest.mark.parametrize("file", sorted(OUTPUTS.glob("*.txt")), ids=lambda file: file.stem)
def test_output_is_as_recorded(shown: dict[str, str], file: Path) -> None:
    recorded = file.read_text(encoding="utf-8")
    assert shown[file.stem] == recorded, "if the change is meant: make golden, and look at the diff"
