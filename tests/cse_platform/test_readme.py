"""What the README shows of the commands is what they print."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cse_platform.cli.sweep import main

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```console\n\$ cse-sweep ([^\n]*)\n(.*?)```", (ROOT / "README.md").read_text(), re.S
)
SHOWN = [
    pytest.param(command, output, id=command)
    for command, output in BLOCKS
    if command.startswith("describe ") or command.endswith("--dry-run")
]


def test_there_is_something_to_check() -> None:
    assert len(SHOWN) >= 2


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_the_readme_is_true(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line; `…` stands for lines that are left out."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CSE_DATA", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0, result.output
    printed = iter(line.rstrip() for line in result.output.splitlines())
    gap = False
    for line in output.splitlines():
        if line.strip() == "…":
            gap = True
        elif gap:
            assert line in printed  # consumes what stands before it
            gap = False
        else:
            assert next(printed) == line
    assert gap or not list(printed)
