"""What standard output and error cannot take ends no sweep, and is no silent loss of data."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click
import pytest
from lost_streams import full_disk, lost_terminal
from rich.console import Console

from cse_platform.cli.common import say, shows_errors
from cse_platform.standard_streams import unwritable_dropped


@pytest.mark.parametrize("lost", [full_disk, lost_terminal])
def test_only_data_that_cannot_be_written_is_an_error(
    lost: Callable[[], TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    @shows_errors
    def shown() -> None:
        say("reading", log="stdout")
        click.echo("a note", err=True)
        with unwritable_dropped("stdout", "stderr"):
            Console().print("a trial")
        click.echo("data")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", lost())
        patch.setattr(sys, "stderr", lost())
        with pytest.raises(OSError, match=r"No space left on device|Input/output error"):
            shown([], standalone_mode=False)


def test_what_can_be_written_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w", encoding="latin-1", errors="replace") as log:
        monkeypatch.setattr(sys, "stdout", log)
        monkeypatch.setattr(sys, "stderr", memory := io.TextIOWrapper(io.BytesIO()))
        log.write("before\n")
        with unwritable_dropped("stdout", "stderr"):
            click.echo("é ≈")
            assert sys.stderr is memory
        assert sys.stdout is log
        log.write("after\n")
    assert (tmp_path / "log").read_bytes() == b"before\n\xe9 ?\nafter\n"
