"""A leaderboard to make pictures of."""

from scored_boards import *  # noqa: F403
from sweep_events import *  # noqa: F403
