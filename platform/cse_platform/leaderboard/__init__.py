"""The leaderboard: which method is better, over seeds, from SQL.

from cse_platform import Filters, open_leaderboard

with open_leaderboard("runs") as board:
    for row in board.rows(Filters(backbone="bert-base")):
        print(row.method, row.scores["avg_sts"].mean, row.scores["avg_sts"].interval, row.rank)
"""

from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.filters import Filters

__all__ = ["Filters", "Leaderboard", "open_leaderboard"]
