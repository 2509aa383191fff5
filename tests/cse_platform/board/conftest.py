"""A leaderboard that can be ranked and compared."""

from scored_boards import *  # noqa: F403
