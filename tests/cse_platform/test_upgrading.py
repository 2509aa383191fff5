"""A store of an older schema: read by the next version, upgraded when asked, and never else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, select
from stored_trials import apply_events

from cse_platform.cli.leaderboard import main
from cse_platform.errors import StoreError
from cse_platform.leaderboard import upgrade as upgrading
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.schemas import HEAD_REVISION, PREVIOUS_REVISION, stored_revision
from cse_platform.leaderboard.store import Store, open_for_reading, open_store, upgrade_store
from cse_platform.leaderboard.tables import Base
from cse_platform.leaderboard.upgrade import alembic_config, open_migration
from cse_platform.tracking.events import Event, SweepStarted
from cse_platform.tracking.journal import Journal

Life = Callable[..., list[Event]]
Start = Callable[..., SweepStarted]
Contents = Callable[[Store], dict[str, list[Any]]]


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
def url(
    board: Store, leaderboard_url: str, sweep_started: Start, trial_life: Life
) -> Iterator[str]:
    """A store of this version's schema with two trials, one of them tried twice."""
    apply_events(board, [sweep_started(), *trial_life(0, {0: 0.5, 1: 0.6}), *trial_life(1, {1: 1})])
    apply_events(board, [sweep_started(), *trial_life(0, {1: 0.4}, state="FAIL")], journal="other")
    board.close()
    yield leaderboard_url


def test_the_schema_before_is_read_as_if_it_were_upgraded(url: str) -> None:
    before = shown(url)
    assert len(before) == 1
    revise(url, PREVIOUS_REVISION)
    assert shown(url) == before
    with open_for_reading(url) as board, board.session() as session:
        for table in Base.metadata.sorted_tables:
            session.execute(select(*table.c)).all()
    assert revision_of(url) == PREVIOUS_REVISION


@pytest.mark.slow
def test_it_is_not_written_to(url: str) -> None:
    revise(url, PREVIOUS_REVISION)
    with pytest.raises(StoreError, match=f"of the older schema '{PREVIOUS_REVISION}'"):
        open_store(url)
    assert revision_of(url) == PREVIOUS_REVISION


@pytest.mark.slow
def test_an_older_one_says_how_it_is_upgraded(url: str) -> None:
    revise(url, "0008")
    for opened in (open_for_reading, open_store):
        with pytest.raises(StoreError, match=r"'0008'.* cse-leaderboard upgrade"):
            opened(url)
    assert revision_of(url) == "0008"


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["0003", "0006", PREVIOUS_REVISION])
def test_upgrade_keeps_what_is_there_and_a_copy_of_it(url: str, revision: str) -> None:
    before = shown(url)
    revise(url, revision)
    upgraded = upgrade_store(url, has_copy=True)
    assert (upgraded.before, revision_of(url)) == (revision, HEAD_REVISION)
    assert shown(url) == before
    if url.startswith("sqlite"):
        assert upgraded.copy is not None
        copy = f"sqlite:///{upgraded.copy}"
        assert revision_of(copy) == revision
        upgrade_store(copy)
        assert shown(copy) == before
    assert not upgrade_store(url).changed


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_the_command(url: str) -> None:
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
def test_a_server_is_upgraded_once_it_is_backed_up(url: str) -> None:
    revise(url, PREVIOUS_REVISION)
    refused = run("upgrade", "--store", url)
    assert refused.exit_code == 1
    assert "pg_dump --format=custom" in refused.stderr and "p@ss" not in refused.stderr
    assert revision_of(url) == PREVIOUS_REVISION
    assert run("upgrade", "--store", url, "--backed-up").exit_code == 0
    assert revision_of(url) == HEAD_REVISION


@pytest.mark.slow
def test_what_is_cut_off_is_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migrations have run, and the transaction is not committed."""
    revise(url, "0008")
    before = upgrading.migrate

    def cut(connection: Any) -> None:
        before(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(upgrading, "migrate", cut)
    with pytest.raises(KeyboardInterrupt):
        upgrade_store(url, has_copy=True)
    monkeypatch.undo()
    assert revision_of(url) == "0008"
    assert upgrade_store(url, has_copy=True).changed
    assert len(shown(url)) == 1


def test_nothing_is_upgraded_under_a_driver(url: str, tmp_path: Path) -> None:
    with (
        open_store(url) as board,
        Journal(tmp_path / "journal") as journal,
        Lease(board, "first", journal),
    ):
        revise(url, PREVIOUS_REVISION)
        with pytest.raises(StoreError, match=r"runs sweep 'first'(.*)cse-sweep stop first"):
            upgrade_store(url, has_copy=True)
    assert revision_of(url) == PREVIOUS_REVISION
    assert upgrade_store(url, has_copy=True).changed
