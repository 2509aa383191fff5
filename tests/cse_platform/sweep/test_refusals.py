"""What cannot be run is refused by the command in one sentence, before Ray is started."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
import ray
from click.testing import CliRunner
from sweeps import CHEAP, write_sweep

from cse_platform.cli.sweep import main
from cse_platform.tracking.journal import Journal

Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Runs a sweep with changes; gives the sentence that the command says."""
    for name in ("CSE_DATA", "CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)

    def run(*, runs: Path = tmp_path / "runs", **changes: Any) -> str:
        sweep = write_sweep(tmp_path, CHEAP, **changes)
        result = CliRunner().invoke(main, [str(sweep.file), "--runs", str(runs)])
        assert result.exit_code == 1, (result.output, result.exception)
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.stderr
        assert not ray.is_initialized()
        return " ".join(result.stderr.split())

    return run


def test_corpus_with_nothing_in_it(refused: Refused, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    for content, datum in (("one\n\ntwo\n", "line 2"), ("", "no sentences")):
        corpus.write_text(content)
        line = refused(corpus=str(corpus))
        assert str(corpus) in line and datum in line


NO_SERVER = "postgresql+psycopg://me:secret@127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("store", "url"),
    [
        (store, url)
        for store in ("leaderboard", "search", "mlflow")
        for url in ("mongodb://me:secret@here/db", "no url", NO_SERVER)
        if (store, url) != ("mlflow", NO_SERVER)  # it may be down: the sweep goes on without it
    ],
)
def test_wrong_database(refused: Refused, store: str, url: str) -> None:
    line = refused(stores={store: url})
    assert "secret" not in line
    assert store in line.lower() or "127.0.0.1:1" in line


def test_runs_below_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in refused(runs=tmp_path / "file" / "runs")


def test_runs_that_is_a_file_is_misuse(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, CHEAP)
    result = CliRunner().invoke(main, [str(sweep.file), "--runs", str(sweep.file)])
    assert result.exit_code == 2
    assert str(sweep.file) in result.stderr


def test_sweep_that_runs_already(refused: Refused, tmp_path: Path) -> None:
    with Journal(tmp_path / "runs" / "sweeps" / "tiny" / "journal.jsonl"):
        assert "is in use by process" in refused()
