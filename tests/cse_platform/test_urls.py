"""Paths become URLs that name them, and what a person writes is expanded in each place alike."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from cse_platform.cli.common import LeaderboardPlace, UserPath, store_options
from cse_platform.errors import SweepFileError, SweepRefusedError
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.stores import sweep_stores
from cse_platform.urls import expand_url, sqlite_file, sqlite_url

SWEEP = "{sweep: a, method: simcse, backbone: mini, corpus: builtin, search: {trials: 1}"
AWKWARD = "my%20runs a?b x=1%2e5#{c}@d"


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1))
def test_a_url_names_the_file_that_it_was_made_of(name: str) -> None:
    file = Path("/runs", name.lstrip("/") or "a")
    url = sqlite_url(file)
    assert sqlite_file(url) == file
    assert make_url(url).database == str(file)
    assert make_url(url).query == {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / AWKWARD
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SCRATCH", str(home / "s"))
    monkeypatch.setenv("CSE_STORE", "sqlite:///~/lab.db")
    return home


def test_what_a_person_writes_is_expanded(home: Path) -> None:
    for written, meant in (
        ("~/runs", str(home / "runs")),
        ("${SCRATCH}/runs", str(home / "s" / "runs")),
        ("sqlite:///~/lab.db", sqlite_url(home / "lab.db")),
        ("sqlite:///${SCRATCH}/lab.db?timeout=9", f"{sqlite_url(home / 's' / 'lab.db')}?timeout=9"),
        ("postgresql+psycopg://u@host/db", "postgresql+psycopg://u@host/db"),
        ("sqlite:///runs/a%20b.db", "sqlite:///runs/a b.db"),
        *(
            (same, same)
            for same in ("sqlite://", "sqlite:///:memory:", "s3://bucket/a", "a~b", "$")
        ),
    ):
        assert expand_url(written) == meant


def test_a_sweep_file_and_the_environment_are_expanded(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        SWEEP + ", storage: ~/kept, stores: {search: 'sqlite:///${SCRATCH}/search.db'}}"
    )
    (spec,) = load_sweep(file).stages
    environment = {"CSE_STORE": "sqlite:///~/lab.db", "CSE_MLFLOW_URI": "sqlite:///~/ml.db"}
    stores = sweep_stores(spec, runs=tmp_path, environment=environment)
    assert stores.storage == str(home / "kept")
    urls = (stores.leaderboard, stores.search, stores.mlflow)
    assert urls == tuple(sqlite_url(home / name) for name in ("lab.db", "s/search.db", "ml.db"))
    assert home / "lab.db" in stores.on_this_machine
    with pytest.raises(SweepRefusedError, match="the same URL"):
        environment |= {"CSE_MLFLOW_URI": sqlite_url(home / "lab.db")}
        sweep_stores(spec, runs=tmp_path, environment=environment)
    file.write_text(SWEEP.replace("backbone: mini", "backbone: ~/enc, data: '${SCRATCH}'") + "}")
    spec = read_draft(file).stages[0].spec  # without a look at these folders
    assert (spec.backbone, spec.data) == (str(home / "enc"), str(home / "s"))
    file.write_text(SWEEP + ", storage: '${LACKING}/kept'}")
    with pytest.raises(SweepFileError, match=r"line 1, storage: .*LACKING.* no variable"):
        load_sweep(file)


def test_options_and_their_variables_are_expanded(home: Path) -> None:
    @click.command()
    @store_options
    @click.argument("file", type=UserPath())
    def show(place: LeaderboardPlace, file: Path) -> None:
        click.echo(f"{place.url} {file}")

    def shown(*words: str) -> str:
        return CliRunner().invoke(show, words).output.strip()

    assert shown("-") == f"{sqlite_url(home / 'lab.db')} -"
    assert shown("--runs=~/runs", "~/x") == f"{sqlite_url(home / 'runs/leaderboard.db')} {home}/x"
    assert shown("--store=sqlite:///${SCRATCH}/b.db", "a") == f"{sqlite_url(home / 's/b.db')} a"
    assert "LACKING" in shown("--runs", "${LACKING}", "a")


def test_a_store_in_an_awkward_folder_is_that_one(home: Path) -> None:
    open_store(sqlite_url(home / "leaderboard.db")).close()
    assert [file.name for file in home.parent.iterdir()] == [home.name]
    for named in (home, "~", "sqlite:///~/leaderboard.db"):
        with open_leaderboard(named) as board:
            assert board.rows() == []
