"""A leaderboard to make pictures of."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from clean_runs import *  # noqa: F403
from flask.testing import FlaskClient
from kept_models import *  # noqa: F403
from paper_trials import *  # noqa: F403
from scored_boards import *  # noqa: F403
from sweep_events import *  # noqa: F403

from cse_dashboards.page.app import create_app
from cse_platform.leaderboard import Leaderboard, open_leaderboard


@pytest.fixture(scope="session")
def lab_url(filled_file: Path) -> str:
    """The leaderboard of `two_methods`; whoever changes it copies it before."""
    return f"sqlite:///{filled_file}"


@pytest.fixture(scope="session")
def lab(lab_url: str) -> Iterator[Leaderboard]:
    """The same, to be asked."""
    with open_leaderboard(lab_url) as reader:
        yield reader


@pytest.fixture(scope="session")
def client(lab_url: str) -> FlaskClient:
    """The page over it."""
    return create_app(lab_url).test_client()
