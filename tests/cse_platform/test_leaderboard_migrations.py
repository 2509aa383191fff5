"""A leaderboard of an older schema keeps what it holds, up and down again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from alembic import command
from first_schema import go_back_to_first_schema
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import IntegrityError
from stored_trials import stored_scores

from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import Store, open_store, upgrade_store
from cse_platform.leaderboard.tables import OtherAttemptRecord, TrialRecord
from cse_platform.leaderboard.upgrade import alembic_config, open_migration
from cse_platform.tracking.events import TrialEvaluated

pytestmark = pytest.mark.slow

SECOND_SWEEP = [
    "INSERT INTO sweeps (id, name, method, backbone, spec, provenance, state, started) "
    "SELECT 2, 'second', method, backbone, spec, provenance, state, started FROM sweeps",
    "INSERT INTO sweep_trials VALUES (2, 2, 0, 'search', 0)",
]
DEV_SCORES = [(1, "sickr", 0.5), (1, "stsb", 0.75), (2, "stsb", 0.75)]


def opening(source: str | None) -> str:
    told = "NULL" if source is None else f"'{source}'"
    return (
        "INSERT INTO test_releases (trial_id, opened, who, command, tasks, source) "
        f"VALUES (1, '2026-01-03 00:00:00', 'ann', 'cse-sweep', '[]', {told})"
    )


@pytest.fixture
def engine(leaderboard_url: str, board: Store) -> Iterator[Engine]:
    """A store of schema 0001 with data."""
    board.close()
    engine = create_engine(leaderboard_url)
    go_back_to_first_schema(engine)
    yield engine
    engine.dispose()


def upgraded(url: str) -> Store:
    upgrade_store(url, has_copy=True)
    return open_store(url)


def dev_scores(connection: Connection) -> list[tuple[Any, ...]]:
    query = "SELECT trial_id, task, value FROM scores WHERE split = 'dev' ORDER BY trial_id, task"
    return list(map(tuple, connection.execute(text(query))))


def test_up_gives_each_dev_score_its_identity_and_its_time(
    engine: Engine, leaderboard_url: str
) -> None:
    upgraded(leaderboard_url).close()
    with engine.connect() as connection:
        assert dev_scores(connection) == DEV_SCORES
        told = connection.execute(text("SELECT DISTINCT identity, trial_id, measured FROM scores"))
        found = sorted((identity, trial, str(time)[:13]) for identity, trial, time in told)
    assert found == [("dev-1", 1, "2026-01-02 01"), ("dev-1", 2, "2026-01-02 02")]


def test_up_puts_configurations_under_contests(engine: Engine, leaderboard_url: str) -> None:
    with open_migration(engine) as connection:
        told = '{"host": "gpu-1", "gpu": "A100", "cpu": "EPYC"}'
        connection.execute(
            text("UPDATE trials SET wall_seconds = 7200, provenance = :told WHERE id = 2"),
            {"told": told},
        )
        resources = '{"resources": {"gpu": 0.5}}'
        connection.execute(text("UPDATE sweeps SET spec = :spec"), {"spec": resources})
        for statement in SECOND_SWEEP:
            connection.execute(text(statement))
    with upgraded(leaderboard_url) as board, board.session() as session:
        [row] = board_rows(session)
        # Of a trial in two sweeps nobody knows which of them it ran in: the first stands for it.
        took = session.execute(text("SELECT sweep_id, trial_id, gpu_seconds FROM sweep_trials"))
        assert sorted(map(tuple, took)) == [(1, 1, 0), (1, 2, 3600), (2, 2, 0)]
        assert session.scalars(text("SELECT gpu_seconds FROM configurations")).all() == [3600]
    assert (row.method, row.backbone, row.trials, row.gpu_hours) == ("rankcse", "mini", 2, 1.0)
    assert (row.dev.identity, row.dev.source) == ("dev-1", "hub")
    assert row.machines == ["gpu-1 · A100"]
    with engine.connect() as connection:
        told = connection.execute(text("SELECT sweep_id, provenance FROM sweep_starts")).all()
        assert [(s, str(provenance)) for s, provenance in sorted(told)] == [(1, "{}"), (2, "{}")]


def test_up_takes_the_peak_memory_from_provenance(engine: Engine, leaderboard_url: str) -> None:
    """Of a stored trial no more is known, and of some not even that."""
    told = {1: '{"peak_memory_mib": "512", "gpu_peak_memory_mib": "10240"}', 2: "[]"}
    with open_migration(engine) as connection:
        command.upgrade(alembic_config(connection), "0010")
        for trial, provenance in told.items():
            connection.execute(
                text("UPDATE trials SET provenance = :told WHERE id = :trial"),
                {"told": provenance, "trial": trial},
            )
        connection.execute(
            text(
                "INSERT INTO other_attempts (trial_id, journal, state, started, provenance, "
                "best_metrics) VALUES (2, 'j', 'FAIL', '2026-01-01 00:00:00', :told, '{}')"
            ),
            {"told": '{"peak_memory_mib": "256"}'},
        )
    with upgraded(leaderboard_url) as board, board.session() as session:
        [row] = board_rows(session)
        other = session.get_one(OtherAttemptRecord, (2, "j"))
        assert other.costs == {"host_memory_gib": 0.25}
        assert session.get_one(TrialRecord, 2).costs == {}
    assert {name: one.values for name, one in row.costs.items()} == {
        "gpu_memory_gib": {1: 10},
        "host_memory_gib": {1: 0.5},
    }


def test_up_tells_the_source_where_all_openings_were_of_one(
    engine: Engine, leaderboard_url: str
) -> None:
    """Trial 1 was scored on hub data, under e1 and e2; trial 2, under e2, on built-in data too."""
    openings = [(1, "hub"), (2, "hub"), (2, "builtin")]
    scored = [(1, "e1", "test"), (1, "e2", "test"), (2, "e2", "test"), (1, "e3", "dev")]
    with open_migration(engine) as connection:
        command.upgrade(alembic_config(connection), "0002")
        for identity in ("e1", "e2", "e3", "e4"):
            connection.execute(text(f"INSERT INTO evaluations VALUES ('{identity}', '{{}}')"))
        for trial, source in openings:
            told = opening(source).replace("VALUES (1", f"VALUES ({trial}").replace("ann", source)
            connection.execute(text(told))
        for trial, identity, split in scored:
            connection.execute(
                text(
                    "INSERT INTO scores (trial_id, task, split, metric, value, identity, measured) "
                    f"VALUES ({trial}, 'mr', '{split}', 'accuracy', 0.5, '{identity}', "
                    "'2026-01-03 00:00:00')"
                )
            )
    upgraded(leaderboard_url).close()
    with engine.connect() as connection:
        told = connection.execute(text("SELECT identity, source FROM evaluations"))
        assert dict(map(tuple, told)) == {"e1": "hub", "e2": None, "e3": None, "e4": None}


def test_what_was_stored_goes_on(
    engine: Engine, leaderboard_url: str, trial_evaluated: Callable[..., TrialEvaluated]
) -> None:
    with upgraded(leaderboard_url) as board:
        event = trial_evaluated("c1-1", {"test/stsb_spearman": 0.5})
        LeaderboardSink(board).apply("j", [(1, event)])
        with board.session() as session:
            [row] = board_rows(session)
            assert (row.n, row.dev_score.mean, row.scores["stsb"].mean) == (2, 0.75, 0.5)
            assert [one.value for one in stored_scores(session, "c1-1")] == [0.5]


@pytest.mark.parametrize(
    ("revision", "nonsense"),
    [
        ("0001", "UPDATE scores SET value = -1.5"),
        ("0001", "UPDATE scores SET task = 'stsb', metric = 'spearman'"),
        ("0001", "UPDATE scores SET trial_id = 99 WHERE trial_id = 2"),
        ("0002", "UPDATE scores SET value = -1.5"),
        ("0002", "UPDATE scores SET identity = NULL"),
        ("0002", "UPDATE scores SET measured = NULL"),
        ("0002", "UPDATE scores SET task = 'stsb', metric = 'spearman'"),
        ("0002", "UPDATE scores SET trial_id = 99 WHERE trial_id = 2"),
        ("0002", opening("papers")),
        ("0002", opening(None)),
    ],
)
def test_either_schema_refuses_nonsense(engine: Engine, revision: str, nonsense: str) -> None:
    with open_migration(engine) as connection:
        if revision == "0001":  # by way of 0002, which makes the table anew
            command.upgrade(alembic_config(connection), "0002")
            command.downgrade(alembic_config(connection), "0001")
        else:
            command.upgrade(alembic_config(connection), revision)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("PRAGMA foreign_keys = ON"))
        with pytest.raises(IntegrityError, match=r"(?i)constraint"):
            connection.execute(text(nonsense))
