"""The lines of docs/administration.md copy what counts, and bring it back."""

import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks
from doc_world import output, page_world, shared_build
from sqlalchemy import create_engine, make_url, text
from stored_trials import apply_events
from sweep_events import sweep_started

from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import find_sweep

PAGE = ROOT / "docs" / "administration.md"


COUNTS = {
    "leaderboard.db": "SELECT name, sum(role = 'search'), count(*) + 1 FROM sweeps "
    "JOIN sweep_trials ON sweep_id = sweeps.id GROUP BY name",
    "search.db": "SELECT study_name, count(*) FROM studies JOIN trials USING (study_id) "
    "GROUP BY study_name",
    "mlflow.db": "SELECT value, count(*) FROM tags WHERE key = 'sweep' GROUP BY value",
}
"""Queries of each store for numbers of trials, by sweep."""


def lines_with(tool: str) -> list[str]:
    """The lines of the page's blocks that mention a tool."""
    shown = [block.body for block in blocks(PAGE) if block.language == "sh"]
    return next(body.splitlines() for body in shown if tool in body)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not here")
def test_a_copy_of_the_journals_brings_everything_back() -> None:
    shown = ("--all --json", "compare rankcse simcse --on dev --json", "--all --published")
    shown += ("search quickstart-simcse --json", "show quickstart-rankcse#0 --json")
    with page_world(shared_build()):
        before = [output(f"cse-leaderboard {words}") for words in shown]
        Path("runs/sweeps/quickstart-simcse/ray").mkdir()
        for line in lines_with("runs/ backup/"):
            subprocess.run(line, shell=True, check=True)
        assert {path.name for path in Path("backup").iterdir()} == {"sweeps", "artifacts"}
        assert not Path("backup/sweeps/quickstart-simcse/ray").exists()
        for line in lines_with("backup/ restored/"):
            if line.startswith("cse-"):
                output(line)
            else:
                subprocess.run(line, shell=True, check=True)
        after = [output(f"cse-leaderboard {words} --runs restored") for words in shown]
        assert [text.replace("restored/", "runs/") for text in after] == before
        counts = {}
        for store, query in COUNTS.items():
            with closing(sqlite3.connect(Path("restored") / store)) as database:
                counts[store] = database.execute(query).fetchall()
    trials = counts["leaderboard.db"]
    assert counts["search.db"] == [(name, searched) for name, searched, _ in trials]
    assert counts["mlflow.db"] == [(name, runs) for name, _, runs in trials]


@pytest.mark.postgres
@pytest.mark.parametrize("leaderboard_url", ["postgres"], indirect=True)
def test_a_dump_of_postgresql_brings_the_leaderboard_back(
    leaderboard_url, board, tmp_path, monkeypatch
) -> None:
    apply_events(board, [sweep_started("first")])
    monkeypatch.chdir(tmp_path)
    Path("backup").mkdir()
    here, copy = make_url(leaderboard_url), make_url(leaderboard_url).set(database="a_copy")
    server = create_engine(here, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS a_copy"))
        connection.execute(text("CREATE DATABASE a_copy"))
    for line in lines_with("pg_dump"):
        for name, url in (("leaderboard", here), ("empty", copy)):
            place = url.set(drivername="postgresql").render_as_string(hide_password=False)
            line = line.replace(f"postgresql://lab@db.lab/{name}", shlex.quote(place))
        subprocess.run(line, shell=True, check=True)
    place = copy.render_as_string(hide_password=False)
    with open_store(place, create=False) as restored, restored.session() as session:
        assert find_sweep(session, "first").name == "first"
    with server.connect() as connection:
        connection.execute(text("DROP DATABASE a_copy WITH (FORCE)"))
    server.dispose()
