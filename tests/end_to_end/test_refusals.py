"""What cannot be run is refused by the command in one sentence, before Ray is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cse_platform.cli.sweep import main
from cse_platform.tracking.journal import Journal


@pytest.fixture
def refused(new_sweep, tmp_path, monkeypatch):
    """Runs the tiny sweep with changes; gives the sentence that the command says."""
    for name in ("CSE_DATA", "CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)

    def run(*, runs: Path = tmp_path / "runs", code: int = 1, **changes) -> str:
        sweep = new_sweep(tmp_path, **changes)
        result = CliRunner().invoke(main, [str(sweep.file), "--runs", str(runs)])
        return _said(result, code)

    return run


def _said(result: Result, code: int) -> str:
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("content", "told"), [("one\n\ntwo\n", "line 2"), ("", "no sentences")], ids=["hole", "empty"]
)
def test_corpus_with_nothing_in_it(refused, tmp_path, content: str, told: str) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(content)
    line = refused(corpus=str(corpus))
    assert str(corpus) in line
    assert told in line


def test_missing_data_folder(refused, tmp_path) -> None:
    assert str(tmp_path / "nowhere") in refused(data=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("store", ["leaderboard", "search", "mlflow"])
@pytest.mark.parametrize(
    "url", ["mongodb://me:secret@here/db", "no url", "postgresql+psycopg://me:secret@127.0.0.1:1/x"]
)
def test_wrong_database(refused, store: str, url: str) -> None:
    if store == "mlflow" and url.startswith("postgresql"):
        pytest.skip("MLflow may be down; the sweep goes on without it")
    line = refused(stores={store: url})
    assert "secret" not in line
    assert store in line.lower() or "127.0.0.1:1" in line


def test_one_database_for_two_stores(refused) -> None:
    line = refused(stores={"search": "sqlite:///x.db", "leaderboard": "sqlite:///x.db"})
    assert "each store needs a database of its own" in line


def test_runs_below_a_file(refused, tmp_path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in refused(runs=tmp_path / "file" / "runs")


def test_runs_where_nobody_may_write(refused) -> None:
    assert "/proc/runs" in refused(runs=Path("/proc/runs"))


def test_runs_that_is_a_file_is_misuse(new_sweep, tmp_path) -> None:
    sweep = new_sweep(tmp_path)
    result = CliRunner().invoke(main, [str(sweep.file), "--runs", str(sweep.file)])
    assert result.exit_code == 2
    assert "is a file" in result.stderr


def test_sweep_that_runs_already(refused, tmp_path) -> None:
    with Journal(tmp_path / "runs" / "sweeps" / "tiny" / "journal.jsonl"):
        assert "is in use by process" in refused()
