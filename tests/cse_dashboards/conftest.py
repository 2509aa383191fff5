"""A leaderboard to make pictures of."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from kept_models import *  # noqa: F403
from scored_boards import *  # noqa: F403
from sweep_events import *  # noqa: F403

from cse_dashboards.page.app import create_app
from cse_platform.leaderboard import Leaderboard, open_leaderboard
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store.opening import open_store as open_store
from cse_platform.tracking.events import Event


@pytest.fixture(scope="session")
def lab_url(
    tmp_path_factory: pytest.TempPathFactory,
    empty_leaderboard: Callable[[Path], str],
    two_methods: list[Event],
) -> str:
    """The leaderboard of `two_methods`; whoever changes it copies it before."""
    url = empty_leaderboard(tmp_path_factory.mktemp("lab") / "leaderboard.db")
    with open_store(url) as board:
        LeaderboardSink(board).apply("j", list(enumerate(two_methods, start=1)))
    return url


@pytest.fixture(scope="session")
def lab(lab_url: str) -> Iterator[Leaderboard]:
    """The same, to be asked."""
    with open_leaderboard(lab_url) as reader:
        yield reader


@pytest.fixture(scope="session")
def client(lab_url: str) -> FlaskClient:
    """The page over it."""
    return create_app(lab_url).test_client()
