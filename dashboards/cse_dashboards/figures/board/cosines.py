"""The stored cosines behind a row's scores."""

from cse_platform.leaderboard.row import LeaderboardRow


def best_scored_trial(row: LeaderboardRow, task: str) -> str | None:
    """The key of a row's best seed on dev among those that are scored on a task."""
    scored = row.scores[task].values if task in row.scores else {}
    best = max(scored, key=lambda seed: row.dev_score.values[seed], default=None)
    return None if best is None else row.keys[best]
