from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cse_platform.leaderboard.trials import dev_curves, read_trials
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import SweepRecord

Stored = Callable[[str], list[tuple[int, str, float | None, list[tuple[int, float]]]]]


@pytest.fixture
def runs(tmp_path, empty_leaderboard) -> Path:
    """A runs folder with an empty leaderboard."""
    empty_leaderboard(tmp_path / "runs" / "leaderboard.db")
    return tmp_path / "runs"


@pytest.fixture
def stored(runs) -> Stored:
    """Gives seed, state, dev score and dev curve of each trial of a sweep."""

    def read(sweep: str) -> Any:
        url = f"sqlite:///{runs}/leaderboard.db"
        with open_store(url, create=False) as board, board.session() as session:
            trials = read_trials(session, SweepRecord.name == sweep)
            curves = dev_curves(session, [trial.key for trial in trials])
            return [
                (t.seed, t.state, t.best_value, [(p.step, p.value) for p in curves[t.key]])
                for t in trials
            ]

    return read


@pytest.fixture
def here(filled) -> Store:
    """An empty leaderboard."""
    return filled([])
