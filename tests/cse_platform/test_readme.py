"""What the README shows of the commands is what they print."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cse_platform.cli import leaderboard, sweep

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(
    r"```console\n\$ (cse-sweep|cse-leaderboard) ([^\n]*)\n(.*?)```",
    (ROOT / "README.md").read_text(),
    re.S,
)
COMMANDS = {"cse-sweep": sweep.main, "cse-leaderboard": leaderboard.main}
SHOWN = [
    pytest.param(COMMANDS[command], arguments, output, id=arguments)
    for command, arguments, output in BLOCKS
    if arguments.startswith("describe ") or arguments.endswith(("--dry-run", "--published"))
]


def test_there_is_something_to_check() -> None:
    assert len(SHOWN) >= 3


@pytest.mark.parametrize(("command", "arguments", "output"), SHOWN)
def test_the_readme_is_true(
    command: click.Command,
    arguments: str,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Line by line; `…` stands for lines that are left out."""
    monkeypatch.chdir(ROOT)
    for name in ("CSE_DATA", "CSE_STORE", "CSE_PUBLISHED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    result = CliRunner().invoke(command, arguments.split())
    assert result.exit_code == 0, result.output
    printed = iter(line.rstrip() for line in result.stdout.splitlines())
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
