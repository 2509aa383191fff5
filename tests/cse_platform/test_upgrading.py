"""A store of an older schema: read by the next version, upgraded when asked, and never else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from click.testing import CliRunner, Result
from first_schema import go_back_to_first_schema
from sqlalchemy import create_engine, select, text
from stored_trials import apply_events

from cse_platform.cli.leaderboard import main
from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.schemas import HEAD_REVISION, PREVIOUS_REVISION, stored_revision
from cse_platform.leaderboard.store import open_for_reading, open_store, upgrade_store
from cse_platform.leaderboard.tables import Base
from cse_platform.leaderboard.upgrade import alembic_config, open_migration
from cse_platform.tracking.journal import Journal


def revise(url: str, revision: str) -> None:
    engine = create_engine(url)
    with open_migration(engine) as connection:
        command.downgrade(alembic_config(connection), revision)
    engine.dispose()


def revision_of(url: str) -> str | None:
    engine = create_engine(url)
    with engine.connect() as connection:
        revision = stored_revision(connection)
    engine.dispose()
    return revision


def shown(url: str) -> list[Any]:
    with open_leaderboard(url) as board:
        return [(row.method, row.dev_score.values, row.scores, row.costs) for row in board.rows()]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words], env={"CSE_STORE": None})


@pytest.fixture
def url(board, leaderboard_url, sweep_started, trial_life) -> Iterator[str]:
    """A store of this version's schema with two trials, one of them tried twice."""
    apply_events(board, [sweep_started(), *trial_life(0, {0: 0.5, 1: 0.6}), *trial_life(1, {1: 1})])
    apply_events(board, [sweep_started(), *trial_life(0, {1: 0.4}, state="FAIL")], journal="other")
    board.close()
    yield leaderboard_url


def test_the_schema_before_is_read_as_if_it_were_upgraded(url) -> None:
    before = shown(url)
    assert len(before) == 1
    revise(url, PREVIOUS_REVISION)
    assert shown(url) == before
    with open_for_reading(url) as board, board.session() as session:
        for table in Base.metadata.sorted_tables:
            session.execute(select(*table.c)).all()
    assert revision_of(url) == PREVIOUS_REVISION


@pytest.mark.slow
def test_a_store_of_the_first_schema_keeps_what_it_holds_and_goes_on(
    board, leaderboard_url, trial_evaluated
) -> None:
    board.close()
    engine = create_engine(leaderboard_url)
    go_back_to_first_schema(engine)
    engine.dispose()
    upgraded = upgrade_store(leaderboard_url, has_copy=True)
    assert (upgraded.before, revision_of(leaderboard_url)) == ("0001", HEAD_REVISION)
    if upgraded.copy:
        assert revision_of(f"sqlite:///{upgraded.copy}") == "0001"
    with open_store(leaderboard_url) as store:
        event = trial_evaluated("c1-1", {"test/stsb_spearman": 0.5})
        LeaderboardSink(store).apply("j", [(1, event)])
        with store.session() as session:
            dev = "SELECT trial_id, task, value, identity, measured FROM scores WHERE split = 'dev'"
            scores = [(*one[:4], str(one[4])[:13]) for one in session.execute(text(dev))]
            [row] = board_rows(session)
    assert sorted(scores) == [
        (1, "sickr", 0.5, "dev-1", "2026-01-02 01"),
        (1, "stsb", 0.75, "dev-1", "2026-01-02 01"),
        (2, "stsb", 0.75, "dev-1", "2026-01-02 02"),
    ]
    assert (row.method, row.backbone, row.trials, row.n) == ("rankcse", "mini", 2, 2)
    assert (row.dev.identity, row.dev.source, row.dev_score.mean) == ("dev-1", "hub", 0.75)
    assert row.scores["stsb"].mean == 0.5


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_the_command(url) -> None:
    before = shown(url)
    revise(url, PREVIOUS_REVISION)
    folder = Path(url.removeprefix("sqlite:///")).parent
    done = run("upgrade", "--runs", str(folder))
    assert done.exit_code == 0, done.output
    [copy] = folder.glob(f"leaderboard-{PREVIOUS_REVISION}-*.db")
    assert str(copy) in done.output
    assert (shown(url), shown(f"sqlite:///{copy}")) == (before, before)
    assert run("upgrade", "--runs", str(folder)).output.endswith(f"schema, {HEAD_REVISION}.\n")
    missing = run("upgrade", "--runs", str(folder / "none"))
    assert (missing.exit_code, "no leaderboard at" in missing.stderr) == (1, True)
    assert not (folder / "none").exists()


@pytest.mark.parametrize(
    "leaderboard_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_a_server_is_upgraded_once_it_is_backed_up(url) -> None:
    revise(url, PREVIOUS_REVISION)
    refused = run("upgrade", "--store", url)
    assert refused.exit_code == 1
    assert "pg_dump --format=custom" in refused.stderr and "p@ss" not in refused.stderr
    assert revision_of(url) == PREVIOUS_REVISION
    assert run("upgrade", "--store", url, "--backed-up").exit_code == 0
    assert revision_of(url) == HEAD_REVISION


def test_nothing_is_upgraded_under_a_driver(url, tmp_path) -> None:
    with (
        open_store(url) as board,
        Journal(tmp_path / "journal") as journal,
        Lease(board, "first", journal),
    ):
        revise(url, PREVIOUS_REVISION)
        with pytest.raises(SweepRefusedError, match=r"runs sweep 'first'(.*)cse-sweep stop first"):
            upgrade_store(url, has_copy=True)
    assert revision_of(url) == PREVIOUS_REVISION
    assert upgrade_store(url, has_copy=True).changed
