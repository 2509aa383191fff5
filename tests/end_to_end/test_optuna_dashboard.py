"""optuna-dashboard on the search store of a sweep, where that program is installed."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import free_port
from processes import end_of
from search_studies import opened

from cse_platform.sweep.file import load_sweep

SWEEPS = Path(__file__).parents[2] / "sweeps"
SECONDS = 60
"""A program that takes longer hangs."""


def test_optuna_dashboard_shows_a_search_under_way_and_cannot_change_it(tmp_path: Path) -> None:
    spec = load_sweep(SWEEPS / "quickstart.yaml").stages[0]
    search = opened(tmp_path, spec)
    with shown(tmp_path) as (process, studies):
        assert _names(process, studies) == [spec.sweep]
        search.ask()  # it writes while the other reads
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(urllib.request.Request(f"{studies}/1", method="DELETE"))
        assert _names(process, studies) == [spec.sweep]
        assert search.running() == [0]


@contextmanager
def shown(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The program on the search store of a folder, and the address of its studies."""
    pytest.importorskip("optuna_dashboard", reason="pip install optuna-dashboard")
    port = str(free_port())
    program = Path(sys.executable).with_name("optuna-dashboard")
    store = f"sqlite:///file:{folder}/search.db?mode=ro&uri=true"
    command = [str(program), store, "--port", port, "--quiet"]
    with end_of(subprocess.Popen(command, start_new_session=True)) as process:
        yield process, f"http://127.0.0.1:{port}/api/studies"


def _names(process: subprocess.Popen[bytes], studies: str) -> list[str]:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(studies, timeout=SECONDS) as answer:
                return [study["study_name"] for study in json.load(answer)["study_summaries"]]
        except urllib.error.URLError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
