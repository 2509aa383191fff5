from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kept_models import *  # noqa: F403
from paper_trials import *  # noqa: F403
from scored_boards import *  # noqa: F403
from sweep_events import *  # noqa: F403

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from cse_platform.leaderboard import Leaderboard
    from cse_platform.leaderboard.records import LeaderboardRow
    from cse_platform.tracking.events import Event

COMPILED: dict[object, object] = {}


@pytest.fixture(scope="module", autouse=True)
def templates_compiled_once() -> Iterator[None]:
    """Pages share their templates; each that a test makes would compile all of them anew."""
    from jinja2 import Environment

    compile_anew = Environment.compile

    def compile_once(environment: Environment, source: str, *how: object, **more: object) -> object:
        key = (source, how, *more.items())
        if key not in COMPILED:
            COMPILED[key] = compile_anew(environment, source, *how, **more)
        return COMPILED[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "compile", compile_once)
        yield


@pytest.fixture(scope="session")
def lab_url(filled_file: Path) -> str:
    """The leaderboard of `two_methods`; whoever changes it copies it before."""
    return f"sqlite:///{filled_file}"


@pytest.fixture(scope="session")
def lab(lab_url: str) -> "Iterator[Leaderboard]":
    from cse_platform.leaderboard import open_leaderboard

    with open_leaderboard(lab_url) as reader:
        yield reader


@pytest.fixture(scope="session")
def rows(lab: "Leaderboard") -> "list[LeaderboardRow]":
    return lab.rows(ranked=False)


@pytest.fixture(scope="session")
def client(lab_url: str) -> "FlaskClient":
    from cse_dashboards.page.app import create_app

    return create_app(lab_url).test_client()


@pytest.fixture(scope="session")
def filled_with(
    tmp_path_factory: pytest.TempPathFactory, empty_leaderboard: Callable[[Path], str]
) -> "Callable[..., str]":
    """Makes a new leaderboard that holds these events; gives its URL."""

    def make(*events: "Event") -> str:
        from stored_trials import fill_store

        file = tmp_path_factory.mktemp("filled") / "runs" / "leaderboard.db"
        return fill_store(empty_leaderboard(file), events)

    return make
