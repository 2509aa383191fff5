import pytest
from scored_boards import *  # noqa: F403


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch) -> None:
    """Numbers that are easy to tell apart need no 10,000."""
    monkeypatch.setattr("cse_platform.leaderboard.comparisons._RESAMPLES", 1_000)
    monkeypatch.setattr("cse_platform.leaderboard.ranking._RESAMPLES", 1_000)
